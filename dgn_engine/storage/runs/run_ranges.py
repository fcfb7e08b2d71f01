"""The ranges of the numbers in a run's files: anything beyond them was never written here.

Types were checked when dataclasses were built from JSON. Integers are limited to those that a float
holds exactly and every table can show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeGuard

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

STEPS = 1 << 53  # upper limit for steps and anything else that is counted
LAYERS = 1000
SIDE = 1 << 24  # units of a layer along one axis
EXAMPLES = 1 << 20  # of a probe set; also classes
THREADS = 1 << 16
LAST = 1e11  # seconds since 1970: the year 5138
WORD = 4096  # characters of a name


def is_count(value: Any, most: int = STEPS) -> TypeGuard[int]:
    """Return whether this is an integer from 0 to `most` (not a bool)."""
    return type(value) is int and 0 <= value <= most


def is_time(value: Any) -> bool:
    """Return whether this is a time in seconds since 1970, or a duration."""
    return type(value) in (int, float) and 0 <= value <= LAST


def is_word(value: Any) -> TypeGuard[str]:
    """Return whether this is a string of bounded length."""
    return isinstance(value, str) and len(value) <= WORD


def check_started(started: RunStarted) -> None:
    """Raise `ValueError`, naming the part, if a number or word is out of range."""
    counts = (started.train_examples, started.test_examples, started.accuracy_of)
    _require_part(all(map(is_count, counts)), "numbers of examples")
    _require_part(is_count(started.classes, EXAMPLES), "numbers of examples")
    _require_part(
        all(map(is_count, (started.steps_per_epoch, started.total_steps))), "numbers of steps"
    )
    parameters = (started.parameters_value, started.parameters_feature)
    _require_part(all(map(is_count, parameters)), "numbers of parameters")
    _require_part(len(started.layers) <= LAYERS and all(map(_is_layer, started.layers)), "layers")
    _check_turns(started.wiring, started.rotation, started.shift)
    _check_words(started.regime, started.device, started.inspected, started.assuming)
    _check_words(started.watched)
    _check_share(started.accuracy)
    probe = started.probe_set
    _require_part(len(probe.indices) == len(probe.labels) <= EXAMPLES, "probe set")
    _require_part(all(map(is_count, probe.indices)), "probe set")
    _require_part(is_count(started.began_with, EXAMPLES), "probe set")
    sound = all(is_count(label, len(probe.class_names) - 1) for label in probe.labels)
    _require_part(sound, "labels of the probe set")
    _require_part(is_count(probe.drawn, len(probe.indices)), "drawn examples of the probe set")
    _check_words(probe.digest, *probe.class_names)


def check_event(event: Event) -> None:
    """Raise `ValueError`, naming the part, if a number of an event is out of range."""
    step = getattr(event, "step", 0)
    if not is_count(step):
        raise ValueError(f"step {step}")
    match event:
        case Measured(epoch=epoch):
            if not 0 <= epoch <= STEPS:  # excludes NaN, too
                raise ValueError(f"epoch {epoch}")
            _check_share(event.train_accuracy)
            _check_share(event.test_accuracy)
        case ProbeScalars():
            _require_part(
                is_count(event.examples) and is_count(event.of), "number of probe examples"
            )
            _check_words(event.probe, event.chosen, *event.values)
        case ProbeSetChanged(examples=examples):
            _require_part(
                is_count(examples, EXAMPLES) and examples >= 2, "number of probe examples"
            )
            _check_words(event.digest, event.choice)
        case RegimeSwapped():
            counts = event.parameters_feature, event.of_step, event.undone_steps or 0
            _require_part(all(map(is_count, counts)), "numbers of a change of regime")
            _check_words(event.before, event.after, event.source, event.undone)
        case RecordThinned():
            ranges = all(is_count(first, last) and is_count(last) for first, last in event.frames)
            _require_part(ranges, "frames that were thinned out")
            _require_part(is_count(event.limit), "a limit")
            _check_words(*event.checkpoints)
        case Rewired():
            _check_turns(event.order, event.rotation, event.shift)
        case SettingChanged():
            for value in (event.learning_rate, event.beta, event.pace):
                _require_part(math.isfinite(value), f"a setting of {value}")
        case WeightsTaken():
            _require_part(is_count(event.layers), "number of layers")
        case RecordingResumed():
            _require_part(is_count(event.lost), "number of lost lines")
        case BranchBegan(changes=changes):
            _check_turns(changes.wiring, changes.rotation, changes.shift)
            _check_words(event.parent, event.remark, changes.regime)
            settings = (changes.learning_rate or 0.0, changes.beta or 0.0)
            _require_part(all(map(math.isfinite, settings)), "a setting of a branch")
            _require_part(changes.seed is None or is_count(changes.seed), "the seed of a branch")


def _require_part(sound: bool, part: str) -> None:
    if not sound:
        raise ValueError(part)


def _is_layer(layer: LayerInfo) -> bool:
    sides = 1 <= len(layer.shape) <= 3 and all(is_count(side, SIDE) for side in layer.shape)
    known = layer.kind in ("dense", "conv") and is_word(layer.name)
    return sides and known and is_count(layer.index, LAYERS)


def _check_turns(order: Iterable[int], *turns: tuple[int, ...]) -> None:
    _require_part(all(is_count(layer, LAYERS) for layer in order), "order of the gate layers")
    sound = all(len(turn) <= LAYERS and all(abs(n) <= SIDE for n in turn) for turn in turns)
    _require_part(sound, "rotations of the gate layers")


def _check_share(share: float | None) -> None:
    """Require a share from 0 to 1; NaN and infinity mean that it is unknown."""
    if share is not None and math.isfinite(share) and not 0 <= share <= 1:
        raise ValueError(f"an accuracy of {share}")


def _check_words(*words: str) -> None:
    _require_part(all(len(word) <= WORD for word in words), "a name that is too long")
