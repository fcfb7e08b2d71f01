"""How far the weights of each layer have moved: a step, and since the first reading.

Read from the weights alone, at reading times: nothing of the training is touched.

Arrays for each network that is trained ('value', 'feature'), each (D,) for D weight layers (biases
left out): `{network}_norm`, ‖Θ_l‖ (Frobenius); `{network}_update`, ‖Θ_l - Θ'_l‖/(k‖Θ'_l‖), Θ' the
weights at the reading of an earlier step and k the steps since: at most the mean relative size of
an update, and less where updates cancel; `{network}_moved`, ‖Θ_l - Θ_{l,0}‖/‖Θ_{l,0}‖, Θ_0 those
at the first reading of this run. A layer whose weights were zero has NaN. Scalars: all by layer,
'value_update_0'. Facts: `since`, the step of the first reading; `steps`, k.
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
    """Copies of the weights at the first and at the previous reading, their steps, and the updates
    that were found then."""

    first: Layers
    first_step: int
    last: Layers
    last_step: int
    updates: Mapping[str, Array] = field(default_factory=dict)


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    if context.training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    step, trained = context.training.step, trained_layers(context.network)
    if not trained:
        return ProbeResult(absent=FROZEN)
    now = {name: [one.detach().clone() for one in each] for name, each in trained.items()}
    before = memory if isinstance(memory, _Weights) else _Weights(now, step, now, step)
    first = {name: _known(before.first, name, each) for name, each in now.items()}
    last = {name: _known(before.last, name, each) for name, each in now.items()}
    steps = step - before.last_step
    arrays: dict[str, Array] = {}
    updates: dict[str, Array] = {}
    for name, each in now.items():
        arrays[f"{name}_norm"] = np.array([_norm(one) for one in each])
        arrays[f"{name}_moved"] = _relative(each, first[name])
        if steps > 0:
            update = _relative(each, last[name]) / steps
        else:  # the same step once more: what was found of it still holds
            update = before.updates.get(name, np.full(len(each), np.nan))
        arrays[f"{name}_update"] = updates[name] = update
    scalars = {
        f"{name}_{layer}": float(number)
        for name, numbers in arrays.items()
        for layer, number in enumerate(numbers)
        if np.isfinite(number)
    }
    facts = {"since": str(before.first_step), "steps": str(max(steps, 0))}
    kept = _Weights(first, before.first_step, now, step, updates)
    return ProbeResult(arrays, scalars, facts, memory=kept)


def _known(kept: Layers, name: str, now: list[Tensor]) -> list[Tensor]:
    """What was kept of this network; what is now, where it was not trained or had other shapes."""
    found = kept.get(name, now)
    return found if [a.shape for a in found] == [b.shape for b in now] else now


def _relative(now: list[Tensor], before: list[Tensor]) -> Array:
    pairs = zip(now, before, strict=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.array([_norm(a - b) for a, b in pairs]) / np.array([_norm(b) for b in before])
    return np.where(np.isfinite(moved), moved, np.nan)


def _norm(weight: Tensor) -> float:
    return float(weight.double().norm())


PROBE = Probe("Updates", read)
