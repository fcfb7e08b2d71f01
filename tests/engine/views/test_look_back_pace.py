"""How often a step is drawn that somebody looks back at while a network trains: simulated drags."""

from __future__ import annotations

import pytest

from dgn_engine.protocol.frames import Watching
from dgn_engine.views.redraw_pace import CREDIT, LookBackPace

TRAINS = Watching(0.05, parts={"window": 0.01})


def dragged(pace: LookBackPace, cost: float, seconds: float, every: float = 0.016) -> list[float]:
    """When pictures are drawn while a step is asked for all the time; each takes `cost`."""
    drawn = []
    for turn in range(round(seconds / every)):
        now = 100.0 + every * turn
        if pace.wait(now) <= 0.0:
            drawn.append(now)
            pace.drew(cost, now)
    return drawn


def made(watching: Watching | None = TRAINS, paced: bool = False) -> LookBackPace:
    pace = LookBackPace()
    pace.wait(90.0)
    pace.follow(watching, paced)
    return pace


@pytest.mark.parametrize("cost", [0.002, 0.01, 0.047])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.3])
def test_a_drag_takes_the_share_and_what_may_come_at_once(cost: float, share: float) -> None:
    pace = made(Watching(share, parts={"window": 0.01}))
    spent = cost * len(dragged(pace, cost, 40.0))
    asked = 40.0 / 0.016  # times
    assert min(0.9 * share * 40.0, cost * asked) <= spent <= CREDIT + share * 40.0 + cost


def test_a_single_jump_is_drawn_at_once_also_soon_after_another() -> None:
    pace = made()
    for now in (100.0, 101.0, 102.0, 103.0):
        assert pace.wait(now) == 0.0
        pace.drew(0.047, now)


@pytest.mark.parametrize(
    ("watching", "paced"),
    [(None, False), (TRAINS, True), (Watching(0.05, parts={"readings": 0.01}), False)],
    ids=["nothing trains", "it waits between its steps", "in another process"],
)
def test_where_drawing_delays_nothing_no_picture_waits(
    watching: Watching | None, paced: bool
) -> None:
    assert len(dragged(made(watching, paced), 0.047, 2.0)) == 125


def test_a_picture_that_took_long_is_not_waited_for_for_minutes() -> None:
    pace = made()
    pace.drew(30.0, 100.0)
    assert pace.wait(100.0) == pytest.approx(CREDIT / 0.05)
