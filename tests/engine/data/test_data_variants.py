"""False labels, random pixels and smaller test sets: what changes, by how much, and what never."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError

N, CLASSES = 1437, 10
VARIANTS = [
    DataConfig(),
    DataConfig(variant_seed=1, label_noise=0.25),
    DataConfig(label_noise=0.25),
    DataConfig(label_noise=0.5),
    DataConfig(label_noise=1.0),
    DataConfig(pixels="random"),
    DataConfig(pixels="random", variant_seed=1),
    DataConfig(pixels="random", label_noise=0.5),
    DataConfig(test_limit=100),
    DataConfig(train_limit=100),
    DataConfig(binary=(4, 7)),
]


@pytest.fixture(scope="module")
def true() -> Examples:
    return load_examples(DataConfig())


@pytest.mark.wide(3)
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
def test_label_noise_makes_its_share_of_labels_false(true: Examples, share: float) -> None:
    noisy = load_examples(DataConfig(label_noise=share))
    false = (noisy.train_y != true.train_y).mean()
    expected = share * (1 - 1 / CLASSES)  # one draw in C hits the true class
    spread = np.sqrt(expected * (1 - expected) / N)
    assert abs(false - expected) < 4 * spread
    assert np.array_equal(noisy.train_x, true.train_x)


def test_false_labels_are_drawn_uniformly(true: Examples) -> None:
    counts = np.bincount(load_examples(DataConfig(label_noise=1.0)).train_y, minlength=CLASSES)
    assert np.abs(counts - N / CLASSES).max() < 4 * np.sqrt(N / CLASSES)


def test_more_noise_keeps_the_false_labels_of_less(true: Examples) -> None:
    some = load_examples(DataConfig(label_noise=0.25)).train_y
    more = load_examples(DataConfig(label_noise=0.75)).train_y
    false = some != true.train_y
    assert np.array_equal(some[false], more[false])


def test_false_labels_are_fixed_by_the_variant_seed() -> None:
    config = DataConfig(label_noise=0.5)
    first, again = load_examples(config), load_examples(config)
    other = load_examples(replace(config, variant_seed=1))
    assert np.array_equal(first.train_y, again.train_y)
    assert first.fingerprint == again.fingerprint
    assert not np.array_equal(first.train_y, other.train_y)


@pytest.mark.wide(3)
@pytest.mark.parametrize("config", VARIANTS[:8])
def test_test_examples_stay_true_in_every_variant(true: Examples, config: DataConfig) -> None:
    variant = load_examples(config)
    assert np.array_equal(variant.test_y, true.test_y)
    assert np.array_equal(variant.test_x, true.test_x)


def test_random_pixels_have_the_moments_of_the_training_set(true: Examples) -> None:
    drawn = load_examples(DataConfig(pixels="random"))
    pixels, count = drawn.train_x.astype(np.float64), true.train_x.size
    mean, deviation = true.train_x.astype(np.float64).mean(), true.train_x.astype(np.float64).std()
    assert abs(pixels.mean() - mean) < 4 * deviation / np.sqrt(count)
    assert abs(pixels.std() - deviation) < 4 * deviation / np.sqrt(2 * count)
    standard = (pixels - mean) / deviation
    assert abs((standard**4).mean() - 3) < 4 * np.sqrt(96 / count)  # a Gaussian's kurtosis
    assert pixels.min() < 0  # not cut off
    assert np.array_equal(drawn.train_y, true.train_y)


def test_random_pixels_leave_true_labels_and_noise_adds_its_own() -> None:
    noisy = load_examples(DataConfig(label_noise=0.5))
    both = load_examples(DataConfig(pixels="random", label_noise=0.5))
    assert np.array_equal(both.train_y, noisy.train_y)


def test_every_variant_has_a_fingerprint_of_its_own() -> None:
    prints = [load_examples(config).fingerprint for config in VARIANTS]
    for one, other in combinations(range(len(VARIANTS)), 2):
        assert prints[one] != prints[other], (VARIANTS[one], VARIANTS[other])


def test_noise_of_a_pair_draws_from_the_pair() -> None:
    config = DataConfig(binary=(4, 7), label_noise=1.0)
    pair, noisy = load_examples(replace(config, label_noise=0.0)), load_examples(config)
    assert set(noisy.train_y.tolist()) == {0, 1}
    assert 0.3 < (noisy.train_y != pair.train_y).mean() < 0.7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label_noise", 1.5),
        ("label_noise", -0.1),
        ("pixels", "shuffled"),
        ("test_limit", -1),
        ("variant_seed", -1),
    ],
)
def test_a_variant_that_does_not_exist_is_refused(name: str, value: object) -> None:
    with pytest.raises(UserError) as refusal:
        DataConfig(**{name: value})  # type: ignore[arg-type]
    assert (refusal.value.place, refusal.value.value) == (f"data.{name}", value)
