"""All kernels of a network, or K of any module, as arrays by name (`dgn kernels`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dgn_engine import kernels as k
from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.kernels.arguments import Array
from dgn_engine.kernels.empirical import module_kernel
from dgn_engine.kernels.generalisation import has_relu_bound
from dgn_engine.kernels.kernel_plan import KernelPlan, plan_kernels
from dgn_engine.model.network import GatedNetwork

LEADING = 200  # number of eigenvalues for kernels too large to diagonalise


@dataclass(frozen=True)
class KernelSettings:
    """Settings of a kernel report.

    Attributes:
        logits: As for `tangent_kernels`.
        normalise: Normalisation of overlaps and NPK; never applied to an NTK.
        memory_bytes: Memory allowed.
        folded: As for `tangent_kernels`.
        only: Names of the quantities to compute; all if `None`.
    """

    logits: k.Logits = "mean"
    normalise: k.Normalise = "none"
    memory_bytes: int = 4 << 30
    folded: bool = False
    only: tuple[str, ...] | None = None

    def make_plan(self, network: GatedNetwork, x: Tensor, labels: Tensor | None) -> KernelPlan:
        """Plan what `kernel_arrays` computes within the memory.

        Args:
            network: The network.
            x: Inputs, `(n, *input_shape)`.
            labels: Class numbers, `(n,)`, or `None`.

        Returns:
            The plan.

        Raises:
            UserError: Nothing fits.
        """
        given = (self.memory_bytes, self.logits, self.only, labels is not None)
        return plan_kernels(network, len(x), *given)


def kernel_arrays(
    network: GatedNetwork,
    x: Tensor,
    labels: Tensor | None,
    settings: KernelSettings,
    plan: KernelPlan | None = None,
) -> dict[str, Array]:
    """Compute the kernels of a network, with eigenvalues and ν, as arrays by name.

    For L gate layers the names are `gram` (Σ of the value input), `tau_1` … `tau_L` (value layer l,
    after the wiring), `overlap` (Λ), `sensitive` (S), `delta` (δ, if `only` names it), `npk` (H),
    `ntk_value`, `ntk_feature`, `ntk_cross` as far as they exist, and their sum `ntk`; `eigenvalues`
    and, with labels, `nu` of H scaled to trace 1; `eigenvalues_NAME` of the other kernels, scaled
    likewise, except for `tau_l`, `ntk_cross` and tangent kernels 'perclass'. For kernels with more
    than 2,000 rows, eigenvalues are the 200 largest. `nu` comes with `nu_rank`, `nu_cutoff`,
    `nu_ridge`, `nu_outside` (see `kernels.Nu`) and `nu_contradictory`, the number of inputs that
    also occur with another label; if `only` names K and not H, they are those of K (`nu_ntk`,
    `nu_rank_ntk` …). Beside ν, `bound`, `bound_rank` and so on are those of `kernels.ReluBound`,
    for dense networks without biases. With 'cosine', examples without an active path are NaN, and
    such a kernel has no eigenvalues.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        labels: Class numbers, `(n,)`, or `None`.
        settings: How to compute them.
        plan: Which of them to compute. Default: that of the settings.

    Returns:
        Arrays by name.

    Raises:
        UserError: Nothing fits into the memory, or a kernel overflows.
    """
    plan = plan or settings.make_plan(network, x, labels)
    how = settings.normalise
    shared = k.SharedKernels(network, x, logits=settings.logits, folded=settings.folded)
    tensors: dict[str, Tensor] = {}
    if plan.uses("gram"):
        tensors["gram"] = shared.gram
    if plan.computes("gates"):
        for layer, gates in enumerate(shared.gates):
            tensors[f"tau_{layer + 1}"] = k.layer_overlap(gates)
    if plan.uses("overlap"):
        tensors["overlap"] = shared.overlap(how)
    if plan.uses("sensitive"):
        tensors["sensitive"] = shared.sensitive_overlap(how)
    if plan.uses("delta"):
        tensors["delta"] = k.path_gradient_overlap(network, x, normalise=how)
    if plan.uses("npk"):
        tensors["npk"] = shared.npk(how)
    if plan.uses("ntk"):
        tangent = shared.tangent
        tensors["ntk"] = tangent.total_kernel
        parts = {"value": tangent.value, "feature": tangent.feature, "cross": tangent.cross}
        tensors.update(
            {f"ntk_{part}": kernel for part, kernel in parts.items() if kernel is not None}
        )
    _check_finite(tensors, how)
    arrays = _collect_arrays(tensors, x, labels, network.architecture.classes, plan)
    if labels is not None and "nu_contradictory" in arrays and has_relu_bound(network):
        arrays |= _bound_arrays(x, labels, network)
    return arrays


def module_arrays(
    module: nn.Module,
    x: Tensor,
    labels: Tensor | None,
    classes: int,
    settings: KernelSettings,
    plan: KernelPlan,
) -> tuple[dict[str, Array], list[str]]:
    """Compute K of any module by `empirical_ntk`, with eigenvalues and ν, as arrays by name.

    If the module ends with a softmax, K is that of its logits. The names are `ntk`;
    `eigenvalues_ntk` of K scaled to trace 1, if K is (n, n) or (n, C, n, C); with labels and K (n,
    n), `nu_ntk`, `nu_rank_ntk`, `nu_cutoff_ntk`, `nu_ridge_ntk`, `nu_outside_ntk` and
    `nu_contradictory`.

    Args:
        module: The module.
        x: Inputs, `(n, ...)`.
        labels: Class numbers, `(n,)`, or `None`.
        classes: Number of logits C.
        settings: How to compute them.
        plan: Which of them to compute, from `plan_tangent_kernel`.

    Returns:
        Arrays by name, and remarks on what K is of and how it was computed.

    Raises:
        ValueError: The module is not a function of single examples, or its Jacobian is too large
          for the memory. Whatever the module's code raises is passed on.
    """
    result = module_kernel(
        module, x, None, settings.logits, settings.memory_bytes, before_softmax=True
    )
    tensors = {"ntk": result.kernel}
    _check_finite(tensors, settings.normalise)
    arrays = _collect_arrays(tensors, x.to(result.kernel.dtype), labels, classes, plan)
    return arrays, [remark for remark in (result.outputs, result.remark) if remark]


def _collect_arrays(
    tensors: dict[str, Tensor], x: Tensor, labels: Tensor | None, classes: int, plan: KernelPlan
) -> dict[str, Array]:
    """Convert kernels to arrays and add the eigenvalues and ν that a plan asks for."""
    arrays: dict[str, Array] = {}
    targets = None if labels is None else k.class_targets(labels, classes)
    for name, kernel in tensors.items():
        kind = name.partition("_")[0]  # ntk_value → ntk, tau_1 → tau
        if plan.computes("gates" if kind == "tau" else kind):
            arrays[name] = kernel.cpu().numpy()
        if kind == "tau" or name == "ntk_cross" or kernel.dim() == 3:
            continue  # K^X is not positive semi-definite, and its trace may vanish
        square = kernel.reshape(kernel.shape[0] * (kernel.shape[1] if kernel.dim() == 4 else 1), -1)
        if not float(square.diagonal().sum()) > 0.0 or bool(torch.isnan(square).any()):
            continue
        suffix = "" if kind == "npk" else f"_{kind}"
        with_nu = name == kind and plan.computes(f"nu{suffix}")
        with_eigenvalues = plan.computes(f"eigenvalues{suffix}")
        if not (with_nu or with_eigenvalues):
            continue
        parts = _spectrum_arrays(square, targets if with_nu else None)
        if not with_eigenvalues:
            del parts["eigenvalues"]
        suffix = "" if name == "npk" else f"_{name}"
        arrays.update({f"{part}{suffix}": array for part, array in parts.items()})
    if labels is not None and ("nu" in arrays or "nu_ntk" in arrays):
        arrays["nu_contradictory"] = np.array(len(k.contradictory_examples(x, labels)))
    return arrays


def _bound_arrays(x: Tensor, labels: Tensor, network: GatedNetwork) -> dict[str, Array]:
    """Compute the bound of Cao & Gu; nothing if an input is zero."""
    targets = k.class_targets(labels, network.architecture.classes)
    try:
        bound = k.relu_bound(x, targets, len(network.architecture.weight_layers))
    except ArgumentError:
        return {}
    return {
        "bound": np.array(bound.value),
        "bound_rank": np.array(bound.rank),
        "bound_cutoff": np.array(bound.cutoff),
        "bound_ridge": np.array(bound.ridge),
        "bound_outside": np.array(bound.outside),
    }


def _spectrum_arrays(kernel: Tensor, targets: Tensor | None) -> dict[str, Array]:
    """Compute eigenvalues and ν of one kernel."""
    if len(kernel) > k.FULL_UP_TO:
        eigenvalues = k.leading_spectrum(kernel, LEADING).eigenvalues
        nu = None if targets is None else k.nu(kernel, targets)
    else:
        spectrum = k.spectrum(kernel, targets)
        eigenvalues, nu = spectrum.eigenvalues, spectrum.nu_with_cutoff
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


def _check_finite(tensors: dict[str, Tensor], normalise: k.Normalise) -> None:
    """Raise `UserError` if a kernel overflowed; with 'cosine', NaN is allowed."""
    for name, kernel in tensors.items():
        empty = normalise == "cosine" and name in ("overlap", "sensitive", "delta", "npk")
        if bool(torch.isinf(kernel).any()) or (bool(torch.isnan(kernel).any()) and not empty):
            remedy = "scale down the inputs"
            if kernel.dtype == torch.float32:
                remedy = "use --dtype float64"
            elif name in ("overlap", "sensitive", "delta", "npk"):
                remedy = "use --scale width"
            raise UserError(
                f"Kernel '{name}' overflows; {remedy}.",
                kind="not-finite",
            )
