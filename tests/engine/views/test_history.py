"""History is a pure fold: events and frames in, views out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Frame, Reading, read_only_copy
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import HistoryReplayed, RunContinued
from dgn_engine.protocol.training import Measured, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars, ProbeSetChanged, ProbesLeft
from dgn_engine.scene.panel_spec import View
from dgn_engine.views import history as history_module
from dgn_engine.views.history import MOST_GAPS, MOST_MARKS, History
from tests.engine.panels.pictures import started_run


def frame(number: int, step: int, *readings: Reading) -> Frame:
    return Frame(number, step, step / 10, 50.0, None, {r.probe: r for r in readings})


@pytest.fixture
def history() -> History:
    history = History()
    history.on_event(started_run((2,)))
    return history


def test_the_readings_are_those_of_the_newest_frame(history: History) -> None:
    gates = Reading("gates", 5, arrays={"g": read_only_copy(np.ones(3))})
    history.on_frame(frame(1, 5, gates))
    history.on_frame(frame(1, 9, gates, Reading("overlap", 9)))
    view = history.view({})
    assert set(view.readings) == {"gates", "overlap"}
    assert view.readings["gates"] is gates
    assert view.step == 9
    before = history.revision("gates")
    history.on_frame(frame(1, 9, Reading("overlap", 9)))
    assert set(history.view({}).readings) == {"overlap"}, "of a network that is no more"
    assert history.revision("gates") != before


def test_other_probe_examples_concern_every_panel(history: History) -> None:
    before = history.revision("gates")
    history.on_event(ProbeSetChanged(3, 32, "digest"))
    assert history.revision("gates") != before
    assert history.view({}).probe_examples == 32


def test_a_trace_of_fewer_examples_is_another_trace(history: History) -> None:
    """tr K of eight examples and of 64 are no one curve; neither is lost."""
    for step, examples in ((1, 8), (2, 8), (3, 0), (4, 8)):
        of = 64 if examples else 0
        history.on_event(ProbeScalars(step, "ntk", {"trace": float(step)}, examples, of))
        steps = history.view({}).series["ntk", "trace"].steps.tolist()
        assert steps == {1: [1], 2: [1, 2], 3: [3], 4: [1, 2, 4]}[step]
    history.on_event(ProbeScalars(4, "npk", {"nu": 1.0}))
    assert history.view({}).series["npk", "nu"].steps.tolist() == [4]


def test_a_share_of_the_probe_examples_is_no_smaller_probe_set(history: History) -> None:
    """Every second one of 64 and 32 that were chosen are other examples: two traces."""
    history.on_event(ProbeScalars(1, "ntk", {"trace": 1.0}, 32, 64))
    history.on_event(ProbeSetChanged(2, 32, "digest"))
    history.on_event(ProbeScalars(3, "ntk", {"trace": 3.0}, 32))
    view = history.view({})
    assert view.series["ntk", "trace"].steps.tolist() == [3]
    assert view.traced == {"ntk": 32}
    history.on_event(ProbeScalars(4, "ntk", {"trace": 4.0}))
    begun = history.state.run
    assert begun is not None
    assert history.view({}).traced == {"ntk": len(begun.probe_set.indices)}
    history.on_event(replace(begun, began_with=20))
    history.on_event(ProbeScalars(4, "ntk", {"trace": 4.0}))
    assert history.view({}).traced == {"ntk": 20}


def test_marks_are_bounded_the_oldest_thin_out_and_the_view_says_so(history: History) -> None:
    count = 3 * MOST_MARKS
    for step in range(count):
        history.on_event(SettingChanged(step, 0.1, 1.0 + step, "image", 0.0))
    view = history.view({})
    assert len(view.marks) <= MOST_MARKS
    steps = [int(mark.x) for mark in view.marks]
    assert steps == sorted(steps)
    assert steps[-MOST_MARKS // 2 :] == [*range(count - MOST_MARKS // 2, count)]
    assert view.left_out[""] == (len(steps), view.left_out[""][1])
    assert view.left_out[""][1] >= count


def test_a_long_curve_is_thinned_and_the_view_says_of_how_many_points(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MOST_POINTS", 32)
    for step in range(1000):
        history.on_event(Measured(step, step / 10, 1.0, 0.5))
    view = history.view({})
    drawn = len(view.series[("training", "train_loss")].steps)
    assert drawn <= 34
    assert view.left_out == {"training": (drawn, 1000)}
    history.record_left_out(HistoryReplayed((), {"training": (500, 4000), "": (10, 30)}))
    assert history.view({}).left_out == {"training": (drawn, 4500), "": (0, 20)}


def test_gaps_of_a_probe_are_bounded(history: History) -> None:
    for step in range(0, 100 * 3 * MOST_GAPS, 100):
        history.on_event(ProbeScalars(step, "ntk", {"trace": 1.0}))
        history.on_event(ProbeScalars(step + 1, "ntk", {"trace": 1.0}))
        history.on_event(ProbesLeft(step + 1, ("ntk",)))
    gaps = history.view({}).gaps["ntk"]
    assert len(gaps) == MOST_GAPS
    assert gaps[-1][1] == 100 * (3 * MOST_GAPS - 1)


# a trace is broken where nobody watched its probe


def traced(*happened: Event) -> View:
    history = History()
    for event in (started_run((2,)), *happened):
        history.on_event(event)
    return history.view({})


def read(*steps: int, probe: str = "ntk", examples: int = 0) -> tuple[ProbeScalars, ...]:
    return tuple(ProbeScalars(step, probe, {"trace": 2.0 * step}, examples) for step in steps)


def points(view: View) -> list[tuple[int, float]]:
    series = view.series["ntk", "trace"]
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_a_trace_is_broken_where_its_panel_was_closed() -> None:
    view = traced(*read(10, 20, 30), ProbesLeft(34, ("ntk",)), *read(130, 140))
    assert view.gaps == {"ntk": ((30, 130),)}
    steps, values = zip(*points(view), strict=True)
    assert steps == (10, 20, 30, 80, 130, 140)
    assert np.isnan(values[3])
    assert np.isfinite([*values[:3], *values[4:]]).all()


@pytest.mark.parametrize("next_step", [30, 31, 40, 50])
def test_a_panel_that_was_closed_for_a_moment_leaves_no_gap(next_step: int) -> None:
    view = traced(*read(10, 20, 30), ProbesLeft(30, ("ntk",)), *read(next_step))
    assert view.gaps == {}
    assert len(points(view)) == 4


def test_only_the_probe_that_was_left_has_a_gap() -> None:
    view = traced(
        *read(10, 20),
        *read(10, 20, probe="npk"),
        ProbesLeft(21, ("npk",)),
        *read(90),
        *read(90, probe="npk"),
    )
    assert view.gaps == {"npk": ((20, 90),)}
    assert len(points(view)) == 3


def test_a_probe_with_several_traces_has_one_gap_each_time() -> None:
    def both(step: int) -> ProbeScalars:
        return ProbeScalars(step, "ntk", {"trace": 1.0, "norm": 2.0})

    left = ProbesLeft(3, ("ntk",))
    view = traced(both(2), left, both(50), both(60), left, both(200))
    assert view.gaps == {"ntk": ((2, 50), (60, 200))}
    assert {len(series.steps) for series in view.series.values()} == {6}


def test_a_run_that_goes_on_is_broken_where_it_was_not_watched_at_first() -> None:
    on = RunContinued(30)
    assert traced(*read(10, 20, 30), on, *read(33)).gaps == {}
    assert traced(*read(10, 20, 30), on, *read(200)).gaps == {"ntk": ((30, 200),)}
