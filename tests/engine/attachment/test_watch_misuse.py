"""What is given wrongly is refused before there is a folder; a forgotten beginning is said."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import dgn_engine as dgn
from dgn_engine.errors import UserError
from tests.engine.attachment.loops import examples, mlp


def test_a_refusal_leaves_no_folder(tmp_path: Path) -> None:
    x, labels = examples()
    missing = torch.full_like(x, float("nan"))
    with (
        pytest.raises(UserError, match="probe hold NaN"),
        dgn.watch(mlp(), (missing, labels), tmp_path / "run"),
    ):
        pass
    with (
        pytest.raises(UserError, match="class_names holds 1 name"),
        dgn.watch(mlp(), (x, labels), tmp_path / "run", class_names=("one",)),
    ):
        pass
    assert not (tmp_path / "run").exists()


def test_one_name_of_a_probe_is_no_list_of_letters(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="for example"):
        dgn.watch(mlp(), examples(), tmp_path / "run", probes="ntk")


def test_a_watcher_that_was_not_started_says_so_once(tmp_path: Path) -> None:
    watcher = dgn.watch(mlp(), examples(), tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="was not started"):
        watcher.step(loss=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watcher.step(loss=1.0)
