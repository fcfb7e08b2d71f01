"""How often panels are drawn: within a share of the time, none of them forgotten."""

from __future__ import annotations

import pytest

from dgn_viewer.docks.redraw_budget import LONGEST, SHORTEST, RedrawBudget

FIVE = ("gates", "overlap", "npk", "ntk", "training")


def learned(costs: dict[str, float], spacing: float = 1.0) -> RedrawBudget:
    pace = RedrawBudget(prompt=["gates"], share=0.05)
    for name, cost in costs.items():
        for _ in range(30):
            pace.drawn(name, cost, spacing)
    return pace


def test_what_costs_nothing_is_drawn_as_often_as_a_screen_shows() -> None:
    assert RedrawBudget().interval("npk", FIVE) == SHORTEST


@pytest.mark.parametrize("cost", [0.0005, 0.001, 0.002])
def test_drawing_all_panels_at_their_intervals_keeps_to_the_share(cost: float) -> None:
    pace = learned(dict.fromkeys(FIVE, cost))
    spent = cost + sum(cost / pace.interval(name, FIVE) for name in FIVE if name != "gates")
    assert spent <= 0.05


def test_an_expensive_panel_is_still_drawn_about_once_a_second() -> None:
    assert learned({"npk": 3.0}).interval("npk", FIVE) == LONGEST


def test_a_prompt_panel_does_not_wait_for_the_share() -> None:
    pace = learned(dict.fromkeys(FIVE, 0.01))
    assert pace.interval("gates", FIVE) <= 0.05
    assert pace.interval("npk", FIVE) > 0.25


def test_what_else_the_window_does_stretches_the_intervals() -> None:
    pace = learned(dict.fromkeys(FIVE, 0.001))
    before = pace.interval("npk", FIVE)
    for second in range(20):
        pace.settle(float(second), 0.04 * second)
    assert pace.interval("npk", FIVE) > before


def test_fewer_panels_in_sight_are_drawn_more_often() -> None:
    pace = learned(dict.fromkeys(FIVE, 0.003))
    assert pace.interval("npk", ("npk",)) < pace.interval("npk", FIVE)
