"""How far the neural path features Φ and the path values v are from what they were at first.

Exact, by kernels and not by lists of paths (`kernels.path_drift`); 'at first' is the first reading
of this run. Of convolutions and wherever else the recursion of a pair of examples is dear, Φ is
read of as many examples as are expected to take `BUDGET` operations, evenly among the probe
examples; with fewer than `FEWEST` there is none, and the facts say why.

Arrays: `labels` (m,) of the examples that Φ is read of, `features` (m,), ‖φ_t - φ_0‖/‖φ_0‖ of each,
NaN where φ_0 is zero; `switched` (L,), the share of gates of each layer on the other side of ½ than
at first. Scalars: `features`, ‖Φ_t - Φ_0‖/‖Φ_0‖ over all of them, `features_cosine`; `values`,
‖v_t - v_0‖/‖v_0‖ over all paths and logits, `values_cosine`; `switched_{l}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.gram import accumulator
from dgn_engine.kernels.path_drift import feature_moments, relative_drift, value_product
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy

BUDGET = 2e9  # floating-point operations that Φ may take: a tenth of a second of one core
FEWEST = 4  # examples that Φ is read of, where it is at all


@dataclass(frozen=True)
class _First:
    """Gates, masks, inputs and weights of the first reading; hard gates as bytes."""

    gates: tuple[Tensor, ...]
    x_value: Tensor
    masks: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]

    def inputs(self, rows: Tensor) -> k.PathInputs:
        """Of these examples, as exact as the device is: small drifts are differences."""
        wide = accumulator(self.x_value)
        gates = [gate[rows].to(wide) for gate in self.gates]
        x = self.x_value[rows].to(wide)
        return k.PathInputs(gates, x, [mask[rows] for mask in self.masks])

    def fits(self, other: _First) -> bool:
        """Whether it is of as many examples and of layers of the same shapes."""
        mine, theirs = ([one.shape for one in (*o.gates, *o.weights)] for o in (self, other))
        return mine == theirs


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    now = _taken(context)
    first = memory if isinstance(memory, _First) and memory.fits(now) else now
    switched = [
        float(((a >= 0.5) != (b >= 0.5)).double().mean())
        for a, b in zip(now.gates, first.gates, strict=True)
    ]
    arrays: dict[str, Array] = {"switched": np.array(switched)}
    scalars = {f"switched_{layer}": share for layer, share in enumerate(switched)}
    rows, why = _affordable(context)
    facts = {"features": why} if why else {}
    if rows is not None:
        arrays["labels"] = numpy(context.labels[rows])
        moments = feature_moments(context.architecture, now.inputs(rows), first.inputs(rows))
        sums = (float(part.sum()) for part in (moments.now, moments.both, moments.then))
        scalars["features"], scalars["features_cosine"] = relative_drift(*sums)
        each = torch.where(moments.then > 0, (moments.moved / moments.then).sqrt(), torch.nan)
        arrays["features"] = numpy(each)
    scalars |= _values(context, now, first)
    known = {name: value for name, value in scalars.items() if np.isfinite(value)}
    return ProbeResult(arrays, known, facts, memory=first)


def _taken(context: ProbeContext) -> _First:
    soft = context.network.gate.soft
    gates = tuple(g.clone() if soft else g.to(torch.uint8) for g in context.gates)
    weights = tuple(w.detach().clone() for w in context.network.value.tensors()[0])
    shared = context.kernels
    return _First(gates, shared.x_value.clone(), tuple(shared.trace.value.masks), weights)


def _affordable(context: ProbeContext) -> tuple[Tensor | None, str]:
    """The examples that Φ is read of, and what is to be said of that."""
    n = len(context.x)
    each = k.npk_cost(context.architecture, 2)
    count = int(min(n, BUDGET // max(each, 1.0)))
    if count < min(FEWEST, n):
        return None, "Φ is left out: one pair of examples takes too long in this network."
    spaced = torch.linspace(0, n - 1, count, dtype=torch.float64, device=context.x.device)
    rows = spaced.round().long()
    return rows, "" if count == n else f"Φ of {count} of {n} probe examples."


def _values(context: ProbeContext, now: _First, first: _First) -> dict[str, float]:
    pairs = ((now, now), (now, first), (first, first))
    products = (value_product(context.architecture, a.weights, b.weights) for a, b in pairs)
    moved, turned = relative_drift(*products)
    return {"values": moved, "values_cosine": turned}


PROBE = Probe("Drift", read)
