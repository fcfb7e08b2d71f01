"""Statistics of a network without training it: gates, overlaps, path kernel and spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import Array
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.shared import KAPPA
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream

RATE = 1.6e9  # assumed operations per second of the exact recursion
KEPT = 6  # tensors of a layer's size that two forward passes keep

Roads = Literal["auto", "exact", "estimate"]


@dataclass(frozen=True)
class GateStatisticsSettings:
    """Settings of `gate_statistics`.

    Attributes:
        road: How path kernels are computed: 'exact' recursion, 'estimate' from random value
          networks, or 'auto' for the former if it fits into `seconds` and `memory_bytes`.
        draws: Number of random value networks of an estimate.
        seconds: Time allowed for the exact recursion.
        memory_bytes: Memory allowed.
        seed: Seed of the estimate.
        layers: Gate layers to report individually, from 0; all if empty.
    """

    road: Roads = "auto"
    draws: int = 100
    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    seed: int = 0
    layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class ClassSimilarity(HtmlFields):
    """Mean entry of a kernel with unit diagonal, within one class and between two.

    A value is `None` if there is no such pair of examples, or none of them has an active path.
    """

    same: float | None
    other: float | None


@dataclass(frozen=True)
class LayerGateStatistics(HtmlFields):
    """Statistics of one gate layer.

    Attributes:
        name: Name of the layer, for example 'conv 2'.
        shape: Shape of the layer, `(w,)` or `(C, H, W)`.
        open: Fraction of open gates.
        never: Number of units that are closed for every example and position.
        always: Number of units that are open for every example and position.
        overlap: Similarity by τ = GGᵀ.
        sensitive: Similarity by DDᵀ.
    """

    name: str
    shape: tuple[int, ...]
    open: float
    never: int
    always: int
    overlap: ClassSimilarity
    sensitive: ClassSimilarity


@dataclass(frozen=True)
class GateStatistics(HtmlFields):
    """Result of `gate_statistics`.

    Attributes:
        layers: Statistics of the gate layers.
        overlap: Similarity by Λ.
        sensitive: Similarity by S; `None` if only estimates are available.
        relative: Relative standard error (Frobenius) of an estimated kernel; `None` if exact.
        weighted: Whether sub-networks of a residual network are weighted by their widths, as in
          every estimate.
        draws: Number of draws of the estimate; 0 if exact.
        rank, cutoff, outside: As in `kernels.Nu`.
        effective_rank: (Σρ)²/Σρ² of H.
        target_alignment: Alignment of H with the labels.
        nu: ν of H; `None` if only estimates are available.
        contradictory: Number of examples whose input also occurs with another label.
        kappa: κ of hard gates' sensitivity; `None` for soft gates.
        arrays: Kernels and spectrum by name.
    """

    layers: tuple[LayerGateStatistics, ...]
    overlap: ClassSimilarity
    sensitive: ClassSimilarity | None
    relative: float | None
    weighted: bool
    draws: int
    rank: int
    effective_rank: float
    target_alignment: float | None
    nu: float | None
    cutoff: float
    outside: float | None
    contradictory: int
    kappa: float | None
    arrays: dict[str, Array] = field(default_factory=dict)


@torch.no_grad()
def gate_statistics(
    network: GatedNetwork, x: Tensor, labels: Tensor, settings: GateStatisticsSettings
) -> GateStatistics:
    """Inspect the gates and path kernels of a network on examples.

    Λ, S and H are exact if `settings` allow it. Otherwise Λ and H are estimated (theory §3) and S
    is omitted.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        labels: Class numbers, `(n,)`.
        settings: How to compute the kernels.

    Returns:
        The statistics.

    Raises:
        UserError: A forward pass does not fit into the memory.
    """
    architecture = network.architecture
    _check_memory(architecture, x, settings)
    shared = k.SharedKernels(network, x)
    exact = _is_exact(architecture, len(x), settings)
    if exact:
        kernels = _Kernels(shared.overlap(), shared.sensitive_overlap(), shared.npk("trace"))
    else:
        kernels = _estimate_kernels(shared, settings)
    reported = settings.layers or tuple(range(len(shared.gates)))
    names = architecture.gate_names
    layers = tuple(
        _layer_statistics(names[layer], shared.gates[layer], shared.sensitivities[layer], labels)
        for layer in reported
    )
    spectrum = k.spectrum(kernels.npk, k.class_targets(labels, max(2, int(labels.max()) + 1)))
    arrays = {"overlap": kernels.overlap, "npk": kernels.npk, "eigenvalues": spectrum.eigenvalues}
    if kernels.sensitive is not None:
        arrays["sensitive"] = kernels.sensitive
    if kernels.error is not None:
        arrays["npk_error"] = kernels.error
    if spectrum.alignment is not None:
        arrays["alignment"] = spectrum.alignment
    for layer in reported:
        arrays[f"tau_{layer + 1}"] = k.layer_overlap(shared.gates[layer].double())
    return GateStatistics(
        layers=layers,
        overlap=_class_similarity(kernels.overlap, labels),
        sensitive=None
        if kernels.sensitive is None
        else _class_similarity(kernels.sensitive, labels),
        relative=kernels.relative,
        weighted=not exact and architecture.is_residual,
        draws=0 if exact else settings.draws,
        rank=spectrum.rank,
        effective_rank=spectrum.effective_rank,
        target_alignment=spectrum.target_alignment,
        nu=spectrum.nu if exact else None,
        cutoff=spectrum.cutoff,
        outside=spectrum.outside if exact else None,
        contradictory=len(k.contradictory_examples(x, labels)),
        kappa=None if network.gate.soft else KAPPA,
        arrays={name: tensor.cpu().numpy() for name, tensor in arrays.items()},
    )


@torch.no_grad()
def accuracy(network: GatedNetwork, x: Tensor, labels: Tensor, batch: int = 100) -> float:
    """Compute the classification accuracy of a network.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        labels: Class numbers, `(n,)`.
        batch: Number of examples per forward pass.

    Returns:
        Fraction of examples whose largest logit is that of their label.
    """
    right = 0
    for start in range(0, len(x), batch):
        logits = network(x[start : start + batch])
        right += int((logits.argmax(1) == labels[start : start + batch]).sum())
    return right / len(x)


@dataclass(frozen=True)
class _Kernels:
    """Λ, S and H `(n, n)`, with H scaled to trace 1; `None` for what was not computed."""

    overlap: Tensor
    sensitive: Tensor | None
    npk: Tensor
    error: Tensor | None = None
    relative: float | None = None


def _estimate_kernels(shared: k.SharedKernels, settings: GateStatisticsSettings) -> _Kernels:
    """Estimate Λ and H; Λ is the path kernel of inputs whose Gram matrix is one."""
    architecture, masks = shared.network.architecture, shared.trace.value.masks
    ones = torch.ones_like(shared.x_value) * architecture.input_shape[0] ** -0.5
    estimates = [
        k.estimate_path_kernel(
            architecture,
            shared.gates,
            x,
            settings.draws,
            random_stream("inspect", name, settings.seed),
            "width",
            masks,
        )
        for name, x in (("overlap", ones), ("npk", shared.x_value))
    ]
    trace = estimates[1].kernel.trace().clamp(min=torch.finfo(torch.float64).tiny)
    return _Kernels(
        estimates[0].kernel,
        None,
        estimates[1].kernel / trace,
        estimates[1].error / trace,
        estimates[1].relative,
    )


def _is_exact(architecture: Architecture, n: int, settings: GateStatisticsSettings) -> bool:
    """Decide whether to run the exact recursion."""
    if settings.road != "auto":
        return settings.road == "exact"
    # Λ, its derivative S and H together: about four times the cost of H.
    seconds = 4 * k.npk_cost(architecture, n) / RATE
    return seconds <= settings.seconds and k.pair_bytes(architecture) <= settings.memory_bytes


def _check_memory(architecture: Architecture, x: Tensor, settings: GateStatisticsSettings) -> None:
    """Raise `UserError` if a forward pass of all examples exceeds the memory."""
    numbers = sum(prod(shape) for _, shape in architecture.shapes()) + prod(x.shape[1:])
    size = KEPT * numbers * x.element_size()
    if len(x) * size > settings.memory_bytes:
        raise UserError(
            f"A forward pass of {len(x):,} examples needs {len(x) * size / 2**30:.3g} GiB, but "
            f"{settings.memory_bytes / 2**30:.3g} GiB are allowed; use at most "
            f"{settings.memory_bytes // size:,} examples, more --memory or a smaller --size.",
            kind="too-large",
        )


def _layer_statistics(
    name: str, gates: Tensor, sensitivities: Tensor, labels: Tensor
) -> LayerGateStatistics:
    """Compute the statistics of one gate layer."""
    spread = gates.transpose(0, 1).flatten(1)  # units, examples and positions
    return LayerGateStatistics(
        name=name,
        shape=tuple(gates.shape[1:]),
        open=float(gates.double().mean()),
        never=int((spread.amax(1) < 0.5).sum()),
        always=int((spread.amin(1) >= 0.5).sum()),
        overlap=_class_similarity(k.layer_overlap(gates.double()), labels),
        sensitive=_class_similarity(k.layer_overlap(sensitivities.double()), labels),
    )


def _class_similarity(kernel: Tensor, labels: Tensor) -> ClassSimilarity:
    """Average a kernel with unit diagonal over pairs of the same and of different classes."""
    unit = k.unit_diagonal(kernel)
    pairs = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device) & unit.isfinite()
    same_class = labels[:, None] == labels[None, :]

    def mean(chosen: Tensor) -> float | None:
        return float(unit[chosen].mean()) if bool(chosen.any()) else None

    return ClassSimilarity(mean(pairs & same_class), mean(pairs & ~same_class))
