"""Select the test examples: the data set's test part, a random part by seed, or a file's list."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import Examples, Labels
from dgn_engine.data._variants import Places, stratified_split
from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

_LONGEST = 1 << 26  # bytes of a file that lists examples


def split_test_part(labels: Labels, tests: int, config: DataConfig) -> tuple[Places, Places]:
    """Return the indices of the training and test examples of a set without a test part.

    The test examples are those that `test_indices` lists, or else `tests` of them, every class in
    proportion, drawn by `split_seed`.
    """
    if config.test_indices:
        if config.split_seed:
            raise UserError(
                f"{Path(config.test_indices).name} lists the test examples, so a split seed has no "
                "effect; drop one of the two.",
                kind="contradiction",
            )
        return _split_by_file(config, len(labels))
    return stratified_split(labels, tests, config.split_seed)


def resplit_examples(examples: Examples, config: DataConfig) -> Examples:
    """Split a set with a test part anew, by the list in `test_indices`; raises `UserError`.

    Indices count the training examples first, then the test examples.
    """
    if config.split_seed:
        raise UserError(
            f"{examples.name} already has a test part, so a split seed has no effect; list the "
            "test examples in a file instead.",
            kind="contradiction",
        )
    if not config.test_indices:
        return examples
    x = np.concatenate([examples.train_x, examples.test_x])
    y = np.concatenate([examples.train_y, examples.test_y])
    train, test = _split_by_file(config, len(y))
    return replace(
        examples.with_variant(f"test {hashlib.sha256(test.tobytes()).hexdigest()}"),
        train_x=x[train],
        train_y=y[train],
        test_x=x[test],
        test_y=y[test],
    )


def split_in_words(config: DataConfig, examples: Examples, splits: bool) -> str:
    """For example '360 of 1,797 held out for testing by seed 0'."""
    tests, total = len(examples.test_y), len(examples.train_y) + len(examples.test_y)
    if config.test_indices:
        return f"the {tests:,} test examples that {Path(config.test_indices).name} lists"
    if splits:
        return f"{tests:,} of {total:,} held out for testing by seed {config.split_seed}"
    return f"{tests:,} test examples of its own"


def _split_by_file(config: DataConfig, count: int) -> tuple[Places, Places]:
    path = Path(config.test_indices).expanduser()
    test = _read_indices(path)
    if len(test) == 0 or test.min() < 0 or test.max() >= count:
        raise UserError(
            f"{path.name} must list at least one example, all from 0 to {count - 1:,}.",
            kind="out-of-bounds",
        )
    if len(np.unique(test)) != len(test):
        raise UserError(f"{path.name} lists an example twice.", kind="named-twice")
    train = np.setdiff1d(np.arange(count), test)
    if not len(train):
        raise UserError(f"{path.name} leaves no training examples.", kind="empty")
    return train, np.sort(test)


def _read_indices(path: Path) -> Places:
    """Read a .npy or .npz with one list, or a text of integers."""
    if path.suffix in (".npy", ".npz"):
        arrays = list(read_tensors(path).arrays.values())
        numbers = arrays[0] if len(arrays) == 1 else np.zeros((0, 0))
    else:
        try:
            if path.stat().st_size > _LONGEST:
                raise UserError(
                    f"{path.name} is too long for a list of examples.", kind="too-large"
                )
            words = path.read_text(encoding="utf-8").replace(",", " ").split()
            numbers = np.array([int(word) for word in words], dtype=np.int64)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.", kind="no-file") from None
        except (UnicodeDecodeError, ValueError, OverflowError):
            numbers = np.zeros((0, 0))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise UserError(
            f"{path.name} must contain one list of integers: the test examples.",
            kind="wrong-type",
        )
    return numbers.astype(np.int64)
