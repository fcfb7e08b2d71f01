"""How often panels may be drawn, and what the window says it takes."""

from __future__ import annotations

import os

import pytest

from dgn_engine.protocol.frames import Watching
from dgn_engine.protocol.watching import ReportWindow
from dgn_engine.views.redraw_pace import SHORTEST, RedrawPace


def test_where_nothing_trains_panels_are_drawn_as_often_as_a_screen_shows() -> None:
    pace = RedrawPace()
    assert (pace.every, pace.spacing) == (SHORTEST, SHORTEST)
    pace.follow(Watching(0.05, every=2.0))
    pace.follow(None)
    assert (pace.every, pace.spacing) == (SHORTEST, SHORTEST)


def test_while_a_run_trains_panels_are_drawn_with_the_rounds_of_the_engine() -> None:
    pace = RedrawPace()
    pace.follow(Watching(0.05, every=2.0))
    assert (pace.every, pace.spacing) == (2.0, 1.0)
    pace.follow(Watching(0.05, every=0.01))
    assert (pace.every, pace.spacing) == (SHORTEST, SHORTEST)


def test_the_window_reports_once_a_second_what_drawing_took_and_what_the_rest() -> None:
    pace, training = RedrawPace(), Watching(0.05, every=1.0)
    pace.follow(training)
    assert pace.report(10.0, 3.0) is None, "what came before is nobody's"
    pace.drawn(0.02)
    pace.drawn(0.01)
    assert pace.report(10.9, 3.1) is None
    assert pace.report(11.0, 3.125) == ReportWindow(
        pytest.approx(0.03), pytest.approx(0.095), os.getpid()
    )
    assert pace.report(12.0, 3.125) == ReportWindow(0.0, 0.0, os.getpid())
    pace.drawn(5.0)
    pace.follow(None)
    assert pace.report(20.0, 9.0) is None, "what was drawn while nothing trained delayed nothing"
