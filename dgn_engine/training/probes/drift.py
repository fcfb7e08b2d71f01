"""Drift of the neural path features Φ and path values v since the first reading.

Exact, from kernels instead of lists of paths (`kernels.path_drift`). Where the recursion is
expensive, as for convolutions, Φ uses as many evenly spaced probe examples as `BUDGET` operations
allow; with fewer than `FEWEST` it is omitted and the facts say why.

Arrays: `labels` (m,) of the examples used for Φ; `features` (m,), ‖φ_t - φ_0‖/‖φ_0‖ of each, NaN if
φ_0 = 0; `switched` (L,), share of gates per layer on the other side of ½ than at first. Scalars:
`features`, ‖Φ_t - Φ_0‖/‖Φ_0‖, and `features_cosine`; `values`, ‖v_t - v_0‖/‖v_0‖ over all paths and
logits, and `values_cosine`; `switched_{l}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.gram import accumulator_dtype
from dgn_engine.kernels.path_drift import feature_moments, relative_drift, value_product
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

BUDGET = 2e9  # FLOP for Φ: a tenth of a second on one core
FEWEST = 4  # examples for Φ, at least


@dataclass(frozen=True)
class _FirstReading:
    """Gates, masks, inputs and weights at the first reading; hard gates are stored as bytes."""

    gates: tuple[Tensor, ...]
    x_value: Tensor
    masks: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]

    def path_inputs_at(self, rows: Tensor) -> k.PathInputs:
        """Return path inputs of some examples.

        In the widest dtype of the device, since small drifts are differences of large numbers.
        """
        wide = accumulator_dtype(self.x_value)
        gates = [gate[rows].to(wide) for gate in self.gates]
        x = self.x_value[rows].to(wide)
        return k.PathInputs(gates, x, [mask[rows] for mask in self.masks])

    def has_same_shapes(self, other: _FirstReading) -> bool:
        """Return whether both have equally many examples and layers of the same shapes."""
        own, others = ([tensor.shape for tensor in (*o.gates, *o.weights)] for o in (self, other))
        return own == others


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: State at the first reading.

    Returns:
        Arrays, scalars and facts as above.
    """
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    now = _capture_first(context)
    first = memory if isinstance(memory, _FirstReading) and memory.has_same_shapes(now) else now
    switched = [
        float(((a >= 0.5) != (b >= 0.5)).double().mean())
        for a, b in zip(now.gates, first.gates, strict=True)
    ]
    arrays: dict[str, Array] = {"switched": np.array(switched)}
    scalars = {f"switched_{layer}": share for layer, share in enumerate(switched)}
    rows, why = _affordable_rows(context)
    facts = {"features": why} if why else {}
    if rows is not None:
        arrays["labels"] = to_numpy(context.labels[rows])
        # Per example: ⟨φ_t, φ_t⟩, ⟨φ_t, φ_0⟩, ⟨φ_0, φ_0⟩ and ‖φ_t - φ_0‖².
        moments = feature_moments(
            context.architecture, now.path_inputs_at(rows), first.path_inputs_at(rows)
        )
        sums = (float(part.sum()) for part in (moments.now, moments.both, moments.then))
        scalars["features"], scalars["features_cosine"] = relative_drift(*sums)
        drifts = torch.where(
            moments.then > 0, (moments.squared_drift / moments.then).sqrt(), torch.nan
        )
        arrays["features"] = to_numpy(drifts)
    scalars |= _value_drift(context, now, first)
    known = {name: value for name, value in scalars.items() if np.isfinite(value)}
    return ProbeResult(arrays, known, facts, memory=first)


def _capture_first(context: ProbeContext) -> _FirstReading:
    """Copy the state that later readings are compared with."""
    soft = context.network.gate.soft
    gates = tuple(g.clone() if soft else g.to(torch.uint8) for g in context.gates)
    weights = tuple(w.detach().clone() for w in context.network.value.folded_tensors()[0])
    shared = context.kernels
    return _FirstReading(gates, shared.x_value.clone(), tuple(shared.trace.value.masks), weights)


def _affordable_rows(context: ProbeContext) -> tuple[Tensor | None, str]:
    """Return the rows used for Φ, and a remark about them."""
    n = len(context.x)
    pair_cost = k.npk_cost(context.architecture, 2)
    count = int(min(n, BUDGET // max(pair_cost, 1.0)))
    if count < min(FEWEST, n):
        return None, "Φ omitted: a pair of examples takes too long in this network."
    spaced = torch.linspace(0, n - 1, count, dtype=torch.float64, device=context.x.device)
    rows = spaced.round().long()
    return rows, "" if count == n else f"Φ from {count} of {n} probe examples."


def _value_drift(
    context: ProbeContext, now: _FirstReading, first: _FirstReading
) -> dict[str, float]:
    """Return the drift and cosine of the path values."""
    pairs = ((now, now), (now, first), (first, first))
    products = (value_product(context.architecture, a.weights, b.weights) for a, b in pairs)
    moved, turned = relative_drift(*products)
    return {"values": moved, "values_cosine": turned}


PROBE = Probe("Drift", read)
