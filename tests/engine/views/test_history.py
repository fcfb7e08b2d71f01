"""History is a pure fold: events and frames in, views out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Frame, Reading, freeze
from dgn_engine.protocol.runs import HistoryReplayed
from dgn_engine.protocol.training import (
    Measured,
    RunStarted,
    SettingChanged,
)
from dgn_engine.protocol.watching import ProbeScalars, ProbeSet, ProbeSetChanged, ProbesLeft
from dgn_engine.views import history as history_module
from dgn_engine.views.history import MOST_GAPS, MOST_MARKS, History


def run_started(run: int = 1, paused: bool = False) -> RunStarted:
    return RunStarted(
        run=run,
        config=RunConfig(),
        regime="DL",
        device="cpu",
        layers=(),
        wiring=(0, 1, 2),
        parameters_value=1,
        parameters_feature=1,
        train_examples=100,
        test_examples=10,
        classes=10,
        steps_per_epoch=10,
        total_steps=0,
        probe_set=ProbeSet((), (), (), ""),
        paused=paused,
    )


def frame(run: int, step: int, *readings: Reading) -> Frame:
    return Frame(run, step, step / 10, 50.0, None, {r.probe: r for r in readings})


@pytest.fixture
def history() -> History:
    history = History()
    history.on_event(run_started())
    return history


def test_nobody_can_write_to_a_series(history: History) -> None:
    history.on_event(ProbeScalars(1, "ntk", {"trace": 1.0}))
    series = history.view({}).series[("ntk", "trace")]
    with pytest.raises(ValueError, match="read-only"):
        series.values[0] = 2.0
    history.on_event(ProbeScalars(2, "ntk", {"trace": 2.0}))
    assert history.view({}).series[("ntk", "trace")].values.tolist() == [1.0, 2.0]


def test_the_readings_are_those_of_the_newest_frame(history: History) -> None:
    gates = Reading("gates", 5, arrays={"g": freeze(np.ones(3))})
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
    run = history.state.run
    assert run is not None
    assert history.view({}).traced == {"ntk": len(run.probe_set.indices)}
    history.on_event(replace(run, began_with=20))
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
    history.note_left_out(HistoryReplayed((), {"training": (500, 4000), "": (10, 30)}))
    assert history.view({}).left_out == {"training": (drawn, 4500), "": (0, 20)}


def test_gaps_of_a_probe_are_bounded(history: History) -> None:
    for step in range(0, 100 * 3 * MOST_GAPS, 100):
        history.on_event(ProbeScalars(step, "ntk", {"trace": 1.0}))
        history.on_event(ProbeScalars(step + 1, "ntk", {"trace": 1.0}))
        history.on_event(ProbesLeft(step + 1, ("ntk",)))
    gaps = history.view({}).gaps["ntk"]
    assert len(gaps) == MOST_GAPS
    assert gaps[-1][1] == 100 * (3 * MOST_GAPS - 1)
