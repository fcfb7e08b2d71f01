"""Which examples are held out is documented, and can be said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import digits as digits_set
from dgn_engine.data import load_examples, split_of
from dgn_engine.errors import UserError


def rows(images: np.ndarray) -> set[bytes]:
    return {image.tobytes() for image in images}


def test_digits_holds_out_a_fifth_of_each_class_by_the_seed_zero() -> None:
    table = digits_set._table()
    levels = (table[:, :64] / np.float32(16)).astype(np.float32)
    held = []
    for digit in range(10):
        members = np.flatnonzero(table[:, 64] == digit)
        held.append(np.random.RandomState(0).permutation(members))
    found = load_examples(DataConfig())
    counts = np.bincount(found.test_y)
    test = np.sort(np.concatenate([h[:count] for h, count in zip(held, counts, strict=True)]))
    np.testing.assert_array_equal(found.test_x.reshape(-1, 64), levels[test])
    assert split_of(DataConfig(), found) == "360 of 1,797 held out for the test by seed 0"


def test_another_seed_holds_out_others() -> None:
    first, other = load_examples(DataConfig()), load_examples(DataConfig(split_seed=1))
    assert len(other.test_y) == len(first.test_y) == 360
    assert len(rows(first.test_x) & rows(other.test_x)) < 120
    assert first.fingerprint != other.fingerprint


@pytest.mark.parametrize("ending", [".npy", ".txt"])
def test_the_examples_that_a_file_names_are_held_out(tmp_path: Path, ending: str) -> None:
    """As `train_test_split(np.arange(1797), random_state=0)[1]` of scikit-learn would name them."""
    test = np.random.RandomState(0).permutation(1797)[:450]
    path = tmp_path / f"test{ending}"
    if ending == ".npy":
        np.save(path, test)
    else:
        path.write_text("\n".join(str(place) for place in test), encoding="utf-8")
    config = DataConfig(test_indices=str(path))
    found = load_examples(config)
    table = digits_set._table()
    np.testing.assert_array_equal(found.test_y, table[np.sort(test), 64])
    assert len(found.train_y) == 1797 - 450
    assert split_of(config, found) == f"the 450 test examples that {path.name} names"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (np.array([0, 0]), "names an example twice"),
        (np.array([1797]), "examples from 0 to 1,796"),
        (np.array([-1]), "examples from 0 to 1,796"),
        (np.array([], dtype=np.int64), "at least one"),
        (np.arange(1797), "leaves no training example"),
        (np.array([0.5]), "one list of whole numbers"),
        (np.zeros((2, 2), dtype=np.int64), "one list of whole numbers"),
    ],
)
def test_a_file_that_names_no_split_is_refused(
    tmp_path: Path, numbers: np.ndarray, words: str
) -> None:
    np.save(tmp_path / "test.npy", numbers)
    with pytest.raises(UserError, match=words):
        load_examples(DataConfig(test_indices=str(tmp_path / "test.npy")))


def test_a_seed_beside_a_file_of_test_examples_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "test.npy", np.arange(10))
    with pytest.raises(UserError, match="so a seed of the split means nothing; leave one"):
        load_examples(DataConfig(test_indices=str(tmp_path / "test.npy"), split_seed=1))


def test_a_seed_that_no_generator_takes_is_refused() -> None:
    with pytest.raises(UserError, match=r"split_seed is .*; it must be at most"):
        DataConfig(split_seed=10**22)


def test_a_text_that_holds_no_numbers_and_a_file_that_is_not_there_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "test.txt").write_text("one two", encoding="utf-8")
    for name, words in (("test.txt", "one list of whole numbers"), ("none.txt", "cannot be read")):
        with pytest.raises(UserError, match=words):
            load_examples(DataConfig(test_indices=str(tmp_path / name)))


def test_a_set_with_its_own_test_part_has_no_seed_but_can_be_split_anew(tmp_path: Path) -> None:
    options = (("dim", 3), ("n", 6))
    with pytest.raises(UserError, match="a seed of the split means nothing"):
        load_examples(DataConfig("correlated", options=options, split_seed=1))
    np.save(tmp_path / "test.npy", np.array([1, 4]))
    whole = load_examples(DataConfig("correlated", options=options))
    config = DataConfig("correlated", options=options, test_indices=str(tmp_path / "test.npy"))
    found = load_examples(config)
    np.testing.assert_array_equal(found.test_x, whole.train_x[[1, 4]])
    assert len(found.train_y) == 2 * 6 - 2
