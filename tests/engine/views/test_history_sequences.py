"""Whole sequences of events and frames, folded into views that are written out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.branches import ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import EngineReady, Event
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    SettingChanged,
    UndoChanged,
)
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.scene.panel_spec import Series, View
from dgn_engine.views.history import History
from tests.engine.panels.pictures import assert_same, make_layers, make_series, started_run
from tests.snapshots import Recorded

CONFIG = RunConfig(
    gating=GatingConfig(beta=4.0, value_input="ones"),
    training=TrainingConfig(learning_rate=0.25, pace=30.0),
)
BEGUN = started_run((2,), (3,), config=CONFIG)
SETTINGS = SettingChanged(5, 0.25, 4.0, "ones", 30.0)  # as the run begins
TO_FL = RegimeSwapped(5, "DL", "FL", (), (), (), ())
BACK = RegimeSwapped(8, "FL", "DL", (), (), (), ())
OPENED = ComparisonOpened(
    "other.pt",
    "about it",
    "ReLU",
    make_layers((4,)),
    (0,),
    9,
    (Measured(3, 0.1, 2.0, 0.25), Measured(6, 0.2, 1.5, 0.5, 1.75, 0.375)),
)
GATES, NPK = Reading("gates", 4), Reading("npk", 4)


def frame(step: int, *readings: Reading, run: int = 1, b: tuple[Reading, ...] = ()) -> Frame:
    return Frame(run, step, 0.0, 9.0, None, {r.probe: r for r in readings}, {r.probe: r for r in b})


def seen(*happened: Event | Frame) -> History:
    """A run has begun, and this has happened since."""
    history = History()
    for one in (BEGUN, *happened):
        if isinstance(one, Frame):
            history.on_frame(one)
        else:
            history.on_event(one)
    return history


START = View(run=BEGUN, regime="DL", wiring=(0, 1), probe_examples=64)


SEQUENCES: dict[str, tuple[Event | Frame, ...]] = {
    "begun": (),
    "swapped": (TO_FL,),
    "swapped and back": (TO_FL, BACK),
    "undone and redone": (
        TO_FL,
        replace(BACK, undone="Undo FL"),
        replace(TO_FL, undone="Redo FL"),
    ),
    "rewired": (Rewired(3, (1, 0)),),
    "turned": (Rewired(3, (1, 0)), Rewired(6, (1, 0), (2, 0)), Rewired(9, (0, 1))),
    "nothing set": (SETTINGS,),  # nothing that is drawn has changed
    "pace": (replace(SETTINGS, pace=0.0),),
    "dials": (
        replace(SETTINGS, beta=4.5),
        replace(SETTINGS, step=7, beta=4.5, learning_rate=1e-4),
        replace(SETTINGS, step=8, beta=6.0, learning_rate=1e-4, value_input="image"),
    ),
    "weights": (WeightsTaken(4, "x.pt", 2),),
    "diverged": (Diverged(7),),
    "paused": (Paused(6),),
    "paused and on": (Paused(6), Running(6)),
    "finished": (Finished(6),),
    "scores": (Measured(4, 0.5, 2.0, 0.25), Measured(8, 1.0, 1.5, 0.5, 1.75, 0.0)),
    "scalars": (
        ProbeScalars(4, "npk", {"nu": 2.0, "rank": 3.0}),
        ProbeScalars(9, "npk", {"nu": 1.0}),
    ),
    "newest frame": (frame(4, GATES, NPK), frame(6, GATES)),
    # A frame from before a pause brings its readings and does not turn the step back.
    "late frame": (frame(9), Paused(9), frame(4, GATES)),
    "other run": (frame(4, GATES, run=2), frame(4, GATES, run=0)),
    "compared": (OPENED,),
    "b read": (OPENED, frame(4, NPK, b=(GATES,))),
    "b read again": (OPENED, frame(4, b=(GATES, NPK)), frame(6, b=(NPK,))),
    "b without comparison": (frame(4, b=(GATES,)),),
    "closed": (OPENED, ComparisonClosed()),
    "another run": (OPENED, TO_FL, Measured(7, 1.0, 1.0, 1.0), frame(9, GATES), BEGUN),
    # A recorded run is not called paused, and its probe examples cannot be chosen.
    "recorded": (RunShown("a", "finished", 50),),
    "undo offered": (UndoChanged("FL"),),
}


def points(found: Mapping[tuple[str, str], Series]) -> dict[str, Any]:
    return {
        " ".join(key): [one.run, one.steps.tolist(), one.values.tolist()]
        for key, one in found.items()
    }


def what_differs(view: View) -> dict[str, Any]:
    """What of a view is another than that of a run that has just begun."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(View):
        value = getattr(view, field.name)
        if field.name not in ("run", "compared") and value != getattr(START, field.name):
            found[field.name] = value
    if view.series:
        found["series"] = points(view.series)
    found |= (
        {"readings": {k: one.step for k, one in view.readings.items()}} if view.readings else {}
    )
    found |= {"marks": [(mark.x, mark.label) for mark in view.marks]} if view.marks else {}
    found |= {"last": repr(view.last)} if view.last is not None else {}
    if (b := view.compared) is not None:
        about = [b.name, b.regime, [one.shape for one in b.layers], b.wiring, b.step, b.run]
        found["compared"] = [*about, points(b.series), sorted(b.readings)]
    return found


