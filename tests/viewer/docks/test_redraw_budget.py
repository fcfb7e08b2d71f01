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


# By hand: of a share of 0.05, panels that cost c and are n in number wait n c / 0.05 seconds,
# and then to the next of 1/30, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9.


@pytest.mark.parametrize(
    ("cost", "count", "seconds"),
    [
        (0.001, 1, SHORTEST),
        (0.0024, 1, 0.05),
        (0.0024, 2, 0.1),
        (0.0026, 2, 0.15),
        (0.0099, 1, 0.2),
        (0.0101, 1, 0.25),
        (0.0149, 1, 0.3),
        (0.0151, 1, 0.4),
        (0.0249, 1, 0.5),
        (0.0251, 1, 0.7),
        (0.0351, 1, 0.9),
        (0.5, 1, 0.9),
    ],
)
def test_the_interval_of_panels_that_share_the_time(
    cost: float, count: int, seconds: float
) -> None:
    pace = RedrawBudget()
    pace.drawn("npk", cost, 1.0)
    assert pace.interval("npk", FIVE[:count]) == seconds


def test_a_new_cost_counts_three_tenths() -> None:
    pace = RedrawBudget()
    pace.drawn("npk", 0.0024, 1.0)
    pace.drawn("npk", 0.0044, 1.0)  # now 0.003 s: 0.06 alone, 0.12 beside another
    assert pace.interval("npk", ["npk"]) == 0.1
    assert pace.interval("npk", ["npk", "ntk"]) == 0.15
    pace.drawn("npk", 0.0, 1.0)  # now 0.0021 s
    assert pace.interval("npk", ["npk"]) == 0.05


@pytest.mark.parametrize(
    ("cost", "seconds"), [(0.001, SHORTEST), (0.01, 0.04), (0.125, 0.5), (1.0, LONGEST)]
)
def test_a_prompt_panel_takes_a_quarter_of_a_core_at_most(cost: float, seconds: float) -> None:
    pace = RedrawBudget(["gates"])
    assert (pace.is_prompt("gates"), pace.is_prompt("npk")) == (True, False)
    pace.drawn("gates", cost, 1.0)
    assert pace.interval("gates", FIVE) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("cost", "spacing", "seconds"),
    [
        (0.01, 1.0, 0.15),  # takes 0.01 of the 0.05: 0.0045 / 0.04 is 0.1125
        (0.01, 0.5, 0.2),  # takes 0.02: 0.15, a rounding above
        (0.01, 0.0, 0.9),  # at most thirty times a second; a tenth of the share is left: 0.9
        (0.001, 1.0, 0.1),
    ],
)
def test_what_prompt_panels_take_is_lost_to_the_others(
    cost: float, spacing: float, seconds: float
) -> None:
    pace = RedrawBudget(["gates"])
    pace.drawn("gates", cost, spacing)
    pace.drawn("npk", 0.00451 if spacing == 0.5 else 0.0045, 1.0)
    assert pace.interval("npk", ["gates", "npk"]) == seconds
    assert pace.interval("npk", ["npk"]) == 0.1  # out of sight it takes nothing
    unseen = RedrawBudget(["gates"])
    unseen.drawn("npk", 0.0045, 1.0)
    assert unseen.interval("npk", ["gates", "npk"]) == 0.1  # nor before it was ever drawn


def test_other_work_of_the_window_is_accounted_once_a_second_without_the_drawing() -> None:
    def after(*accounts: tuple[float, float], drawing: float = 0.0) -> float:
        pace = RedrawBudget()
        pace.settle(10.0, 1.0)
        pace.drawn("npk", 0.0045, 1.0)
        if drawing:
            pace.drawn("ntk", drawing, 1.0)
        for wall, busy in accounts:
            pace.settle(wall, busy)
        return pace.interval("npk", ["npk"])

    assert after() == 0.1
    # 0.0645 s in a second, 0.0045 of them drawn: 0.06, of which three tenths count: 0.018 of 0.05
    # are gone, and 0.0045 / 0.032 is 0.14.
    assert after((11.0, 1.0645)) == 0.15
    assert after((10.9, 1.0645)) == 0.1  # not a second yet
    assert after((12.0, 1.0645)) == 0.15  # in two seconds it is half as much: 0.11
    assert after((12.0, 1.0345)) == 0.1  # 0.015 · 0.3: 0.0989
    assert after((11.0, 1.0645), drawing=0.06) == 0.1  # all of it was drawing
    # Drawing is counted in one account only: the second one finds 0.06 again, 0.0306 in all.
    assert after((11.0, 1.0645), (12.0, 1.1245)) == 0.25
    assert after((11.0, 9.0)) == 0.9  # a tenth of the share is always left
    assert after((11.0, 0.5)) == 0.1  # less than the drawing: nothing, and no gain
