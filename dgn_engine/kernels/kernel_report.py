"""Every kernel of one network on given inputs, or K of any module, as `dgn kernels` writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import Array
from dgn_engine.kernels.empirical import module_kernel
from dgn_engine.kernels.kernel_plan import KernelPlan, plan_kernels
from dgn_engine.model.network import GatedNetwork

LEADING = 200  # eigenvalues of kernels too large to diagonalise


@dataclass(frozen=True)
class KernelSettings:
    """How the kernels are computed; `normalise` applies to overlaps and NPK, never to an NTK;
    `folded` as in `tangent_kernels`."""

    logits: k.Logits = "mean"
    normalise: k.Normalise = "none"
    memory_bytes: int = 4 << 30
    folded: bool = False
    only: tuple[str, ...] | None = None

    def plan(self, network: GatedNetwork, x: Tensor, labels: Tensor | None) -> KernelPlan:
        """Return what `kernel_arrays` computes within the memory; raises `UserError`."""
        given = (self.memory_bytes, self.logits, self.only, labels is not None)
        return plan_kernels(network, len(x), *given)


def kernel_arrays(
    network: GatedNetwork,
    x: Tensor,
    labels: Tensor | None,
    settings: KernelSettings,
    plan: KernelPlan | None = None,
) -> dict[str, Array]:
    """Arrays by name, for n inputs x (n, *input_shape) and L gate layers.

    `gram` of the value input, `tau_1` … `tau_L` of value layer l after the wiring, `overlap` Λ,
    `sensitive` S, `npk` H, `ntk_value`, `ntk_feature`, `ntk_cross` where they exist and their sum
    `ntk`; `eigenvalues` and, with labels, `nu` of H scaled to trace 1; `eigenvalues_NAME` of
    the other kernels, likewise scaled. Of kernels with more than 2,000 rows there are the 200
    largest eigenvalues. With `nu` come `nu_rank`, `nu_cutoff`, `nu_ridge`, `nu_outside` (as
    `kernels.Nu`) and `nu_contradictory`, how many inputs occur with another label as well. With
    'cosine', examples without an open path are NaN, and such a kernel has no eigenvalues.

    `plan`, or else that of the settings, says which of these there are. Raises `UserError` where
    n is too large for the memory of any.
    """
    plan = plan or settings.plan(network, x, labels)
    how = settings.normalise
    shared = k.SharedKernels(network, x, logits=settings.logits, folded=settings.folded)
    found: dict[str, Tensor] = {}
    if plan.uses("gram"):
        found["gram"] = shared.gram
    if plan.computes("gates"):
        for layer, gates in enumerate(shared.gates):
            found[f"tau_{layer + 1}"] = k.layer_overlap(gates)
    if plan.uses("overlap"):
        found["overlap"] = shared.overlap(how)
    if plan.uses("sensitive"):
        found["sensitive"] = shared.sensitive(how)
    if plan.uses("npk"):
        found["npk"] = shared.npk(how)
    if plan.uses("ntk"):
        tangent = shared.tangent
        found["ntk"] = tangent.whole
        parts = {"value": tangent.value, "feature": tangent.feature, "cross": tangent.cross}
        found.update(
            {f"ntk_{part}": kernel for part, kernel in parts.items() if kernel is not None}
        )
    _check_finite(found, how)
    return _arrays(found, x, labels, network.architecture.classes, plan)


def module_arrays(
    module: nn.Module,
    x: Tensor,
    labels: Tensor | None,
    classes: int,
    settings: KernelSettings,
    plan: KernelPlan,
) -> tuple[dict[str, Array], list[str]]:
    """K alone, of any module by `empirical_ntk`, of its logits where it ends with a softmax, and
    remarks on what K is of and how it was computed.

    Arrays by name: `ntk`; `eigenvalues_ntk` of K scaled to trace 1, where K is (n, n) or
    (n, C, n, C); with labels, where it is (n, n), `nu_ntk`, `nu_rank_ntk`, `nu_cutoff_ntk`,
    `nu_ridge_ntk`, `nu_outside_ntk` and `nu_contradictory`; of these what `plan` says, which
    `plan_tangent_kernel` makes. Raises `ValueError` where the module is no function of one example
    or its Jacobian is too large for the memory, and whatever its own code raises.
    """
    made = module_kernel(
        module, x, None, settings.logits, settings.memory_bytes, before_softmax=True
    )
    found = {"ntk": made.kernel}
    _check_finite(found, settings.normalise)
    arrays = _arrays(found, x.to(made.kernel.dtype), labels, classes, plan)
    return arrays, [remark for remark in (made.outputs, made.remark) if remark]


def _arrays(
    found: dict[str, Tensor], x: Tensor, labels: Tensor | None, classes: int, plan: KernelPlan
) -> dict[str, Array]:
    """The kernels that a plan asks for, with their eigenvalues and ν."""
    arrays: dict[str, Array] = {}
    targets = None if labels is None else k.class_targets(labels, classes)
    for name, kernel in found.items():
        kind = name.partition("_")[0]  # of ntk_value, tau_1
        if plan.computes("gates" if kind == "tau" else kind):
            arrays[name] = kernel.cpu().numpy()
        if kind == "tau" or name == "ntk_cross" or kernel.dim() == 3:
            continue  # K^X is no kernel of its own: its trace may vanish
        square = kernel.reshape(kernel.shape[0] * (kernel.shape[1] if kernel.dim() == 4 else 1), -1)
        if not float(square.diagonal().sum()) > 0.0 or bool(torch.isnan(square).any()):
            continue
        suffix = "" if kind == "npk" else f"_{kind}"
        with_nu = name == kind and plan.computes(f"nu{suffix}")
        with_eigenvalues = plan.computes(f"eigenvalues{suffix}")
        if not (with_nu or with_eigenvalues):
            continue
        parts = _spectrum(square, targets if with_nu else None)
        if not with_eigenvalues:
            del parts["eigenvalues"]
        suffix = "" if name == "npk" else f"_{name}"
        arrays.update({f"{part}{suffix}": array for part, array in parts.items()})
    if labels is not None and ("nu" in arrays or "nu_ntk" in arrays):
        arrays["nu_contradictory"] = np.array(len(k.contradictory_examples(x, labels)))
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
                f"The kernel '{name}' is not finite: its entries are too large; {remedy}.",
                kind="not-finite",
            )