@pytest.mark.parametrize("name", SEQUENCES)
def test_what_happened_is_seen_in_the_view(name: str, recorded: Recorded) -> None:
    view = seen(*SEQUENCES[name]).view({})
    recorded(what_differs(view))
    assert view.run == BEGUN


def test_the_step_is_the_newest_that_was_heard_of() -> None:
    history = seen(frame(9))
    assert history.step == 9
    history.on_event(ProbeScalars(12, "npk", {"nu": 1.0}))
    assert history.step == 12
    history.on_frame(frame(10))
    assert history.step == 12
    history.on_event(Measured(11, 1.0, 1.0, 1.0))
    assert history.step == 12
    assert history.readings == {}


def test_before_a_run_frames_are_ignored() -> None:
    history = History()
    assert not history.on_frame(frame(4, GATES))
    assert history.view({}) == View(trains=False)


def moved(happened: Event | Frame, *before: Event | Frame) -> set[str]:
    """The sources, of three, whose panels are to be drawn again."""
    history = seen(*before)
    sources = ("training", "gates", "npk")
    earlier = {source: history.revision(source) for source in sources}
    if isinstance(happened, Frame):
        history.on_frame(happened)
    else:
        history.on_event(happened)
    return {source for source in sources if history.revision(source) != earlier[source]}


ALL = {"training", "gates", "npk"}


@pytest.mark.parametrize(
    ("happened", "sources"),
    [
        (Measured(4, 0.5, 2.0, 0.25), {"training"}),
        (ProbeScalars(4, "npk", {"nu": 1.0}), {"npk"}),
        (frame(4, GATES), {"gates"}),
        (frame(4), set()),
        (frame(4, GATES, run=7), set()),
        (TO_FL, ALL),
        (Rewired(3, (1, 0)), ALL),
        (replace(SETTINGS, beta=9.0), ALL),
        (replace(SETTINGS, pace=0.0), set()),
        (WeightsTaken(4, "x.pt", 2), ALL),
        (Diverged(4), ALL),
        (Running(4), ALL),
        (Paused(4), ALL),
        (Finished(4), ALL),
        (OPENED, ALL),
        (ComparisonClosed(), ALL),
        (BEGUN, ALL),
        (UndoChanged("FL"), set()),
    ],
)
def test_only_panels_whose_sources_have_changed_are_drawn_again(
    happened: Event | Frame, sources: set[str]
) -> None:
    assert moved(happened) == sources


def test_a_reading_of_b_moves_its_probe_once() -> None:
    assert moved(frame(4, b=(GATES,)), OPENED) == {"gates"}
    assert moved(frame(6, b=(GATES,)), OPENED, frame(4, b=(GATES,))) == set()
    assert moved(frame(6, b=(NPK,)), OPENED, frame(4, b=(GATES,))) == {"gates", "npk"}
    assert moved(frame(6, GATES), frame(4, GATES)) == set()


def test_a_late_frame_gives_b_no_reading_of_the_network_that_was_b_before() -> None:
    first, second = (replace(OPENED, number=number) for number in (1, 2))
    late = replace(frame(4, b=(GATES,)), comparison=1)
    for happened, readings in (((first, late), {"gates": GATES}), ((first, second, late), {})):
        compared = seen(*happened).view({}).compared
        assert compared is not None
        assert compared.readings == readings


def test_a_new_run_counts_though_nothing_else_has_changed() -> None:
    history = seen()
    first = history.revision("gates")
    history.on_event(replace(BEGUN, run=2))
    assert history.revision("gates") != first


def test_a_long_series_keeps_every_point_and_earlier_views_keep_theirs() -> None:
    history = seen()
    early = None
    for step in range(600):  # beyond the first room, and beyond its double
        history.on_event(ProbeScalars(step, "npk", {"nu": step / 2}))
        if step == 255:
            early = history.view({}).series["npk", "nu"]
    assert early is not None
    early_ones = make_series(list(range(256)), [step / 2 for step in range(256)])
    assert_same(early, replace(early_ones, run="run 1"))
    late = history.view({}).series["npk", "nu"]
    late_ones = make_series(list(range(600)), [step / 2 for step in range(600)])
    assert_same(late, replace(late_ones, run="run 1"))
    assert late is history.view({}).series["npk", "nu"]
    for array in (early.steps, early.values, late.steps, late.values):
        assert not array.flags.writeable


def test_a_setting_before_any_run_is_named_in_full() -> None:
    history = History()
    history.on_event(EngineReady(None, ""))  # type: ignore[arg-type]
    history.on_event(SettingChanged(1, 0.5, 2.0, "ones", 0.0))
    labels = [mark.label for mark in history.view({}).marks]
    assert labels == ["β 2", "lr 0.5", "input ones"]
