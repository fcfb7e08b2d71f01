"""The sizes of data sets: counted, or as published where a data set is not on this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dgn_engine.config import DataConfig
from dgn_engine.data import DataSizes, data_sets, load_examples


def sizes_of(data: DataConfig) -> DataSizes:
    """Load the data set and count; raises `UserError` where it is not there."""
    return _counted(_plain(data))


def expected_sizes(data: DataConfig) -> DataSizes:
    """Return the sizes as published, or count; raises `UserError` where neither is possible."""
    known = data_sets().get(data.name)
    whole = replace(_plain(data), root="", download=False, train_limit=0, test_limit=0)
    if known is None or known.published is None or whole != DataConfig(data.name):
        return sizes_of(data)
    sizes = known.published
    return replace(
        sizes,
        train=min(sizes.train, data.train_limit or sizes.train),
        test=min(sizes.test, data.test_limit or sizes.test),
    )


def _plain(data: DataConfig) -> DataConfig:
    """Return it without false labels and random pixels, which change no size."""
    plain = DataConfig()
    return replace(
        data,
        label_noise=plain.label_noise,
        pixels=plain.pixels,
        variant_seed=plain.variant_seed,
    )


@cache
def _counted(data: DataConfig) -> DataSizes:
    examples = load_examples(data)
    classes = 1 if examples.signed else len(examples.class_names)
    shape = tuple(examples.train_x.shape[1:])
    return DataSizes(len(examples.train_y), len(examples.test_y), shape, classes)
