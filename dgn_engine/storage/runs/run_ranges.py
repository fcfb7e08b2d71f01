"""The ranges of the numbers that a run writes down: what lies beyond them was never written here.

Types were checked where dataclasses were made of JSON. Whole numbers are those that a float holds
exactly, and that every table can show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dgn_engine.protocol.branches import BranchBegan
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordingResumed, RecordThinned
from dgn_engine.protocol.training import (
    LayerInfo,
    Measured,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
)
from dgn_engine.protocol.watching import ProbeScalars, ProbeSetChanged

STEPS = 1 << 53  # no run has more; nor anything else that is counted
LAYERS = 1000
SIDE = 1 << 24  # units of a layer, along one axis
EXAMPLES = 1 << 20  # of a probe set; also classes
THREADS = 1 << 16
LAST = 1e11  # seconds since 1970: the year 5138
WORD = 4096  # characters of a name


def is_count(value: Any, most: int = STEPS) -> bool:
    """Whether this is a whole number from 0 to `most` (True is none)."""
    return type(value) is int and 0 <= value <= most


def is_time(value: Any) -> bool:
    """Whether this is a time in seconds since 1970, or between two such."""
    return type(value) in (int, float) and 0 <= value <= LAST


def check_started(started: RunStarted) -> None:
    """Raise `ValueError`, naming the part, where a number or a word is beyond its range."""
    counts = (started.train_examples, started.test_examples, started.accuracy_of)
    if not all(map(is_count, counts)) or not is_count(started.classes, EXAMPLES):
        raise ValueError("numbers of examples")
    if not (is_count(started.steps_per_epoch) and is_count(started.total_steps)):
        raise ValueError("numbers of steps")
    if not (is_count(started.parameters_value) and is_count(started.parameters_feature)):
        raise ValueError("numbers of parameters")
    if len(started.layers) > LAYERS or not all(map(_is_layer, started.layers)):
        raise ValueError("layers")
    _check_turns(started.wiring, started.rotation, started.shift)
    _check_words(started.regime, started.device, started.inspected, started.assuming)
    _check_words(started.watched)
    _check_share(started.accuracy)
    probe = started.probe_set
    if len(probe.indices) != len(probe.labels) or len(probe.indices) > EXAMPLES:
        raise ValueError("probe set")
    if not all(map(is_count, probe.indices)) or not is_count(started.began_with, EXAMPLES):
        raise ValueError("probe set")
    if not all(is_count(label, len(probe.class_names) - 1) for label in probe.labels):
        raise ValueError("labels of the probe set")
    if not is_count(probe.drawn, len(probe.indices)):
        raise ValueError("drawn examples of the probe set")
    _check_words(probe.digest, *probe.class_names)


def check_event(event: Event) -> None:
    """Raise `ValueError`, naming the part, where a number of an event is beyond its range."""
    step = getattr(event, "step", 0)
    if not is_count(step):
        raise ValueError(f"step {step}")
    if (check := _CHECKS.get(type(event))) is not None:
        check(event)


def _is_layer(layer: LayerInfo) -> bool:
    sides = 1 <= len(layer.shape) <= 3 and all(is_count(side, SIDE) for side in layer.shape)
    known = layer.kind in ("dense", "conv") and len(layer.name) <= WORD
    return sides and known and is_count(layer.index, LAYERS)


def _check_measured(event: Measured) -> None:
    if not (math.isfinite(event.epoch) and 0 <= event.epoch <= STEPS):
        raise ValueError(f"epoch {event.epoch}")
    _check_share(event.train_accuracy)
    _check_share(event.test_accuracy)


def _check_scalars(event: ProbeScalars) -> None:
    if not (is_count(event.examples) and is_count(event.of)):
        raise ValueError("number of probe examples")
    _check_words(event.probe, event.chosen, *event.values)


def _check_probe_set(event: ProbeSetChanged) -> None:
    if not is_count(event.examples, EXAMPLES) or event.examples < 2:
        raise ValueError("number of probe examples")
    _check_words(event.digest, event.choice)


def _check_swap(event: RegimeSwapped) -> None:
    counts = event.parameters_feature, event.of_step, event.undone_steps or 0
    if not all(map(is_count, counts)):
        raise ValueError("numbers of a change of regime")
    _check_words(event.before, event.after, event.source, event.undone)


def _check_rewired(event: Rewired) -> None:
    _check_turns(event.order, event.rotation, event.shift)


def _check_settings(event: SettingChanged) -> None:
    for value in (event.learning_rate, event.beta, event.pace):
        if not math.isfinite(value):
            raise ValueError(f"a setting of {value}")


def _check_weights(event: WeightsTaken) -> None:
    if not is_count(event.layers):
        raise ValueError("number of layers")


def _check_branch(event: BranchBegan) -> None:
    changes = event.changes
    _check_turns(changes.wiring, changes.rotation, changes.shift)
    _check_words(event.parent, event.remark, changes.regime)
    settings = (changes.learning_rate, changes.beta)
    if not all(value is None or math.isfinite(value) for value in settings):
        raise ValueError("a setting of a branch")
    if changes.seed is not None and not is_count(changes.seed):
        raise ValueError("the seed of a branch")


def _check_lost(event: RecordingResumed) -> None:
    if not is_count(event.lost):
        raise ValueError("number of lost lines")


def _check_thinned(event: RecordThinned) -> None:
    if not all(is_count(first, last) and is_count(last) for first, last in event.frames):
        raise ValueError("frames that were thinned out")
    if not is_count(event.limit):
        raise ValueError("a limit")
    _check_words(*event.checkpoints)


def _check_turns(order: Iterable[int], *turns: tuple[int, ...]) -> None:
    if not all(is_count(layer, LAYERS) for layer in order):
        raise ValueError("order of the gate layers")
    if any(len(one) > LAYERS or any(abs(turn) > SIDE for turn in one) for one in turns):
        raise ValueError("rotations of the gate layers")


def _check_share(share: float | None) -> None:
    """What is not finite says that nothing is known."""
    if share is not None and math.isfinite(share) and not 0 <= share <= 1:
        raise ValueError(f"an accuracy of {share}")


def _check_words(*words: str) -> None:
    if any(len(word) > WORD for word in words):
        raise ValueError("a name without end")


_CHECKS: Mapping[type[Event], Callable[[Any], None]] = {
    Measured: _check_measured,
    ProbeScalars: _check_scalars,
    ProbeSetChanged: _check_probe_set,
    RegimeSwapped: _check_swap,
    RecordThinned: _check_thinned,
    Rewired: _check_rewired,
    SettingChanged: _check_settings,
    WeightsTaken: _check_weights,
    RecordingResumed: _check_lost,
    BranchBegan: _check_branch,
}
