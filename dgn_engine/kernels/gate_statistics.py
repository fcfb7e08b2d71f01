"""A trained network looked at without training it: gates, overlaps, path kernel and spectrum."""

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

RATE = 1.6e9  # operations a second that are counted on where the exact recursion is weighed
KEPT = 6  # tensors of a layer's size that two passes hold

Roads = Literal["auto", "exact", "estimate"]


@dataclass(frozen=True)
class GateStatisticsSettings:
    """`road` to the path kernels: the exact recursion, an estimate from `draws` random value
    networks, or the former where it fits into `seconds` and `memory_bytes`."""

    road: Roads = "auto"
    draws: int = 100
    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    seed: int = 0
    layers: tuple[int, ...] = ()  # gate layers from 0 that are looked at one by one; all if empty


@dataclass(frozen=True)
class ClassSimilarity(HtmlFields):
    """Mean entry of a kernel with unit diagonal, between two examples of one class and of two;
    None where there is no such pair, or none of its examples has a path."""

    same: float | None
    other: float | None


@dataclass(frozen=True)
class LayerGateStatistics(HtmlFields):
    """One gate layer on the examples: share of open gates, units that are closed (or open) for
    every example and position, overlap τ and sensitive overlap DDᵀ."""

    name: str
    shape: tuple[int, ...]
    open: float
    never: int
    always: int
    overlap: ClassSimilarity
    sensitive: ClassSimilarity


@dataclass(frozen=True)
class GateStatistics(HtmlFields):
    """What was found. `relative`: standard error of an estimated kernel over the whole of it
    (Frobenius), None where the kernel is exact; `weighted`: every sub-network of a residual
    network counts with its widths, because it was estimated. `arrays`: kernels and spectrum.
    `sensitive` and `nu` are None where they would need the exact kernel; `rank`, `cutoff` and
    `outside` as in `kernels.Nu`; `contradictory`: how many examples have an input that occurs
    with another label as well."""

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
    """Inspect a network on examples x (n, *input_shape) with labels (n,).

    Λ, S and H are exact where `settings` allow it. Otherwise Λ and H are estimated (THEORY §3)
    and S is left out. Raises `UserError` where even a forward pass does not fit into the memory.
    """
    architecture = network.architecture
    _check_memory(architecture, x, settings)
    shared = k.SharedKernels(network, x)
    exact = _is_exact(architecture, len(x), settings)
    if exact:
        kernels = _Kernels(shared.overlap(), shared.sensitive(), shared.npk("trace"))
    else:
        kernels = _estimated(shared, settings)
    chosen = settings.layers or tuple(range(len(shared.gates)))
    names = architecture.gate_names
    layers = tuple(
        _layer(names[place], shared.gates[place], shared.sensitivities[place], labels)
        for place in chosen
    )
    found = k.spectrum(kernels.npk, k.class_targets(labels, max(2, int(labels.max()) + 1)))
    arrays = {"overlap": kernels.overlap, "npk": kernels.npk, "eigenvalues": found.eigenvalues}
    if kernels.sensitive is not None:
        arrays["sensitive"] = kernels.sensitive
    if kernels.error is not None:
        arrays["npk_error"] = kernels.error
    if found.alignment is not None:
        arrays["alignment"] = found.alignment
    for place in chosen:
        arrays[f"tau_{place + 1}"] = k.layer_overlap(shared.gates[place].double())
    return GateStatistics(
        layers=layers,
        overlap=_likeness(kernels.overlap, labels),
        sensitive=None if kernels.sensitive is None else _likeness(kernels.sensitive, labels),
        relative=kernels.relative,
        weighted=not exact and architecture.residual,
        draws=0 if exact else settings.draws,
        rank=found.rank,
        effective_rank=found.effective_rank,
        target_alignment=found.target_alignment,
        nu=found.nu if exact else None,
        cutoff=found.cutoff,
        outside=found.outside if exact else None,
        contradictory=len(k.contradictory_examples(x, labels)),
        kappa=None if network.gate.soft else KAPPA,
        arrays={name: tensor.cpu().numpy() for name, tensor in arrays.items()},
    )


@torch.no_grad()
def accuracy(network: GatedNetwork, x: Tensor, labels: Tensor, batch: int = 100) -> float:
    """Share of examples x (n, *input_shape) whose largest logit is their label's."""
    right = 0
    for start in range(0, len(x), batch):
        logits = network(x[start : start + batch])
        right += int((logits.argmax(1) == labels[start : start + batch]).sum())
    return right / len(x)


@dataclass(frozen=True)
class _Kernels:
    """Λ, S and H (n, n), H scaled to trace 1; what is None was not computed."""

    overlap: Tensor
    sensitive: Tensor | None
    npk: Tensor
    error: Tensor | None = None
    relative: float | None = None


def _estimated(shared: k.SharedKernels, settings: GateStatisticsSettings) -> _Kernels:
    """Λ is the path kernel of inputs whose channels have the Gram matrix one."""
    architecture, masks = shared.network.architecture, shared.trace.value.masks
    ones = torch.ones_like(shared.x_value) * architecture.input_shape[0] ** -0.5
    found = [
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
    trace = found[1].kernel.trace().clamp(min=torch.finfo(torch.float64).tiny)
    return _Kernels(
        found[0].kernel,
        None,
        found[1].kernel / trace,
        found[1].error / trace,
        found[1].relative,
    )


def _is_exact(architecture: Architecture, n: int, settings: GateStatisticsSettings) -> bool:
    if settings.road != "auto":
        return settings.road == "exact"
    # Λ with its derivative S, and H.
    seconds = 4 * k.npk_cost(architecture, n) / RATE
    return seconds <= settings.seconds and k.pair_bytes(architecture) <= settings.memory_bytes


def _check_memory(architecture: Architecture, x: Tensor, settings: GateStatisticsSettings) -> None:
    numbers = sum(prod(shape) for _, shape in architecture.shapes()) + prod(x.shape[1:])
    each = KEPT * numbers * x.element_size()
    if len(x) * each > settings.memory_bytes:
        raise UserError(
            f"A pass of {len(x):,} examples needs {len(x) * each / 2**30:.3g} GiB, more than the "
            f"{settings.memory_bytes / 2**30:.3g} GiB allowed; {settings.memory_bytes // each:,} "
            "fit (or --memory, or a smaller --size).",
            kind="too-large",
        )


def _layer(name: str, gates: Tensor, sensitivities: Tensor, labels: Tensor) -> LayerGateStatistics:
    spread = gates.transpose(0, 1).flatten(1)  # units, examples and positions
    return LayerGateStatistics(
        name=name,
        shape=tuple(gates.shape[1:]),
        open=float(gates.double().mean()),
        never=int((spread.amax(1) < 0.5).sum()),
        always=int((spread.amin(1) >= 0.5).sum()),
        overlap=_likeness(k.layer_overlap(gates.double()), labels),
        sensitive=_likeness(k.layer_overlap(sensitivities.double()), labels),
    )


def _likeness(kernel: Tensor, labels: Tensor) -> ClassSimilarity:
    unit = k.unit_diagonal(kernel)
    pairs = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device) & unit.isfinite()
    alike = labels[:, None] == labels[None, :]

    def mean(chosen: Tensor) -> float | None:
        return float(unit[chosen].mean()) if bool(chosen.any()) else None

    return ClassSimilarity(mean(pairs & alike), mean(pairs & ~alike))
