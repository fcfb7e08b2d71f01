"""Examples on their way to the network: shapes, the probe set, its digest."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from dgn_engine.data import Examples
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.training.device_data import choose_probe_set, to_device
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
