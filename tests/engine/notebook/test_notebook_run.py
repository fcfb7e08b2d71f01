"""The engine as a notebook uses it: train, look at frames and scores, draw a panel."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dgn_engine as dgn
from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.run_reader import RunReader
from tests.refusals import refused


def config(epochs: int = 1) -> RunConfig:
    return RunConfig(
        data=DataConfig(train_limit=40, test_limit=20),
        net=NetConfig(options=(("depth", 2), ("width", 6))),
        training=TrainingConfig(epochs=epochs, batch=20),
        probe_examples=6,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("notebook") / "run"
    return dgn.train(config(2), out, probes=("npk", "gates"), every=2, quiet=True)


def test_a_run_is_trained_and_its_frames_are_those_of_the_folder(run: Any) -> None:
    assert run.status == "finished"
    assert run.steps == (0, 2, 4)
    assert run.frame().step == 4
    again = dgn.open_run(str(run.path))
    npk = RunReader(run.path).frame_of_step(2).readings["npk"].arrays
    assert all((again.frame(2).readings["npk"].arrays[name] == npk[name]).all() for name in npk)
    with pytest.raises(UserError, match="step 3"):
        run.frame(3)
    assert run.frame(2).step == 2


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("regime", ["DL", "FRG"])
def test_a_notebook_that_computes_in_float64_trains_the_same_run(
    regime: str, tmp_path: Path, double: None
) -> None:
    made = replace(config(), gating=GatingConfig(regime, value_input="random"))
    made = replace(made, data=replace(made.data, test_limit=0)) if regime == "FRG" else made
    kernels = []
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        run = dgn.train(made, tmp_path / str(dtype)[6:], probes=("npk",), every=2, quiet=True)
        kernels.append(run.frame(2).readings["npk"].arrays)
    assert kernels[0].keys() == kernels[1].keys()
    assert all(
        np.array_equal(kernels[0][name], kernels[1][name], equal_nan=True) for name in kernels[0]
    )


def test_scores_are_columns(run: Any) -> None:
    scores = run.scores()
    assert scores["step"][-1] == 4
    assert scores["test_accuracy"][-1] == RunReader(run.path).measured_events[-1].test_accuracy


def test_a_data_frame_has_a_row_for_each_step(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of pandas keeps the rows that it is given."""

    class Table:
        def __init__(self, rows: dict[int, dict[str, float]]) -> None:
            self.rows, self.index = rows, types.SimpleNamespace(name="")

        def astype(self, kind: type) -> Table:
            return self

        def sort_index(self) -> Table:
            return self

    given = types.SimpleNamespace(from_dict=lambda rows, orient: Table(rows))
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=given))
    table = run.to_pandas()
    assert table.index.name == "step"
    nu = run.frame(4).readings["npk"].scalars["nu"]
    assert table.rows[4]["npk.nu"] == pytest.approx(nu)
    assert table.rows[4]["train_loss"] == run.scores()["train_loss"][-1]


def test_without_pandas_one_sentence_says_what_to_install(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("not-installed"):
        run.to_pandas()


def test_a_run_is_a_table_in_a_notebook(run: Any) -> None:
    text = run._repr_html_()
    assert "finished, step 4" in text
    assert "3 steps, 0 to 4" in text
    assert repr(run) == "<run run: DL, finished, step 4>"


def test_names_of_others_are_no_markup(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "path", run.path.rename(run.path.with_name("<b>x")))
    assert "&lt;b&gt;x" in run._repr_html_()
    run.path.rename(run.path.with_name("run"))


def test_a_panel_is_a_figure(run: Any) -> None:
    figure = dgn.figure(run, "spectrum", step=2, width=3.25, caption=False)
    assert figure.get_size_inches()[0] == pytest.approx(3.25)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert run.figure("spectrum", step=np.int64(2)).get_size_inches()[0] == pytest.approx(6.75)
    with pytest.raises(UserError, match="spectre"):
        run.figure("spectre")
    with refused("unknown-name"):
        run.figure("spectrum", wide=3)
    for step in ("2", 2.0, ("0", "2")):
        with refused("wrong-type"):
            run.figure("spectrum", step=step)
    with pytest.raises(UserError, match="xxx"):
        dgn.figure("x" * 300, "spectrum")


def test_what_cannot_be_trained_is_refused_and_the_folder_is_free_for_what_can(
    tmp_path: Path,
) -> None:
    with refused("unknown-name") as refusal:
        dgn.train(config(), tmp_path / "a", probes=("npkk",))
    assert "'npk'" in str(refusal.error)
    with refused("out-of-bounds"):
        dgn.train(config(), tmp_path / "a", every=-1)
    for wrong in ({"training": {"epochs": 0}}, {"nett": {}}):
        with pytest.raises(UserError):
            dgn.train(wrong, tmp_path / "a", quiet=True)
    assert not (tmp_path / "a").exists()
    first = dgn.train(config(), tmp_path / "a", probes=("npk",), every=2, quiet=True)
    second = dgn.train(replace(config(), seed=1), tmp_path / "b", probes=("npk",), quiet=True)
    one, two = (each.frame().readings["npk"].arrays["npk"] for each in (first, second))
    assert not np.array_equal(one, two)
    again = dgn.open_run(str(tmp_path / "a")).frame().readings["npk"].arrays["npk"]
    assert np.array_equal(again, one), "the second run is in its own folder"
