"""Every kernel of one network on given inputs, as `dgn kernels` writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.frames import Array

LEADING = 200  # eigenvalues of kernels too large to diagonalise


@dataclass(frozen=True)
class KernelSettings:
    """How the kernels are computed; `normalise` applies to overlaps and NPK, never to an NTK;
    `folded` as in `tangent_kernels`."""

    logits: k.Logits = "mean"
    normalise: k.Normalise = "none"
    memory_bytes: int = 4 << 30
    folded: bool = False


def kernel_arrays(
    network: GatedNetwork, x: Tensor, labels: Tensor | None, settings: KernelSettings
) -> dict[str, Array]:
    """Arrays by name, for n inputs x (n, *input_shape) and L gate layers.

    `gram` of the value input, `tau_1` … `tau_L` of value layer l after the wiring, `overlap` Λ,
    `sensitive` S, `npk` H, `ntk_value`, `ntk_feature`, `ntk_cross` where they exist and their sum
    `ntk`; `eigenvalues` and, with labels, `nu` of H scaled to trace 1; `eigenvalues_NAME` of
    the other kernels, likewise scaled. Of kernels with more than 2,000 rows there are the 200
    largest eigenvalues. With `nu` come `nu_rank`, `nu_cutoff`, `nu_ridge`, `nu_outside` (as
    `kernels.Nu`) and `nu_contradictory`, how many inputs occur with another label as well. With
    'cosine', examples without an open path are NaN, and such a kernel has no eigenvalues. Raises
    `UserError` where n is too large for the memory.
    """
    budget, logits = settings.memory_bytes, settings.logits
    k.check_budget(network, len(x), budget, logits, more=" (or --memory)")
    how = settings.normalise
    shared = k.SharedKernels(network, x, logits=logits, folded=settings.folded)
    found: dict[str, Tensor] = {"gram": shared.gram}
    for layer, gates in enumerate(shared.gates):
        found[f"tau_{layer + 1}"] = k.layer_overlap(gates)
    found["overlap"] = shared.overlap(how)
    found["sensitive"] = shared.sensitive(how)
    found["npk"] = shared.npk(how)
    tangent = shared.tangent
    found["ntk"] = tangent.whole
    for part, kernel in (
        ("value", tangent.value),
        ("feature", tangent.feature),
        ("cross", tangent.cross),
    ):
        if kernel is not None:
            found[f"ntk_{part}"] = kernel
    _check_finite(found, how)
    arrays = {name: tensor.cpu().numpy() for name, tensor in found.items()}
    arrays.update(_spectra(found, labels, network.architecture.classes))
    if "nu" in arrays and labels is not None:
        arrays["nu_contradictory"] = np.array(len(k.contradictory_examples(x, labels)))
    return arrays


def _spectra(found: dict[str, Tensor], labels: Tensor | None, classes: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    targets = None if labels is None else k.class_targets(labels, classes)
    for name, kernel in found.items():
        if name.startswith("tau_") or name == "ntk_cross" or kernel.dim() == 3:
            continue  # K^X is no kernel of its own: its trace may vanish
        square = kernel.reshape(kernel.shape[0] * (kernel.shape[1] if kernel.dim() == 4 else 1), -1)
        if not float(square.diagonal().sum()) > 0.0 or bool(torch.isnan(square).any()):
            continue
        suffix = "" if name == "npk" else f"_{name}"
        parts = _spectrum(square, targets if name == "npk" else None)
        arrays.update({f"{part}{suffix}": array for part, array in parts.items()})
    return arrays


def _spectrum(kernel: Tensor, targets: Tensor | None) -> dict[str, Array]:
    """Eigenvalues and ν, with what was left out of it."""
    if len(kernel) > k.FULL_UP_TO:
        eigenvalues = k.leading_spectrum(kernel, LEADING).eigenvalues
        nu = None if targets is None else k.nu(kernel, targets)
    else:
        spectrum = k.spectrum(kernel, targets)
        eigenvalues, nu = spectrum.eigenvalues, spectrum.nu_with_cut
    parts = {"eigenvalues": eigenvalues.cpu().numpy()}
    if nu is not None:
        parts |= {
            "nu": np.array(nu.value),
            "nu_rank": np.array(nu.rank),
            "nu_cutoff": np.array(nu.cutoff),
            "nu_ridge": np.array(nu.ridge),
            "nu_outside": np.array(nu.outside),
        }
    return parts


def _check_finite(found: dict[str, Tensor], normalise: k.Normalise) -> None:
    """Refuse what overflowed; 'cosine' leaves NaN where an example has no open path."""
    for name, kernel in found.items():
        empty = normalise == "cosine" and name in ("overlap", "sensitive", "npk")
        if bool(torch.isinf(kernel).any()) or (bool(torch.isnan(kernel).any()) and not empty):
            remedy = "scale the inputs down"
            if kernel.dtype == torch.float32:
                remedy = "use --dtype float64"
            elif name in ("overlap", "sensitive", "npk"):
                remedy = "use --scale width"
            raise UserError(
                f"The kernel '{name}' is not finite: its entries are too large; {remedy}."
            )
