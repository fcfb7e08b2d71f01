"""A curve in bounded memory: what is held of it, and what was handed out."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from dgn_engine.protocol.thinned_curve import ThinnedCurve

MOST = 64


def made(values: list[float]) -> ThinnedCurve:
    curve = ThinnedCurve(MOST)
    for step, value in enumerate(values):
        curve.append(step, value)
    return curve


def test_a_curve_that_has_room_holds_every_point() -> None:
    values = [float(step % 7) for step in range(MOST)]
    steps, held = made(values).points()
    assert steps.tolist() == list(range(MOST))
    assert held.tolist() == values


@pytest.mark.parametrize("count", [MOST + 1, 2 * MOST, 2 * MOST + 1, 1000, 9999])
def test_a_longer_one_holds_every_second_point_or_fewer_all_along(count: int) -> None:
    curve = made([1.0] * count)
    steps, _ = curve.points()
    every = int(steps[1] - steps[0])
    assert len(steps) <= MOST + 1
    assert every & (every - 1) == 0
    assert steps.tolist() == sorted({*range(0, count, every), count - 1})
    assert (curve.point_count, curve.count) == (len(steps), count)


@pytest.mark.parametrize("seed", range(20))
def test_first_last_lowest_and_highest_points_are_always_there(seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.random() for _ in range(chance.randrange(MOST, 5000))]
    steps, held = made(values).points()
    assert len(steps) <= MOST + 3
    assert steps.tolist() == sorted(steps.tolist())
    assert all(values[step] == value for step, value in zip(steps.tolist(), held, strict=True))
    assert {0, len(values) - 1, int(np.argmin(values)), int(np.argmax(values))} <= {*steps.tolist()}


def test_breaks_stay_until_there_are_too_many() -> None:
    values = [math.nan if step in (100, 777) else 1.0 for step in range(2000)]
    steps, held = made(values).points()
    assert steps[np.isnan(held)].tolist() == [100, 777]
    steps, held = made([math.nan] * 2000).points()
    assert len(steps) <= MOST
    assert np.isnan(held).all()


def test_points_that_were_handed_out_keep_their_content_and_cannot_be_written() -> None:
    curve = made([float(step) for step in range(MOST)])
    steps, values = curve.points()
    for step in range(MOST, 10 * MOST):
        curve.append(step, 0.0)
        early = curve.points()
        kept = early[0].copy()
        curve.append(step, -1.0)
        assert (early[0] == kept).all()
    assert values.tolist() == [float(step) for step in range(MOST)]
    with pytest.raises(ValueError, match="read-only"):
        steps[0] = 1
