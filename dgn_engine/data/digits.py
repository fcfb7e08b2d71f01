"""1,797 handwritten digits of 8×8 pixels that come with scikit-learn: no download."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report, examples_from_levels
from dgn_engine.data._split import split_test_part

EXAMPLES = 1797
TESTS = 360  # of them; held out by `data.split_seed`, or by a file
LEVELS = 16  # the pixels are counts 0…16


def _load_digits(config: DataConfig, report: Report) -> Examples:
    report("reading digits", None)
    table = _read_table()
    levels = table[:, :64].astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = table[:, 64].astype(np.int64)
    train, test = split_test_part(labels, TESTS, config)
    return examples_from_levels(
        "digits",
        (levels[train], labels[train]),
        (levels[test], labels[test]),
        tuple(str(digit) for digit in range(10)),
        top=LEVELS,
    )


def _read_table() -> npt.NDArray[np.int64]:
    """Return (1797, 65): 64 pixels and the digit, from the file inside scikit-learn.

    Importing scikit-learn would delay the first picture by a second.
    """
    spec = importlib.util.find_spec("sklearn")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        path = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            with gzip.open(path, "rt", encoding="ascii") as file:
                return np.loadtxt(file, delimiter=",", dtype=np.int64)
    from sklearn.datasets import load_digits  # for releases that keep it elsewhere

    bunch = load_digits()
    return np.column_stack((bunch.data, bunch.target)).astype(np.int64)


def _digits_sizes(_config: DataConfig) -> DataSizes:
    return DataSizes(EXAMPLES - TESTS, TESTS, (1, 8, 8), 10)


DATA = DataSet(
    "Digits, 8×8", _load_digits, "It comes with the program.", sizes=_digits_sizes, splits=True
)
