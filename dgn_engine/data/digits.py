"""1,797 handwritten digits of 8×8 pixels that come with scikit-learn: nothing to download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, Examples, Report, examples_from_levels
from dgn_engine.data._selection import stratified_split

TESTS = 360  # of 1,797; the split never changes
LEVELS = 16  # the pixels are counts 0…16


def _load(_config: DataConfig, report: Report) -> Examples:
    report("reading digits", None)
    from sklearn.datasets import load_digits  # takes a second: only when it is wanted

    bunch = load_digits()
    levels = bunch.images.astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    train, test = stratified_split(labels, TESTS)
    return examples_from_levels(
        "digits",
        (levels[train], labels[train]),
        (levels[test], labels[test]),
        tuple(str(digit) for digit in range(10)),
        top=LEVELS,
    )


def _available(_root: Path | None) -> bool:
    return True


DATA = DataSet("Digits, 8×8", _load, _available, "It comes with the program.")
