"""What a run writes lies within ranges: beyond them it was not written here, and is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.branches import BranchBegan, BranchChanges
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordingResumed, RecordThinned
from dgn_engine.protocol.training import (
    Finished,
    LayerInfo,
    Measured,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
)
from dgn_engine.protocol.watching import ProbeScalars, ProbeSet, ProbeSetChanged
from dgn_engine.storage.runs.run_ranges import (
    EXAMPLES,
    LAYERS,
    SIDE,
    STEPS,
    WORD,
    check_event,
    check_started,
    is_count,
    is_time,
)

LONG = "a" * (WORD + 1)
PROBE = ProbeSet((0, 1), (0, 1), ("a", "b"), "0" * 64, drawn=1)
LAYER = LayerInfo(0, "dense 1", "dense", (3,))
STARTED = RunStarted(
    1, RunConfig(), "ReLU", "cpu", (LAYER,), (0,), 10, 10, 100, 20, 2, 5, 0, PROBE, False,
    rotation=(1,), accuracy=0.5, accuracy_of=20,
)  # fmt: skip


def test_counts_and_times_are_numbers_of_their_kind() -> None:
    values = (0, STEPS, 1.5, -1, STEPS + 1, 1e12, 1.0, math.nan, True, "1")
    assert [value for value in values if is_count(value)] == [0, STEPS]
    assert [value for value in (0, 1.5, -1, 1e12, math.nan, True, "0") if is_time(value)] == [
        0,
        1.5,
    ]


def test_a_start_as_it_is_written_is_sound() -> None:
    check_started(STARTED)


@pytest.mark.parametrize(
    "changed",
    [
        {"train_examples": -1},
        {"accuracy_of": 1.5},
        {"classes": EXAMPLES + 1},
        {"total_steps": STEPS + 1},
        {"parameters_feature": -1},
        {"layers": (LAYER,) * (LAYERS + 1)},
        {"layers": (replace(LAYER, shape=()),)},
        {"layers": (replace(LAYER, shape=(SIDE + 1,)),)},
        {"layers": (replace(LAYER, kind="attention"),)},
        {"wiring": (0, -1)},
        {"rotation": (SIDE + 1,)},
        {"shift": (0,) * (LAYERS + 1)},
        {"device": LONG},
        {"watched": LONG},
        {"accuracy": 1.5},
        {"began_with": -1},
        {"probe_set": replace(PROBE, labels=(0,))},
        {"probe_set": replace(PROBE, indices=(0, -1))},
        {"probe_set": replace(PROBE, labels=(0, 2))},
        {"probe_set": replace(PROBE, drawn=3)},
        {"probe_set": replace(PROBE, class_names=("a", LONG))},
    ],
)
def test_a_start_beyond_its_ranges_is_refused_by_its_part(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever part it is called by
        check_started(replace(STARTED, **changed))


SOUND = (
    Measured(3, 0.5, math.nan, 0.5, None, None),
    ProbeScalars(3, "gates", {"nu": math.nan}, 2, 2),
    ProbeSetChanged(3, 2, "0" * 64),
    RegimeSwapped(3, "ReLU", "FR", (), (), (), (), parameters_feature=4),
    Rewired(3, (1, 0), (0, -5)),
    SettingChanged(3, 0.1, 4.0, "image", 0.0),
    WeightsTaken(3, "a.pth", 2),
    RecordingResumed(3, 7),
    RecordThinned(3, ((0, 5),), ("000001000",), 1 << 20),
    BranchBegan(3, "parent", BranchChanges(seed=1, beta=2.0)),
    Finished(3),
)


@pytest.mark.parametrize("event", SOUND, ids=lambda event: type(event).__name__)
def test_an_event_as_it_is_written_is_sound_and_a_step_below_zero_is_not(event: Event) -> None:
    check_event(event)
    with pytest.raises(ValueError, match=r"^step -1$"):
        check_event(replace(event, step=-1))  # type: ignore[call-arg] # each of these has a step


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (Measured, {"epoch": math.inf}),
        (Measured, {"epoch": -1.0}),
        (Measured, {"train_accuracy": 2.0}),
        (Measured, {"test_accuracy": -0.5}),
        (ProbeScalars, {"examples": -1}),
        (ProbeScalars, {"of": STEPS + 1}),
        (ProbeScalars, {"values": {LONG: 1.0}}),
        (ProbeSetChanged, {"examples": 1}),
        (ProbeSetChanged, {"examples": EXAMPLES + 1}),
        (RegimeSwapped, {"of_step": -1}),
        (RegimeSwapped, {"source": LONG}),
        (Rewired, {"order": (0, LAYERS + 1)}),
        (SettingChanged, {"beta": math.nan}),
        (WeightsTaken, {"layers": -1}),
        (RecordingResumed, {"lost": -1}),
        (RecordThinned, {"frames": ((5, 0),)}),
        (RecordThinned, {"limit": -1}),
        (RecordThinned, {"checkpoints": (LONG,)}),
        (BranchBegan, {"parent": LONG}),
        (BranchBegan, {"changes": BranchChanges(learning_rate=math.inf)}),
        (BranchBegan, {"changes": BranchChanges(seed=-1)}),
        (BranchBegan, {"changes": BranchChanges(shift=(SIDE + 1,))}),
    ],
)
def test_an_event_beyond_its_ranges_is_refused_by_its_part(
    kind: type[Event], changed: dict[str, Any]
) -> None:
    [sound] = [event for event in SOUND if type(event) is kind]
    with pytest.raises(ValueError):  # noqa: PT011 - whatever part it is called by
        check_event(replace(sound, **changed))
