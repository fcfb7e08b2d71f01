"""Alignment of K^V, K^F, K and H with the labels, and their shape and scale (theory §7).

K is the sum of its parts where there are several. All numbers are exact on the examples read; shape
and scale are relative to the first reading of the kernel in this run, on the examples that both
readings have.

Arrays: `labels` (n,); `class_{kernel}` (C,), CKA with each class against the rest, NaN for a class
without probe examples, for the kernels 'value', 'feature', 'sum' and 'npk'. Scalars for each:
`centred_{kernel}`, CKA with all classes; `plain_{kernel}`, ⟨K, YYᵀ⟩/(‖K‖‖YYᵀ‖);
`shape_{kernel}`, ‖K/‖K‖ − K_0/‖K_0‖‖; `norm_{kernel}`, ‖K‖/‖K_0‖, and `trace_{kernel}`. What is
not defined, or not finite, is missing. Facts: `since`, the steps of the first readings, if known;
`labels`, why there is no alignment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture, Fork
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

NO_CLASS = "Some examples have no class, so there is no alignment."


@dataclass(frozen=True)
class _FirstKernel:
    """A kernel at its first reading, its stride through the probe set, and the step if known."""

    kernel: Tensor
    every: int
    step: int | None

    def common_examples(self, now: Tensor, every: int) -> tuple[Tensor, Tensor] | None:
        """Return both kernels on the examples that both have; None if the strides do not nest."""
        stride = max(every, self.every)
        if stride % every or stride % self.every:
            return None
        first, current = _thin(self.kernel, stride // self.every), _thin(now, stride // every)
        return (first, current) if first.shape == current.shape else None


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: The kernels of the first readings, by name.

    Returns:
        Arrays, scalars and facts as above.
    """
    named = _named_kernels(context)
    kernels = {name: kernel for name, kernel in named if bool(torch.isfinite(kernel).all())}
    step = None if context.training is None else context.training.step
    firsts: dict[str, _FirstKernel] = dict(memory) if isinstance(memory, dict) else {}
    scalars: dict[str, float] = {}
    for name, kernel in kernels.items():
        pair = firsts[name].common_examples(kernel, context.every) if name in firsts else None
        if pair is None:
            firsts[name] = _FirstKernel(kernel.cpu().clone(), context.every, step)
            pair = (kernel.cpu(), kernel.cpu())
        scalars |= {f"{what}_{name}": value for what, value in _measure_change(*pair).items()}
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    facts = {"since": _describe_steps({name: firsts[name].step for name in kernels})}
    if context.is_labelled:
        aligned = align_kernels(kernels, context.labels, context.classes)
        arrays |= aligned.arrays
        scalars |= aligned.scalars
    else:
        facts["labels"] = NO_CLASS
    known = {name: value for name, value in scalars.items() if math.isfinite(value)}
    return ProbeResult(arrays, known, facts, memory=firsts)


def align_kernels(kernels: Mapping[str, Tensor], labels: Tensor, classes: int) -> ProbeResult:
    """Compute the alignment of kernels with the labels, without their shape and scale.

    Args:
        kernels: Kernels (n, n) by name.
        labels: Class numbers, (n,).
        classes: Number of classes.

    Returns:
        `labels`, `class_{kernel}`, `centred_{kernel}` and `plain_{kernel}`.
    """
    targets = k.class_targets(labels, classes)
    arrays: dict[str, Array] = {"labels": to_numpy(labels)}
    scalars: dict[str, float] = {}
    for name, kernel in kernels.items():
        alignment = k.centred_alignment(kernel, targets)
        by_class = to_numpy(alignment.by_class)
        arrays[f"class_{name}"] = np.broadcast_to(by_class, max(classes, 2)).copy()
        scalars[f"centred_{name}"] = alignment.centred
        scalars[f"plain_{name}"] = alignment.uncentred
    known = {name: value for name, value in scalars.items() if math.isfinite(value)}
    return ProbeResult(arrays, known)


def _named_kernels(context: ProbeContext) -> Iterator[tuple[str, Tensor]]:
    """Yield the kernels that the network has."""
    tangent = context.kernels.tangent
    parts = {"value": tangent.value, "feature": tangent.feature}
    yield from ((name, part) for name, part in parts.items() if part is not None)
    if all(part is not None for part in parts.values()):
        yield "sum", tangent.total_kernel
    # Path counts of deep chains overflow; divided by the widths they do not, and constants cancel
    # here. With residual blocks this is no constant: sub-networks have different widths.
    is_chain = not any(isinstance(node, Fork) for node in context.architecture.nodes)
    yield "npk", context.kernels.npk("width" if is_chain else "none")


def _measure_change(first: Tensor, now: Tensor) -> dict[str, float]:
    """Return the distance of the shapes, and the scale as a multiple of the first."""
    # H of many residual blocks is finite, but its squares overflow.
    largest = float(first.abs().max()) or 1.0
    first, now = first.double() / largest, now.cpu().double() / largest
    norm, trace = float(first.norm()), float(first.trace())
    return {
        "shape": k.shape_distance(now, first),
        "norm": float(now.norm()) / norm if norm > 0 else math.nan,
        "trace": float(now.trace()) / trace if trace > 0 else math.nan,
    }


def _thin(kernel: Tensor, every: int) -> Tensor:
    return kernel[::every, ::every]


def _describe_steps(steps: Mapping[str, int | None]) -> str:
    """Return the steps of the first readings, such as '0' or '0, 250'; '' if none is known."""
    return ", ".join(f"{step:,}" for step in sorted({s for s in steps.values() if s is not None}))


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of K and H.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return k.ntk_cost(architecture, examples) + k.npk_cost(architecture, examples)


PROBE = Probe("Kernel alignment", read, cost)
