"""What a run writes lies within ranges: beyond them it was not written here, and is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol import events
from dgn_engine.protocol.run_branches import BranchBegan, BranchChanges
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
PROBE = events.ProbeSet((0, 1), (0, 1), ("a", "b"), "0" * 64, drawn=1)
LAYER = events.LayerInfo(0, "dense 1", "dense", (3,))
STARTED = events.RunStarted(
    1, RunConfig(), "ReLU", "cpu", (LAYER,), (0,), 10, 10, 100, 20, 2, 5, 0, PROBE, False,
    rotation=(1,), accuracy=0.5, accuracy_of=20,
)  # fmt: skip


def test_counts_and_times_are_numbers_of_their_kind() -> None:
    assert [is_count(value) for value in (0, STEPS, -1, STEPS + 1, True, 1.0, "1")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip
    assert [is_time(value) for value in (0, 1.5, -1, 1e12, math.nan, True, "0")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip


def test_a_start_as_it_is_written_is_sound() -> None:
    check_started(STARTED)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train_examples": -1}, "numbers of examples"),
        ({"accuracy_of": 1.5}, "numbers of examples"),
        ({"classes": EXAMPLES + 1}, "numbers of examples"),
        ({"total_steps": STEPS + 1}, "numbers of steps"),
        ({"parameters_feature": -1}, "numbers of parameters"),
        ({"layers": (LAYER,) * (LAYERS + 1)}, "layers"),
        ({"layers": (replace(LAYER, shape=()),)}, "layers"),
        ({"layers": (replace(LAYER, shape=(SIDE + 1,)),)}, "layers"),
        ({"layers": (replace(LAYER, kind="attention"),)}, "layers"),
        ({"wiring": (0, -1)}, "order of the gate layers"),
        ({"rotation": (SIDE + 1,)}, "rotations of the gate layers"),
        ({"shift": (0,) * (LAYERS + 1)}, "rotations of the gate layers"),
        ({"device": LONG}, "a name without end"),
        ({"watched": LONG}, "a name without end"),
        ({"accuracy": 1.5}, "an accuracy of 1.5"),
        ({"began_with": -1}, "probe set"),
        ({"probe_set": replace(PROBE, labels=(0,))}, "probe set"),
        ({"probe_set": replace(PROBE, indices=(0, -1))}, "probe set"),
        ({"probe_set": replace(PROBE, labels=(0, 2))}, "labels of the probe set"),
        ({"probe_set": replace(PROBE, drawn=3)}, "drawn examples of the probe set"),
        ({"probe_set": replace(PROBE, class_names=("a", LONG))}, "a name without end"),
    ],
)
def test_a_start_beyond_its_ranges_is_refused_by_its_part(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        check_started(replace(STARTED, **changed))


SOUND = (
    events.Measured(3, 0.5, math.nan, 0.5, None, None),
    events.ProbeScalars(3, "gates", {"nu": math.nan}, 2, 2),
    events.ProbeSetChanged(3, 2, "0" * 64),
    events.RegimeSwapped(3, "ReLU", "FR", (), (), (), (), parameters_feature=4),
    events.Rewired(3, (1, 0), (0, -5)),
    events.SettingChanged(3, 0.1, 4.0, "image", 0.0),
    events.WeightsTaken(3, "a.pth", 2),
    events.RecordingResumed(3, 7),
    events.RecordThinned(3, ((0, 5),), ("000001000",), 1 << 20),
    BranchBegan(3, "parent", BranchChanges(seed=1, beta=2.0)),
    events.Finished(3),
)


@pytest.mark.parametrize("event", SOUND, ids=lambda event: type(event).__name__)
def test_an_event_as_it_is_written_is_sound_and_a_step_below_zero_is_not(
    event: events.Event,
) -> None:
    check_event(event)
    with pytest.raises(ValueError, match=r"^step -1$"):
        check_event(replace(event, step=-1))  # type: ignore[call-arg] # each of these has a step


@pytest.mark.parametrize(
    ("kind", "changed", "words"),
    [
        (events.Measured, {"epoch": math.inf}, "epoch inf"),
        (events.Measured, {"epoch": -1.0}, "epoch -1.0"),
        (events.Measured, {"train_accuracy": 2.0}, "an accuracy of 2.0"),
        (events.Measured, {"test_accuracy": -0.5}, "an accuracy of -0.5"),
        (events.ProbeScalars, {"examples": -1}, "number of probe examples"),
        (events.ProbeScalars, {"of": STEPS + 1}, "number of probe examples"),
        (events.ProbeScalars, {"values": {LONG: 1.0}}, "a name without end"),
        (events.ProbeSetChanged, {"examples": 1}, "number of probe examples"),
        (events.ProbeSetChanged, {"examples": EXAMPLES + 1}, "number of probe examples"),
        (events.RegimeSwapped, {"of_step": -1}, "numbers of a change of regime"),
        (events.RegimeSwapped, {"source": LONG}, "a name without end"),
        (events.Rewired, {"order": (0, LAYERS + 1)}, "order of the gate layers"),
        (events.SettingChanged, {"beta": math.nan}, "a setting of nan"),
        (events.WeightsTaken, {"layers": -1}, "number of layers"),
        (events.RecordingResumed, {"lost": -1}, "number of lost lines"),
        (events.RecordThinned, {"frames": ((5, 0),)}, "frames that were thinned out"),
        (events.RecordThinned, {"limit": -1}, "a limit"),
        (events.RecordThinned, {"checkpoints": (LONG,)}, "a name without end"),
        (BranchBegan, {"parent": LONG}, "a name without end"),
        (BranchBegan, {"changes": BranchChanges(learning_rate=math.inf)}, "a setting of a branch"),
        (BranchBegan, {"changes": BranchChanges(seed=-1)}, "the seed of a branch"),
        (
            BranchBegan,
            {"changes": BranchChanges(shift=(SIDE + 1,))},
            "rotations of the gate layers",
        ),
    ],
)
def test_an_event_beyond_its_ranges_is_refused_by_its_part(
    kind: type[events.Event], changed: dict[str, Any], words: str
) -> None:
    [sound] = [event for event in SOUND if type(event) is kind]
    with pytest.raises(ValueError, match=f"^{words}$"):
        check_event(replace(sound, **changed))
