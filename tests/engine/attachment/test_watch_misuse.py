"""What is given wrongly is refused before there is a folder; a forgotten beginning is said."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import dgn_engine as dgn
from dgn_engine.attachment.given_scores import GivenScores
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import examples, mlp


def test_a_watcher_that_was_not_started_says_so_once(tmp_path: Path) -> None:
    watcher = dgn.watch(mlp(), examples(), tmp_path / "run")
    with pytest.warns(RuntimeWarning):
        watcher.step(loss=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watcher.step(loss=1.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accuracy": 95}, r"accuracy is 95; .*: write 0.95 for 95 %"),
        ({"accuracy": -0.5}, r"accuracy is -0.5; .*0 to 1\."),
        ({"accuracy": 1e6}, r"accuracy is 1e\+06; .*0 to 1\."),
        ({"accuracy": "0.5"}, "accuracy is of type str"),
        ({"accuracy": torch.zeros(2)}, r"accuracy is a Tensor of shape \(2,\)"),
        ({"loss": torch.zeros(3, requires_grad=True)}, r"loss is a Tensor of shape \(3,\)"),
        ({"loss": [1.0]}, "loss is of type list"),
        ({"f1": 0.5}, "f1 is no score"),
    ],
)
def test_scores_that_cannot_be_used_are_left_out_and_said_once(
    given: dict[str, object], said: str
) -> None:
    told: list[str] = []
    scores = GivenScores(told.append)
    for _ in range(2):
        others = {name: one for name, one in given.items() if name not in ("loss", "accuracy")}
        scores.add(given.get("loss"), given.get("accuracy"), others)
    assert scores.take() is None
    assert len(told) == 1
    assert re.search(said, told[0])


def test_scores_that_can_be_used_become_their_means() -> None:
    scores = GivenScores(pytest.fail)
    scores.add(torch.tensor(1.0, requires_grad=True) * 2, np.float32(1.0), {})
    scores.add(1, torch.tensor([0.5]), {})
    scores.add(float("inf"), 1.0 + 1e-8, {})
    scores.add(None, float("nan"), {})
    loss, share = scores.take() or (0.0, 0.0)
    assert loss == math.inf  # a loss that diverges is one
    assert share == pytest.approx(2.5 / 3)
    assert scores.take() is None
    for _ in range(50):
        scores.add(1e308, None, {})
    assert (scores.take() or (0.0,))[0] == pytest.approx(1e308)


def test_a_loss_that_is_not_finite_is_said_once_with_its_step(tmp_path: Path) -> None:
    net, losses = mlp(), [1.0, 0.5, 0.25, math.nan, math.inf, 0.5]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, given in (("diverges", losses), ("does not", losses[:3])):
            with dgn.watch(net, examples(), tmp_path / name, probes=("gates",)) as w:
                for loss in given:
                    w.step(loss=loss)
            assert w.trouble == ""
    found = [str(one.message) for one in said if "finite" in str(one.message)]
    assert len(found) == 1
    assert "step 4 " in found[0]


def test_a_percentage_ends_neither_the_loop_nor_the_watching(tmp_path: Path) -> None:
    with dgn.watch(mlp(), examples(), tmp_path / "run", probes=("gates",)) as w:
        with pytest.warns(RuntimeWarning, match="write 0.95 for 95 %"):
            w.step(loss=1.0, accuracy=95)
        with pytest.warns(RuntimeWarning, match="f1 is no score"):
            w.test(loss=2.0, f1=0.5)
        assert w.active
    scores = [one for one in RunReader(tmp_path / "run").events if isinstance(one, Measured)]
    assert [one.train_loss for one in scores if not math.isnan(one.train_loss)] == [1.0]
    assert [one.test_loss for one in scores if one.test_loss is not None] == [2.0]
    assert all(math.isnan(one.train_accuracy) and one.test_accuracy is None for one in scores)
