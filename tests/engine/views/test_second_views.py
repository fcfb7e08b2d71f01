"""What a second run, a second B and a second look back show has nothing of the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.protocol.branches import (
    ComparedFrames,
    ComparedMoved,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import FramesRecorded, HistoryReplayed
from dgn_engine.protocol.training import Diverged, Measured, RegimeSwapped, Rewired
from dgn_engine.protocol.watching import ProbeScalars, ProbeSetChanged, ProbesLeft
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.compared_step import ComparedStep
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from tests.engine.panels.pictures import find_curve, make_layers, started_run

BEGUN = started_run((2,), (3,))
FIRST = ComparisonOpened(
    "first.pt",
    "",
    "ReLU",
    make_layers((2,), (3,)),
    (0, 1),
    9,
    (Measured(3, 0.1, 2.0, 0.25), Measured(12, 0.2, 1.5, 0.5, 1.75, 0.375)),
    number=1,
    folder="/runs/first",
)
SECOND = replace(
    FIRST,
    name="second.pt",
    regime="DL",
    step=4,
    scores=(Measured(5, 0.1, 1.0, 0.5),),
    number=2,
    folder="/runs/second",
)


def gates(value: float, step: int = 4) -> Reading:
    arrays = {"labels": np.arange(2), "layer_0": np.full((2, 2), value, np.float32)}
    return Reading("gates", step, arrays=arrays)


def frame(step: int, *readings: Reading, run: int = 1, b: tuple[Reading, ...] = ()) -> Frame:
    ours, theirs = ({one.probe: one for one in found} for found in (readings, b))
    return Frame(run, step, 0.0, 9.0, None, ours, theirs)


Happening = Event | Frame | Callable[[History], None]


def tell(history: History, *happened: Happening) -> History:
    for one in happened:
        if isinstance(one, Frame):
            history.on_frame(one)
        elif isinstance(one, Event):
            history.on_event(one)
        else:
            one(history)
    return history


def seen(*happened: Happening) -> History:
    return tell(History(), BEGUN, *happened)


def told(history: History) -> dict[str, str]:
    """Everything that a view says, as text."""
    view = history.view({})
    return {one.name: repr(getattr(view, one.name)) for one in fields(view)} | {
        "step of the history": repr(history.step),
        "probe digest": repr(history.shown_state.probe_digest),
    }


def scalars(probe: str, step: int, examples: int = 0) -> ProbeScalars:
    return ProbeScalars(step, probe, {"equal": float(step)}, examples, 64 if examples else 0)


EVERYTHING: tuple[Happening, ...] = (
    FramesRecorded("/runs/1"),
    lambda history: history.record_left_out(HistoryReplayed((), {"npk": (5, 9), "": (2, 7)})),
    RegimeSwapped(2, "DL", "FL", (), (), (), ()),
    Rewired(3, (1, 0)),
    *(scalars("ntk", step, 8) for step in (1, 2, 3)),
    *(scalars("npk", step) for step in (1, 2)),
    ProbesLeft(4, ("ntk",)),
    scalars("ntk", 90, 8),
    ProbesLeft(91, ("ntk", "npk")),
    ProbeSetChanged(4, 32, "another"),
    Measured(5, 0.5, 2.0, 0.25, 1.0, 0.5),
    frame(6, gates(1.0), Reading("npk", 6)),
    FIRST,
    replace(frame(7, gates(1.0), b=(gates(0.0),)), comparison=1),
    scalars("agreement", 7),
    Diverged(8),
    lambda history: history.look_back(Past(4)),
    lambda history: history.show_as_b(ComparedStep(ComparedFrames("x", "/runs/x", BEGUN), Past(2))),
)
LITTLE: tuple[Happening, ...] = (
    replace(BEGUN, run=2),
    RegimeSwapped(1, "DL", "ReLU", (), (), (), ()),
    scalars("ntk", 10),
    scalars("ntk", 500),
    frame(501, gates(0.5), run=2),
)
MORE: tuple[Happening, ...] = (
    replace(FIRST, folder="/runs/1"),  # where the first run was recorded
    scalars("agreement", 510),
    lambda history: history.look_back(Past(505)),
)


@pytest.mark.parametrize("then", [LITTLE[:1], LITTLE, (*LITTLE, *MORE)], ids=["begun", "", "back"])
def test_a_second_run_is_told_as_if_there_had_been_no_first(then: tuple[Happening, ...]) -> None:
    assert told(seen(*EVERYTHING, *then)) == told(tell(History(), *then))


def test_the_step_of_b_is_that_of_its_checkpoint_and_not_of_its_newest_score() -> None:
    history = seen(FIRST)
    for opened, step in ((FIRST, 9), (SECOND, 4)):
        history.on_event(opened)
        compared = history.view({}).compared
        assert compared is not None
        assert (compared.name, compared.step) == (opened.name, step)
    tell(history, ComparedMoved(30, (Measured(29, 0.0, 0.5, 0.5),)))
    compared = history.view({}).compared
    assert compared is not None
    assert compared.step == 30  # it trains elsewhere: its network is that of now


def b_losses(history: History) -> tuple[list[int], list[float]]:
    scene = all_panels()["training"].draw(history.view({}))
    assert isinstance(scene, Scene)
    curve = find_curve(scene, "loss", "B train")
    return curve.x.tolist(), curve.y.tolist()


def test_the_points_of_one_b_are_never_on_the_curve_of_the_next() -> None:
    history = seen(FIRST)
    assert b_losses(history) == ([3, 12], [2.0, 1.5])
    tell(history, ComparedMoved(14, (Measured(14, 0.0, 0.5, 0.5),)))
    assert b_losses(history) == ([3, 12, 14], [2.0, 1.5, 0.5])
    for between in ((), (ComparisonClosed(),)):
        tell(history, FIRST, *between, SECOND)
        assert b_losses(history) == ([5], [1.0])
        tell(history, ComparedMoved(8, (Measured(8, 0.0, 0.25, 0.5),)))
        assert b_losses(history) == ([5, 8], [1.0, 0.25])


@pytest.mark.parametrize("between", [(), (ComparisonClosed(),)], ids=["at once", "closed"])
def test_the_share_of_equal_gates_over_steps_begins_anew_with_each_b(
    between: tuple[Event, ...],
) -> None:
    history = seen(FIRST, scalars("agreement", 4), scalars("npk", 4), *between)
    tell(history, SECOND)
    assert set(history.view({}).series) == {("npk", "equal")}
    tell(history, scalars("agreement", 6))
    assert history.view({}).series["agreement", "equal"].steps.tolist() == [6]
    tell(history, ComparisonClosed())
    assert set(history.view({}).series) == {("npk", "equal")}


def test_a_second_b_has_readings_and_agreement_of_its_own() -> None:
    history = seen(FIRST, replace(frame(4, gates(1.0), b=(gates(0.0),)), comparison=1))
    history.look_back(Past(4, frame(4, gates(1.0)), ("gates",)))

    def equal() -> float:
        return history.view({}).readings["agreement"].scalars["equal"]

    assert equal() == 0.0
    history.on_event(SECOND)
    compared = history.view({}).compared
    assert compared is not None
    assert compared.readings == {}
    history.on_frame(replace(frame(5, gates(1.0), b=(gates(1.0),)), comparison=2))
    assert equal() == 1.0
    history.look_back(Past(5, frame(5, gates(0.0)), ("gates",)))
    assert equal() == 0.0


def test_a_step_that_was_shown_as_b_is_gone_with_the_next_b_and_with_the_comparison() -> None:
    history = seen(FIRST)
    step = ComparedStep(ComparedFrames("x", "/runs/x", BEGUN), Past(2))
    for opened in (SECOND, FIRST):
        history.show_as_b(step)
        assert history.view({}).compared.at == 2  # type: ignore[union-attr]
        history.on_event(opened)
        assert history.view({}).compared.name == opened.name  # type: ignore[union-attr]
    history.show_as_b(step)
    tell(history, ComparisonClosed(), FIRST)
    assert history.view({}).compared.at is None  # type: ignore[union-attr]


# B as a recorded step of another run, and as the run on show by another spelling of its folder


SCORES = tuple(Measured(step, 0.0, 1.0 / step, 0.5, 0.5, 0.5) for step in (10, 20, 30))


def test_curves_of_b_end_at_its_step() -> None:
    history = History()
    history.on_event(replace(BEGUN, run=1))
    for score in SCORES:
        history.on_event(score)
    history.on_event(ComparisonOpened("other", "", "DL", (), scores=SCORES, folder="/runs/other"))
    training = all_panels()["training"]

    def ends() -> list[int]:
        scene = training.draw(history.view({}))
        curves = [one for chart in scene.charts for one in chart.curves if one.role == "compared"]  # type: ignore[union-attr]
        assert curves
        return sorted({int(curve.x[-1]) for curve in curves})

    assert ends() == [30]
    for step, last in ((20, 20), (25, 20), (30, 30)):
        past = Past(step, Frame(1, step, 0.0, 0.0, None, {}))
        history.show_as_b(ComparedStep(ComparedFrames("other", "/runs/other", BEGUN), past))
        assert ends() == [last]


def test_the_own_run_is_known_by_any_spelling_of_its_folder(tmp_path: Path) -> None:
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (tmp_path / "other").mkdir()
    history = History()
    history.on_event(replace(BEGUN, run=1))
    history.on_event(FramesRecorded(str(folder)))
    for spelling, own in ((link, True), (f"{folder}/", True), (tmp_path / "other", False)):
        history.on_event(ComparisonOpened("b", "", "DL", (), folder=str(spelling), at_step=5))
        compared = history.view({}).compared
        assert compared is not None
        assert compared.own is own
    assert is_same_folder("", "")
    assert not is_same_folder("", Path.cwd())
