"""Experiments on CIFAR-10 run on CIFAR-100 with `--data cifar100`."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine import cli
from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import Training, Unit

ROWS = [
    ("npf-table2", "VCONV/SGD"),
    ("npf-table2", "VCONV/Adam"),
    ("npf-table2", "GCONV/SGD"),
    ("npf-table2", "GCONV/Adam"),
    ("workshop-table4", "Arch-5"),
]


@pytest.fixture
def tiny_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two training images and one test image of each class, in the original layout."""
    table = import_torchvision().CIFAR100
    folder = tmp_path / table.base_folder
    folder.mkdir()
    random = np.random.default_rng(0)
    sums = {}
    for name, each in (("train", 2), ("test", 1)):
        pixels = random.integers(0, 256, (100 * each, 3072)).astype(np.uint8)
        labels = [i % 100 for i in range(100 * each)]
        content = pickle.dumps(
            {"data": pixels, "fine_labels": labels, "coarse_labels": labels, "batch_label": ""},
            protocol=4,
        )
        sums[name] = hashlib.md5(content).hexdigest()
        (folder / name).write_bytes(content)
    meta = pickle.dumps({"fine_label_names": [f"class {i}" for i in range(100)]})
    (folder / "meta").write_bytes(meta)
    monkeypatch.setattr(table, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(table, "test_list", [["test", sums["test"]]])
    found = {
        "filename": "meta",
        "key": "fine_label_names",
        "md5": hashlib.md5(meta).hexdigest(),
    }
    monkeypatch.setattr(table, "meta", found)
    return tmp_path


def trainings(name: str, request: Request) -> list[Training]:
    units: tuple[Unit, ...] = find(name).plan(request).units
    return [unit for unit in units if isinstance(unit, Training)]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_nothing_but_the_data_set_differs_from_the_plan_on_cifar_10(name: str, row: str) -> None:
    request = Request(scale="full", only=row)
    before, after = trainings(name, request), trainings(name, replace(request, data="cifar100"))
    assert [unit.id for unit in before] == [unit.id for unit in after]
    for one, other in zip(before, after, strict=True):
        data = replace(one.config.data, name="cifar100")
        assert one.config.data.name == "cifar10"
        assert other.config == replace(one.config, data=data)


@pytest.mark.nightly
def test_a_row_trains_on_a_hundred_classes(tiny_set: Path, tmp_path: Path) -> None:
    request = Request(
        scale="full", only="Arch-5", data="cifar100", data_root=str(tiny_set), steps=(0.01,),
        epochs=1, seeds=1, device="cpu",
    )  # fmt: skip
    (unit,) = (one for one in trainings("workshop-table4", request) if "ReLU" in one.id)
    config, out = tmp_path / "run.toml", tmp_path / "run"
    config.write_text(unit.config.to_toml(), encoding="utf-8")
    assert cli.main(["train", str(config), "--quiet", "--out", str(out)]) == 0
    started = RunReader(out).start_event
    assert started is not None
    assert (started.classes, started.train_examples, started.test_examples) == (100, 200, 100)
