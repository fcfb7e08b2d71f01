"""Every data set is loaded as its form stands, or says in one sentence how to get it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import data_sets, load_examples
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
