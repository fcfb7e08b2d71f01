"""Which examples are held out is documented, and can be said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples, split_of
from dgn_engine.data._split import resplit_examples
from dgn_engine.errors import UserError
from tests.refusals import refused

read_here = pytest.mark.usefixtures("no_reader_child")


def rows(images: np.ndarray) -> set[bytes]:
    return {image.tobytes() for image in images}


def table() -> np.ndarray:
    """Levels and label of each digit, as scikit-learn has them."""
    bunch = load_digits()
    return np.column_stack((bunch.data / np.float32(16), bunch.target)).astype(np.float32)


def test_digits_holds_out_a_fifth_of_each_class_by_the_seed_zero() -> None:
    whole, found = table(), load_examples(DataConfig())
    held = []
    for digit in range(10):
        members = np.flatnonzero(whole[:, 64] == digit)
        held.append(np.random.RandomState(0).permutation(members))
    counts = np.bincount(found.test_y)
    test = np.sort(np.concatenate([h[:count] for h, count in zip(held, counts, strict=True)]))
    for x, y, places in (
        (found.test_x, found.test_y, test),
        (found.train_x, found.train_y, np.setdiff1d(np.arange(1797), test)),
    ):
        np.testing.assert_array_equal(x.reshape(-1, 64), whole[places, :64])
        np.testing.assert_array_equal(y, whole[places, 64])
    assert "360 of 1,797" in split_of(DataConfig(), found)


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
    np.testing.assert_array_equal(found.test_y, table()[np.sort(test), 64])
    assert len(found.train_y) == 1797 - 450
    assert "450" in split_of(config, found)
    assert path.name in split_of(config, found)


NO_SPLIT: list[tuple[object, str]] = [
    (np.array([0, 0]), "named-twice"),
    (np.array([1797]), "out-of-bounds"),
    (np.array([-1]), "out-of-bounds"),
    (np.array([], dtype=np.int64), "out-of-bounds"),
    (np.arange(1797), "empty"),
    (np.array([0.5]), "wrong-type"),
    (np.array([np.nan]), "wrong-type"),
    (np.zeros((2, 2), dtype=np.int64), "wrong-type"),
    ("one two", "wrong-type"),
    (None, "no-file"),
]


@read_here
def test_a_file_that_names_no_split_is_refused(tmp_path: Path) -> None:
    whole = load_examples(DataConfig())
    for place, (numbers, kind) in enumerate(NO_SPLIT):
        path = tmp_path / f"{place}{'.txt' if isinstance(numbers, str) else '.npy'}"
        if isinstance(numbers, str):
            path.write_text(numbers, encoding="utf-8")
        elif numbers is not None:
            np.save(path, numbers)  # type: ignore[arg-type]  # an array
        with pytest.raises(UserError) as refusal:
            resplit_examples(whole, DataConfig(test_indices=str(path)))
        assert refusal.value.kind == kind


def test_a_seed_beside_a_file_or_beyond_a_generator_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "test.npy", np.arange(10))
    with refused("contradiction"):
        load_examples(DataConfig(test_indices=str(tmp_path / "test.npy"), split_seed=1))
    with refused("out-of-bounds", place="data.split_seed", value=10**22):
        DataConfig(split_seed=10**22)


@read_here
def test_the_split_of_one_configuration_is_not_that_of_the_next(tmp_path: Path) -> None:
    np.save(tmp_path / "test.npy", np.arange(10))
    configs = [
        DataConfig(),
        DataConfig(split_seed=1),
        DataConfig(test_indices=str(tmp_path / "test.npy")),
    ]
    first = [load_examples(config) for config in configs]
    assert len({each.fingerprint for each in first}) == 3
    np.save(tmp_path / "test.npy", np.arange(20))  # the file at its place is another one
    again = [load_examples(config) for config in configs]
    assert [a.fingerprint == b.fingerprint for a, b in zip(first, again, strict=True)] == [
        True,
        True,
        False,
    ]
    assert len(again[2].test_y) == 20


@read_here
def test_a_set_with_its_own_test_part_has_no_seed_but_can_be_split_anew(tmp_path: Path) -> None:
    options = (("dim", 3), ("n", 6))
    with refused("contradiction"):
        load_examples(DataConfig("correlated", options=options, split_seed=1))
    np.save(tmp_path / "test.npy", np.array([1, 4]))
    whole = load_examples(DataConfig("correlated", options=options))
    config = DataConfig("correlated", options=options, test_indices=str(tmp_path / "test.npy"))
    found = load_examples(config)
    np.testing.assert_array_equal(found.test_x, whole.train_x[[1, 4]])
    assert len(found.train_y) == 2 * 6 - 2
