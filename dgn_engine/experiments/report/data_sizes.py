"""The sizes of data sets, known in advance or counted after loading."""

from __future__ import annotations

from functools import cache

from dgn_engine.config import DataConfig
from dgn_engine.data import DataSizes, known_sizes, load_examples


def sizes_of(data: DataConfig) -> DataSizes:
    """Load a data set and return its sizes; raises `UserError` if it is missing."""
    return _count_examples(data.without_variant())


def expected_sizes(data: DataConfig) -> DataSizes:
    """Return the known sizes of a data set, else load it; raises `UserError` if it is missing.

    All classes are assumed to have the same number of examples.
    """
    return known_sizes(data, balanced=True) or sizes_of(data)


@cache
def _count_examples(data: DataConfig) -> DataSizes:
    examples = load_examples(data)
    classes = 1 if examples.signed else len(examples.class_names)
    shape = tuple(examples.train_x.shape[1:])
    return DataSizes(len(examples.train_y), len(examples.test_y), shape, classes)
