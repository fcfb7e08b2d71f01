"""Data sets of the plane: what they are made of, and that each can be learnt."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples

NAMES = ("moons", "circles", "spirals", "xor", "checkerboard")


def loaded(name: str, noise: float = 0.0, seed: int = 0, n: int = 60) -> Examples:
    options = (("n", n), ("noise", noise))
    config = DataConfig(name=name, options=options, variant_seed=seed)
    return load_examples(config, lambda *_: None)


@pytest.mark.parametrize("name", NAMES)
def test_points_are_balanced_within_the_square_and_have_a_constant(name: str) -> None:
    found = loaded(name)
    assert found.train_x.shape == (60, 3)
    assert found.test_x.shape == (400, 3)
    assert (found.train_x[:, 2] == 1).all()
    assert np.abs(found.train_x).max() <= 1.01
    assert np.bincount(found.train_y).tolist() == [30, 30]
    assert not found.signed
    assert len({row.tobytes() for row in (*found.train_x, *found.test_x)}) == 460


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_draws_the_same_points_and_another_seed_others(name: str) -> None:
    one, two, other = loaded(name), loaded(name), loaded(name, seed=1)
    assert one.fingerprint == two.fingerprint != other.fingerprint
    np.testing.assert_array_equal(one.train_x, two.train_x)
    assert not np.array_equal(loaded(name, noise=0.1).train_x, one.train_x)


def test_without_noise_each_set_follows_its_rule() -> None:
    circles = loaded("circles")
    radius = np.linalg.norm(circles.train_x[:, :2], axis=1)
    np.testing.assert_allclose(radius, np.where(circles.train_y == 0, 0.9, 0.4), rtol=1e-6)
    xor = loaded("xor")
    same = np.sign(xor.train_x[:, 0]) == np.sign(xor.train_x[:, 1])
    assert (same == (xor.train_y == 0)).all()
    board = loaded("checkerboard", n=400)
    columns, rows = np.floor(2 * (board.train_x[:, :2] + 1)).astype(int).T
    assert ((columns + rows) % 2 == board.train_y).all()
    assert set(zip(columns.tolist(), rows.tolist(), strict=True)) == set(np.ndindex(4, 4))
    moons = loaded("moons")
    x, y = 1.5 * moons.train_x[:, 0] + 0.5, 1.5 * moons.train_x[:, 1] + 0.25
    second = moons.train_y == 1
    np.testing.assert_allclose((x - second) ** 2 + (y - 0.5 * second) ** 2, 1.0, rtol=1e-5)
    spirals = loaded("spirals")
    size = np.linalg.norm(spirals.train_x[:, :2], axis=1)
    turn = 2 * np.pi * 1.5 * (size - 0.1) / 0.9 + np.pi * spirals.train_y
    rebuilt = size[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    np.testing.assert_allclose(rebuilt, spirals.train_x[:, :2], atol=1e-5)
