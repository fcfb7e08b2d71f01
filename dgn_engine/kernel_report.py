"""Every kernel of one network on given inputs, as `dgn kernels` writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.network import GatedNetwork
from dgn_engine.protocol.frames import Array
from dgn_engine.refusal import Refusal


@dataclass(frozen=True)
class KernelSettings:
    """How the kernels are computed; `normalise` applies to overlaps and NPK, never to an NTK."""

    logits: k.Logits = "mean"
    normalise: k.Normalise = "none"
    memory_bytes: int = 4 << 30


def kernel_arrays(
    network: GatedNetwork, x: Tensor, labels: Tensor | None, settings: KernelSettings
) -> dict[str, Array]:
    """Arrays by name, for n inputs x (n, *input_shape) and L gate layers.

    `gram` of the value input, `tau_1` … `tau_L` of value layer l after the wiring, `overlap` Λ,
    `sensitive` S, `npk` H, `ntk_value`, `ntk_feature`, `ntk_cross` where they exist and their sum
    `ntk`; `eigenvalues` and, with labels, `nu` of H scaled to trace 1; `eigenvalues_NAME` of
    the other kernels, likewise scaled. With 'cosine', examples without an open path are NaN, and
    such a kernel has no eigenvalues. Raises `Refusal` where n is too large for the memory.
    """
    _check_size(network, len(x), settings)
    how = settings.normalise
    shared = k.SharedKernels(network, x, logits=settings.logits)
    found: dict[str, Tensor] = {"gram": shared.gram}
    for layer, gates in enumerate(shared.gates):
        found[f"tau_{layer + 1}"] = k.layer_overlap(gates)
    found["overlap"] = shared.overlap(how)
    found["sensitive"] = shared.sensitive(how)
    found["npk"] = shared.npk(how)
    tangent = shared.tangent
    found["ntk"] = tangent.whole
    found["ntk_value"] = tangent.value
    if tangent.feature is not None:
        found["ntk_feature"] = tangent.feature
    if tangent.cross is not None:
        found["ntk_cross"] = tangent.cross
    _check_finite(found, how)
    arrays = {name: tensor.cpu().numpy() for name, tensor in found.items()}
    arrays.update(_spectra(found, labels, network.architecture.classes))
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
        spectrum = k.spectrum(square, targets if name == "npk" else None)
        key = "eigenvalues" if name == "npk" else f"eigenvalues_{name}"
        arrays[key] = spectrum.eigenvalues.cpu().numpy()
        if spectrum.nu is not None:
            arrays["nu"] = np.array(spectrum.nu)
            arrays["nu_rank"] = np.array(spectrum.rank)
            arrays["nu_cutoff"] = np.array(spectrum.cutoff)
    return arrays


def _check_finite(found: dict[str, Tensor], normalise: k.Normalise) -> None:
    """Refuse what overflowed; 'cosine' leaves NaN where an example has no open path."""
    for name, kernel in found.items():
        empty = normalise == "cosine" and name in ("overlap", "sensitive", "npk")
        if bool(torch.isinf(kernel).any()) or (bool(torch.isnan(kernel).any()) and not empty):
            raise Refusal(
                f"The kernel '{name}' is not finite: its entries are too large; "
                "use --dtype float64, or --normalise width."
            )


def _check_size(network: GatedNetwork, n: int, settings: KernelSettings) -> None:
    """Refuse what would not fit, with the size that does."""
    item = next(network.parameters()).element_size()
    classes = network.architecture.classes
    layers = len(network.architecture.gated_shapes)
    logits = {"full": classes**2, "perclass": classes}.get(settings.logits, 1)
    each = item * 4 * logits + 8 * (layers + 5)  # bytes per pair of inputs
    if n * n * each > settings.memory_bytes:
        fits = int((settings.memory_bytes / each) ** 0.5)
        raise Refusal(
            f"{n:,} inputs need {n * n * each / 2**30:,.1f} GiB for their kernels, more than the "
            f"{settings.memory_bytes / 2**30:g} GiB allowed; {fits:,} inputs fit (or --memory)."
        )
