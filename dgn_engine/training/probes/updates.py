"""Relative change of the weights of each layer: per step, and since the first reading.

Computed from the weights alone, whenever the probe is read; training is not touched.

Arrays for each trained network ('value', 'feature'), each (D,) for D weight layers without biases:
`{network}_norm`, ‖Θ_l‖ (Frobenius); `{network}_update`, ‖Θ_l - Θ'_l‖/(k‖Θ'_l‖), Θ' the weights k
steps ago, at an earlier reading: a lower bound of the mean relative size of an update, as updates
can cancel; `{network}_moved`, ‖Θ_l - Θ_{l,0}‖/‖Θ_{l,0}‖ with Θ_0 at the first reading of this run.
NaN for a layer whose weights were zero. Scalars: all of these by layer, such as 'value_update_0'.
Facts: `since`, the step of the first reading; `steps`, k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult
from dgn_engine.training.probes._trained_layers import trained_layers
from dgn_engine.training.probes.gradients import FROZEN, UNTRAINED

Layers = Mapping[str, list[Tensor]]


@dataclass(frozen=True)
class _Weights:
    """Weights and steps of the first and the previous reading, and the updates found then."""

    first: Layers
    first_step: int
    last: Layers
    last_step: int
    updates: Mapping[str, Array] = field(default_factory=dict)


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step; its training state must be known.
        options: Unused.
        memory: Weights at earlier readings, or None.

    Returns:
        Arrays, scalars and facts as above.
    """
    if context.training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    step, trained = context.training.step, trained_layers(context.network)
    if not trained:
        return ProbeResult(absent=FROZEN)
    now = {
        name: [weight.detach().clone() for weight in weights] for name, weights in trained.items()
    }
    before = memory if isinstance(memory, _Weights) else _Weights(now, step, now, step)
    first = {name: _earlier_weights(before.first, name, weights) for name, weights in now.items()}
    last = {name: _earlier_weights(before.last, name, weights) for name, weights in now.items()}
    steps = step - before.last_step
    arrays: dict[str, Array] = {}
    updates: dict[str, Array] = {}
    for name, weights in now.items():
        arrays[f"{name}_norm"] = np.array([_frobenius_norm(weight) for weight in weights])
        arrays[f"{name}_moved"] = _relative_change(weights, first[name])
        if steps > 0:
            update = _relative_change(weights, last[name]) / steps  # ‖Θ - Θ'‖/(k‖Θ'‖)
        else:  # the same step again: keep the updates found before
            update = before.updates.get(name, np.full(len(weights), np.nan))
        arrays[f"{name}_update"] = updates[name] = update
    scalars = {
        f"{name}_{layer}": float(number)
        for name, numbers in arrays.items()
        for layer, number in enumerate(numbers)
        if np.isfinite(number)
    }
    facts = {"since": str(before.first_step), "steps": str(max(steps, 0))}
    state = _Weights(first, before.first_step, now, step, updates)
    return ProbeResult(arrays, scalars, facts, memory=state)


def _earlier_weights(stored: Layers, name: str, now: list[Tensor]) -> list[Tensor]:
    """Return the earlier weights of a network; the current ones if there are none that fit."""
    earlier = stored.get(name, now)
    return earlier if [a.shape for a in earlier] == [b.shape for b in now] else now


def _relative_change(now: list[Tensor], before: list[Tensor]) -> Array:
    pairs = zip(now, before, strict=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.array([_frobenius_norm(a - b) for a, b in pairs]) / np.array(
            [_frobenius_norm(b) for b in before]
        )
    return np.where(np.isfinite(moved), moved, np.nan)


def _frobenius_norm(weight: Tensor) -> float:
    return float(weight.double().norm())


PROBE = Probe("Updates", read)
