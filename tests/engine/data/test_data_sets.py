"""Every data set is loaded as its form stands, or says in one sentence how to get it; its sizes are
known before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import DataSet, DataSizes, data_sets, known_sizes, load_examples
from dgn_engine.errors import UserError
from dgn_engine.session.known_plug_ins import data_entries
from tests.plugins import each


@pytest.mark.discovery
def test_the_form_offers_every_data_set(tmp_path: Path) -> None:
    assert [entry.id for entry in data_entries(tmp_path)] == list(data_sets())


@pytest.mark.check
@pytest.mark.parametrize("name", each(data_sets()))
def test_a_data_set_is_loaded_as_its_form_stands_or_refused(name: str, tmp_path: Path) -> None:
    config = DataConfig(name, root=str(tmp_path), train_limit=50, test_limit=20)
    assert data_sets()[name].hint.endswith(".")
    refusal = ""
    try:
        examples = load_examples(config)
    except UserError as error:
        refusal = str(error)
    if refusal:
        assert refusal.endswith(".")
        return
    assert data_sets()[name].available(tmp_path)
    assert examples.fingerprint == load_examples(config).fingerprint
    for x, y in ((examples.train_x, examples.train_y), (examples.test_x, examples.test_y)):
        assert x.dtype == np.float32
        assert y.dtype == np.int64
        assert len(x) == len(y) > 0
        assert np.isfinite(x).all()
    assert set(examples.train_y.tolist()) <= set(range(-1, len(examples.class_names)))


KNOWN = [name for name, entry in data_sets().items() if entry.sizes is not None]


def loaded_sizes(config: DataConfig) -> DataSizes:
    found = load_examples(config)
    classes = 1 if found.signed else len(found.class_names)
    return DataSizes(len(found.train_y), len(found.test_y), found.train_x.shape[1:], classes)


def smaller(entry: DataSet) -> dict[str, int]:
    whole = [one for one in entry.options if type(one.default) is int]
    return {one.name: min(7, int(one.most or 7)) for one in whole}


@pytest.mark.parametrize("name", each(KNOWN))
def test_they_are_those_of_what_is_loaded(name: str) -> None:
    entry = data_sets()[name]
    if not entry.available(None):
        pytest.skip(name)
    whole = DataConfig(name, options=tuple(smaller(entry).items()))
    for config in (
        DataConfig(name),
        whole,
        replace(whole, train_limit=5, test_limit=3),
        replace(whole, train_limit=10**6, label_noise=0.5, variant_seed=2),
    ):
        assert known_sizes(config) == loaded_sizes(config), config


@pytest.mark.parametrize("name", ["xor", "identical"])
def test_a_pair_of_two_classes_is_all_of_them(name: str) -> None:
    for pair in ((0, 1), (1, 0)):
        config = DataConfig(name, binary=pair)
        assert known_sizes(config) == loaded_sizes(config)
    assert known_sizes(DataConfig(name, binary=(4, 7))) is None  # which loading refuses


def test_a_pair_of_several_classes_is_counted_or_taken_as_its_share() -> None:
    pair = DataConfig(binary=(4, 7))
    assert known_sizes(pair) is None
    about, counted = known_sizes(pair, balanced=True), loaded_sizes(pair)
    assert about is not None
    assert (about.shape, about.classes) == (counted.shape, counted.classes)
    assert about.train == pytest.approx(counted.train, rel=0.03)
    assert about.test == pytest.approx(counted.test, rel=0.03)


def test_images_are_of_the_size_and_in_the_channels_that_are_asked_for() -> None:
    config = DataConfig(image_size=6, image_channels=3, train_limit=10)
    assert known_sizes(config) == loaded_sizes(config)


def test_what_stands_in_files_is_not_known() -> None:
    for config in (DataConfig("folder:/nowhere"), DataConfig(test_indices="/nowhere.npy")):
        assert known_sizes(config) is None


@pytest.mark.parametrize("size", [known_sizes, load_examples])
def test_what_cannot_be_drawn_is_refused_alike(size: Callable[[DataConfig], object]) -> None:
    large = DataConfig("correlated", options=(("n", 100_000), ("dim", 100_000)))
    for config in (large, DataConfig("no-such"), DataConfig("xor", image_size=8)):
        with pytest.raises(UserError):
            size(config)
