"""Points labelled by a random oblique decision tree, against a tree that is walked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, known_sizes, load_examples


def loaded(
    halving: bool, depth: int = 3, dim: int = 4, seed: int = 0, **changes: object
) -> Examples:
    options = (("n", 300), ("dim", dim), ("depth", depth), ("halving", halving))
    config = DataConfig("oblique-tree", options=options, variant_seed=seed, **changes)  # type: ignore[arg-type]
    return load_examples(config, lambda *_: None)


def walk(x: np.ndarray, cuts: np.ndarray, node: int = 0) -> int:
    """The label of one point: 1 if it lies above the last cut that it meets."""
    above = int(sum(w * z for w, z in zip(cuts[node][:-1], x, strict=True)) + cuts[node][-1] > 0)
    child = 2 * node + 1 + above
    return above if child >= len(cuts) else walk(x, cuts, child)


@pytest.mark.parametrize("halving", [False, True])
def test_labels_are_those_of_the_tree_walked_by_hand(halving: bool) -> None:
    found = loaded(halving)
    assert found.cuts is not None
    assert found.cuts.shape == (7, 5 + halving)
    for x, y in ((found.train_x, found.train_y), (found.test_x, found.test_y)):
        # float32 inputs: a point within rounding of a cut may be on either side
        near = np.abs(x.astype(float) @ found.cuts[:, :-1].T + found.cuts[:, -1]).min(1) < 1e-6
        rows = np.flatnonzero(~near)[:300]
        assert [walk(x[row].astype(float), found.cuts) for row in rows] == y[rows].tolist()


def test_points_are_on_the_sphere_or_with_halving_in_the_ball_beside_a_constant() -> None:
    sphere, ball = loaded(False), loaded(True)
    np.testing.assert_allclose(np.linalg.norm(sphere.train_x, axis=1), 1.0, rtol=1e-6)
    assert sphere.cuts is not None
    assert (sphere.cuts[:, -1] == 0).all()
    assert (ball.train_x[:, -1] == 1).all()
    assert ball.cuts is not None
    assert (ball.cuts[:, -2] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(ball.cuts[:, :-1], axis=1), 1.0)
    # uniform in the ball: P(‖x‖ ≤ r) = r⁴ in four dimensions
    radius = np.linalg.norm(ball.test_x[:, :-1], axis=1)
    assert abs((radius <= 0.8).mean() - 0.8**4) < 0.03


def test_halving_cuts_leave_as_many_points_in_each_leaf() -> None:
    found = loaded(True, depth=2)
    assert found.cuts is not None
    sides = found.test_x @ found.cuts[:, :-1].T + found.cuts[:, -1] > 0
    leaf = 2 * sides[:, 0] + np.where(sides[:, 0], sides[:, 2], sides[:, 1])
    assert np.abs(np.bincount(leaf, minlength=4) / len(leaf) - 0.25).max() < 0.03


@pytest.mark.parametrize("halving", [False, True])
def test_a_seed_draws_the_same_tree_again_and_sizes_are_known_before(halving: bool) -> None:
    one, two, other = loaded(halving), loaded(halving), loaded(halving, seed=1)
    assert one.fingerprint == two.fingerprint != other.fingerprint
    options = (("n", 300), ("dim", 4), ("depth", 3), ("halving", halving))
    sizes = known_sizes(DataConfig("oblique-tree", options=options))
    assert sizes is not None
    assert (sizes.train, sizes.test, sizes.shape) == (300, len(one.test_y), one.train_x.shape[1:])
    assert one.signed


def test_cuts_are_kept_while_inputs_are_those_of_the_tree() -> None:
    assert loaded(False, train_limit=50, label_noise=0.2).cuts is not None
    assert loaded(False, pixels="random").cuts is None
    assert loaded(False, normalise="0.5/0.5").cuts is None
