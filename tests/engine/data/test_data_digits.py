from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._variants import balanced_indices, stratified_split
from dgn_engine.session.known_plug_ins import data_entries
from tests.refusals import refused


@pytest.fixture(scope="module")
def digits() -> Examples:
    return load_examples(DataConfig())


def test_digits_are_1437_training_and_360_test_images_between_0_and_1(digits: Examples) -> None:
    assert digits.train_x.shape == (1437, 1, 8, 8)
    assert digits.test_x.shape == (360, 1, 8, 8)
    assert digits.train_x.dtype == np.float32
    assert digits.train_y.dtype == np.int64
    assert digits.train_x.min() == 0.0
    assert digits.train_x.max() == 1.0
    assert digits.class_names == tuple("0123456789")


def test_digits_are_the_same_examples_whatever_was_loaded_before(digits: Examples) -> None:
    for other in (DataConfig(binary=(7, 4)), DataConfig(train_limit=30, normalise="0.5/0.5")):
        loaded = load_examples(other)
        if loaded.train_x.flags.writeable:
            loaded.train_x[:] = -9.0
        again = load_examples(DataConfig())
        assert again.fingerprint == digits.fingerprint
        assert np.array_equal(again.train_x, digits.train_x)


def test_the_digits_split_holds_out_every_class_in_proportion(digits: Examples) -> None:
    whole = np.bincount(digits.train_y) + np.bincount(digits.test_y)
    assert np.abs(np.bincount(digits.test_y) - whole * 360 / 1797).max() < 1


def test_a_pair_of_classes_keeps_just_those_two_first_is_0(digits: Examples) -> None:
    pair = load_examples(DataConfig(binary=(7, 4)))
    assert pair.class_names == ("7", "4")
    assert set(pair.train_y.tolist()) == {0, 1}
    assert np.array_equal(pair.train_x[pair.train_y == 0], digits.train_x[digits.train_y == 7])
    assert np.array_equal(pair.test_x[pair.test_y == 1], digits.test_x[digits.test_y == 4])
    assert pair.fingerprint != digits.fingerprint


@pytest.mark.parametrize(("part", "other"), [("train", "test"), ("test", "train")])
def test_a_limit_is_balanced_and_leaves_the_other_part_whole(
    digits: Examples, part: str, other: str
) -> None:
    few, again = (load_examples(DataConfig(**{f"{part}_limit": 100})) for _ in range(2))
    assert np.bincount(getattr(few, f"{part}_y")).tolist() == [10] * 10
    assert np.array_equal(getattr(few, f"{other}_x"), getattr(digits, f"{other}_x"))
    assert again.fingerprint == few.fingerprint
    for limit in (len(getattr(digits, f"{part}_y")), 10**6):
        whole = load_examples(DataConfig(**{f"{part}_limit": limit}))
        assert whole.fingerprint == digits.fingerprint


@pytest.mark.parametrize("pair", [(0, 10), (-1, 3)])
def test_a_class_that_does_not_exist_is_refused(pair: tuple[int, int]) -> None:
    with refused("out-of-bounds", place="data.binary"):
        load_examples(DataConfig(binary=pair))


@pytest.mark.parametrize("name", ["minst", "digits:x", "_root"])
def test_an_unknown_data_set_is_refused_with_the_known_names(name: str) -> None:
    with refused("unknown-name") as refusal:
        load_examples(replace(DataConfig(), name=name))
    assert "digits" in str(refusal.error)


@pytest.mark.discovery
def test_digits_are_in_the_catalogue_and_always_available() -> None:
    (entry,) = [entry for entry in data_entries() if entry.id == "digits"]
    assert entry.available


def test_a_split_has_exactly_the_wanted_size_and_loses_nothing() -> None:
    labels = np.repeat(np.arange(3), [7, 11, 5])
    train, test = stratified_split(labels, 5)
    assert len(test) == 5
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(23))


def test_a_balanced_draw_takes_all_of_a_class_that_is_too_small() -> None:
    labels = np.array([0] * 2 + [1] * 50)
    assert np.bincount(labels[balanced_indices(labels, 12)]).tolist() == [2, 10]
