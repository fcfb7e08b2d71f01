"""How often panels may be drawn, and what the window says it takes."""

from __future__ import annotations

import os

import pytest

from dgn_engine.protocol.frames import Watching
from dgn_engine.protocol.watching import ReportWindow
from dgn_engine.views.redraw_pace import (
    CREDIT,
    FIRST_INTERVAL,
    SHORTEST,
    LookBackPace,
    RedrawPace,
)


def intervals(pace: RedrawPace, age: float = 1e6) -> tuple[float, float, float]:
    return pace.redraw_interval, pace.interval_at(age, False), pace.interval_at(age, True)


def test_where_nothing_trains_panels_are_drawn_as_often_as_a_screen_shows() -> None:
    pace = RedrawPace()
    assert intervals(pace) == (SHORTEST, SHORTEST, SHORTEST)
    pace.update_interval(Watching(0.05, every=2.0))
    pace.update_interval(None)
    assert intervals(pace) == (SHORTEST, SHORTEST, SHORTEST)


def test_while_a_run_trains_panels_are_drawn_with_the_rounds_of_the_engine() -> None:
    pace = RedrawPace()
    pace.update_interval(Watching(0.05, every=2.0))
    assert intervals(pace) == (2.0, 2.0, 1.0)
    pace.update_interval(Watching(0.05, every=0.01))
    assert intervals(pace) == (SHORTEST, SHORTEST, SHORTEST)


def test_a_young_picture_is_drawn_again_when_it_is_a_tenth_older() -> None:
    pace = RedrawPace()
    pace.update_interval(Watching(0.05, every=30.0))
    assert intervals(pace, 0.0) == (30.0, FIRST_INTERVAL, FIRST_INTERVAL)
    assert intervals(pace, 10.0) == (30.0, 1.0, 1.0)
    assert intervals(pace, 600.0) == (30.0, 30.0, 15.0)
    age, count = 0.0, 0
    while age < 60.0:
        age, count = age + pace.interval_at(age, False), count + 1
    assert count < 50
    pace.update_interval(Watching(0.05, every=0.3))
    assert intervals(pace, 0.0)[1:] == (FIRST_INTERVAL, 0.15), "never later than otherwise"


def test_the_window_reports_once_a_second_what_drawing_took_and_what_the_rest() -> None:
    pace, training = RedrawPace(), Watching(0.05, every=1.0)
    pace.update_interval(training)
    assert pace.report_costs(10.0, 3.0) is None, "what came before is nobody's"
    pace.record_drawing(0.02)
    pace.record_drawing(0.01)
    assert pace.report_costs(10.9, 3.1) is None
    assert pace.report_costs(11.0, 3.125) == ReportWindow(
        pytest.approx(0.03), pytest.approx(0.095), os.getpid()
    )
    pace.record_other_thread(0.25)
    for wall, rest in ((12.0, 0.25), (13.0, 0.0)):
        assert pace.report_costs(wall, 3.125) == ReportWindow(0.0, rest, os.getpid())
    pace.record_drawing(5.0)
    pace.update_interval(None)
    assert pace.report_costs(20.0, 9.0) is None, (
        "what was drawn while nothing trained delayed nothing"
    )


# a step that somebody looks back at while a network trains: simulated drags


TRAINS = Watching(0.05, parts={"window": 0.01})


def dragged(pace: LookBackPace, cost: float, seconds: float, every: float = 0.016) -> list[float]:
    """When pictures are drawn while a step is asked for all the time; each takes `cost`."""
    drawn = []
    for turn in range(round(seconds / every)):
        now = 100.0 + every * turn
        if pace.seconds_until_next(now) <= 0.0:
            drawn.append(now)
            pace.record_drawing(cost, now)
    return drawn


def look_back_pace(watching: Watching | None = TRAINS, paced: bool = False) -> LookBackPace:
    pace = LookBackPace()
    pace.seconds_until_next(90.0)
    pace.update_share(watching, paced)
    return pace


@pytest.mark.parametrize("cost", [0.002, 0.01, 0.047])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.3])
def test_a_drag_takes_the_share_and_what_may_come_at_once(cost: float, share: float) -> None:
    pace = look_back_pace(Watching(share, parts={"window": 0.01}))
    spent = cost * len(dragged(pace, cost, 40.0))
    asked = 40.0 / 0.016  # times
    assert min(0.9 * share * 40.0, cost * asked) <= spent <= CREDIT + share * 40.0 + cost


def test_a_single_jump_is_drawn_at_once_also_soon_after_another() -> None:
    pace = look_back_pace()
    for now in (100.0, 101.0, 102.0, 103.0):
        assert pace.seconds_until_next(now) == 0.0
        pace.record_drawing(0.047, now)


@pytest.mark.parametrize(
    ("watching", "paced"),
    [(None, False), (TRAINS, True), (Watching(0.05, parts={"readings": 0.01}), False)],
    ids=["nothing trains", "it waits between its steps", "in another process"],
)
def test_where_drawing_delays_nothing_no_picture_waits(
    watching: Watching | None, paced: bool
) -> None:
    assert len(dragged(look_back_pace(watching, paced), 0.047, 2.0)) == 125


def test_a_picture_that_took_long_is_not_waited_for_for_minutes() -> None:
    pace = look_back_pace()
    pace.record_drawing(30.0, 100.0)
    assert pace.seconds_until_next(100.0) == pytest.approx(CREDIT / 0.05)
