"""The examples of a run, found again: where its data lie now, which of them, or why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.importing.saved_network import NetworkState
from dgn_engine.training import own_examples as module
from dgn_engine.training.device_data import choose_probe_set
from dgn_engine.training.own_examples import UNKNOWN_DATA, own_examples
from tests.refusals import refused

CONFIG = RunConfig(
    data=DataConfig("identical", options=(("n", 12), ("dim", 3)), root="there"),
    probe_examples=5,
    seed=4,
)


def state(data: str = "", config: RunConfig = CONFIG) -> NetworkState:
    made: Any = NetworkState.__new__(NetworkState)
    for name, value in (("config", config), ("data", data)):
        object.__setattr__(made, name, value)
    return made  # type: ignore[no-any-return]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[DataConfig]:
    """The configurations of data that were loaded."""
    found: list[DataConfig] = []

    def load(config: DataConfig) -> Examples:
        found.append(config)
        return load_examples(config)

    monkeypatch.setattr(module, "load_examples", load)
    return found


def test_data_are_looked_for_where_the_caller_says_else_as_the_run_did(
    asked: list[DataConfig],
) -> None:
    own_examples(state(), 3, root="here")
    own_examples(state(), 3)
    assert asked == [replace(CONFIG.data, root="here"), CONFIG.data]


def test_the_first_training_examples_of_a_run_are_its_own() -> None:
    whole = load_examples(CONFIG.data)
    found = own_examples(state(whole.fingerprint), 4)
    assert found.rows == (0, 1, 2, 3)
    assert found.of == 12
    assert found.remark == ""
    assert np.array_equal(found.images, whole.train_x[:4])
    assert np.array_equal(found.labels, whole.train_y[:4])
    assert found.labels.dtype == np.int64
    assert own_examples(state(whole.fingerprint), 12).rows == tuple(range(12))


def test_none_wanted_means_the_probe_set_of_the_run() -> None:
    whole = load_examples(CONFIG.data)
    found = own_examples(state(whole.fingerprint), 0)
    assert found.rows == choose_probe_set(whole, 5, 4).indices
    assert np.array_equal(found.images, whole.train_x[list(found.rows)])
    assert np.array_equal(found.labels, whole.train_y[list(found.rows)])


def test_a_file_that_does_not_say_its_data_has_a_remark() -> None:
    assert own_examples(state(""), 2).remark == UNKNOWN_DATA


def test_other_data_and_more_than_there_are_are_refused() -> None:
    with refused("other-data", value="identical"):
        own_examples(state("another"), 2)
    with refused("out-of-bounds", value=13):
        own_examples(state(), 13)
