"""Examples on their way to the network: shapes, the probe set, its digest; those of a run found
again."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.importing.saved_network import NetworkState
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.training import own_examples as module
from dgn_engine.training.device_data import choose_probe_set, to_device
from dgn_engine.training.own_examples import UNKNOWN_DATA, own_examples
from tests.refusals import refused


def examples(labels: list[int], classes: int = 3) -> Examples:
    y = np.array(labels, dtype=np.int64)
    x = np.arange(len(y) * 4, dtype=np.float32).reshape(len(y), 1, 2, 2)
    names = tuple("abc"[:classes])
    return Examples(x, y, x[:1], y[:1], names, "drawn", "print")


def test_examples_take_the_shape_of_the_network_and_keep_their_fingerprint() -> None:
    drawn = examples([0, 1, 2, 0])
    flat = to_device(drawn, Architecture((4,), (Dense(4, 3, gated=False),)), torch.device("cpu"))
    assert flat.train_x.tolist() == drawn.train_x.reshape(4, 4).tolist()
    assert flat.test_x.shape == (1, 4)
    assert flat.train_y.tolist() == [0, 1, 2, 0]
    assert flat.test_y.tolist() == [0]
    assert flat.fingerprint == "print"


@pytest.mark.parametrize(
    ("wanted", "counts"), [(3, [1, 1, 1]), (7, [3, 2, 2]), (8, [3, 3, 2]), (99, [4, 4, 4])]
)
def test_a_probe_set_is_balanced_and_sorted_by_class(wanted: int, counts: list[int]) -> None:
    drawn = examples([0, 1, 2] * 4)
    found = choose_probe_set(drawn, wanted, seed=1)
    assert list(found.labels) == sorted(found.labels)
    assert [found.labels.count(c) for c in range(3)] == counts
    assert len(set(found.indices)) == len(found.indices)
    assert list(found.labels) == drawn.train_y[list(found.indices)].tolist()
    assert found.class_names == ("a", "b", "c")
    rows = list(found.indices)
    whole = drawn.train_x[rows].tobytes() + drawn.train_y[rows].tobytes()
    assert found.digest == hashlib.sha256(whole).hexdigest()


def test_another_seed_draws_other_examples() -> None:
    drawn = examples([0, 1, 2] * 40)
    ones = [choose_probe_set(drawn, 12, seed).indices for seed in (1, 1, 2)]
    assert ones[0] == ones[1] != ones[2]


def test_two_examples_are_needed_and_enough() -> None:
    assert len(choose_probe_set(examples([0, 1], 2), 2, 0).indices) == 2
    with refused("too-few-examples"):
        choose_probe_set(examples([0], 2), 2, 0)
    with refused("too-few-examples"):
        choose_probe_set(examples([2, 2, 2]), 2, 0)  # nothing of the first two classes


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
