"""`benchmarks/gpu_session.sh`: with data and without, stopped in the middle, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks import gpu, gpu_davidnet
from benchmarks.gpu_davidnet import ImageData, find_data

ROOT = Path(__file__).parents[2]
FILES = ["davidnet.json", "davidnet.md", "gpu.json", "gpu.md", "session.log"]
IMAGE_RUNS = ["ReLU-s0", "FL-image-s0", "DL-image-s0", "FR-II-image-s0", "FR-DI-image-s0"]


def start(out: Path, *words: str) -> subprocess.Popen[str]:
    command = ["bash", str(ROOT / "benchmarks" / "gpu_session.sh"), "--python", sys.executable]
    return subprocess.Popen(
        [*command, "--out", str(out), *words],
        cwd=out.parent, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images of each of two classes to train on, twenty to test."""
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for part, count in (("train", 40), ("test", 20)):
        for label in ("cat", "dog"):
            (folder / part / label).mkdir(parents=True)
            for number in range(count):
                levels = generator.integers(0, 256, (32, 32, 3), np.uint8)
                Image.fromarray(levels).save(folder / part / label / f"{number}.png")
    return folder


def test_data_are_recognised_in_every_form(images: Path, tmp_path: Path) -> None:
    assert find_data(tmp_path) is None
    assert find_data(tmp_path / "missing") is None
    assert find_data(images) == ImageData(f"folder:{images}", "CIFAR-10 (images)")
    archive = tmp_path / "cifar10-images.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(images / "train" / "cat" / "0.png", "train/cat/0000.jpg")
    assert find_data(tmp_path) == ImageData(f"folder:{archive}", "CIFAR-10 (JPEG)")
    (tmp_path / "cifar-10-batches-py").mkdir()
    assert find_data(tmp_path) == ImageData("cifar10", "CIFAR-10", str(tmp_path))


def test_runs_are_those_of_the_experiment_at_its_scale_the_image_first() -> None:
    runs = gpu_davidnet.planned_runs(ImageData("cifar10", "CIFAR-10"), "tf32", dry=False)
    assert [run.id for run in runs[:5]] == IMAGE_RUNS
    assert len(runs) == 9
    for run in runs:
        training = run.config.training
        assert (training.epochs, training.batch, training.learning_rate) == (24, 256, 0.5)
        assert training.precision == "tf32"
        assert run.config.device == "cuda"
        assert dict(run.config.net.options) == {"width": 64}


@pytest.mark.parametrize(
    "words",
    [["--foo"], ["--seconds"], ["--seconds", "soon"], ["--only", "tests"], ["--python", "/none"]],
)
def test_wrong_arguments_are_refused_with_code_2(words: list[str], tmp_path: Path) -> None:
    process = start(tmp_path / "out", *words)
    output, _ = process.communicate()
    assert process.returncode == 2
    assert output.startswith("gpu_session.sh: ")
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_it_ends_with_code_3(tmp_path: Path) -> None:
    process = start(tmp_path / "out")
    output, _ = process.communicate()
    assert process.returncode == 3
    assert output == gpu.NO_CARD_WORDS + "\n"


@pytest.mark.slow
def test_a_dry_session_does_all_of_it(images: Path, tmp_path: Path) -> None:
    """As it is typed; the time that it has is its own default."""
    out = tmp_path / "out"
    process = start(out, "--dry", "--data", str(images))
    output, _ = process.communicate()
    assert process.returncode == 0, output[-4000:]
    assert sorted(path.name for path in out.iterdir()) == FILES
    table = json.loads((out / "gpu.json").read_text("utf-8"))
    assert table["dry"] is True
    assert all("methods" in row for row in table["cases"])
    trained = json.loads((out / "davidnet.json").read_text("utf-8"))
    page = (out / "davidnet.md").read_text("utf-8")
    assert trained["dry"] is True
    assert trained["rates"] == table["rates"]
    assert [row["name"] for row in trained["runs"]] == IMAGE_RUNS
    for row in trained["runs"]:
        assert row["state"] == "done", row
        assert row["epochs"] == gpu_davidnet.DRY_EPOCHS
        assert 0.0 <= row["test_accuracy"] <= row["best_test_accuracy"] <= 1.0
        assert row["ratio_to_floor"] > 0.0
        assert f"| dry: {row['regime']} |" in page


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_without_data_it_says_so_and_leaves_the_training_out(named: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out, "--dry", "--only", "davidnet", *(["--data", "."] if named else []))
    output, _ = process.communicate()
    assert process.returncode == 0
    why = json.loads((out / "davidnet.json").read_text("utf-8"))["skipped"]
    assert why == (f"{tmp_path} {gpu_davidnet.NO_DATA}" if named else "no data were given")
    assert output == f"DavidNet is not trained: {why}.\n"
    assert f"DavidNet was not trained: {why}." in (out / "davidnet.md").read_text("utf-8")


@pytest.mark.slow
def test_a_session_that_is_stopped_leaves_what_it_has(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(out, "--dry", "--only", "davidnet", "--data", str(images))
    rows = out / "davidnet.json"
    try:
        while not (rows.exists() and _states(rows)[:1] == ["done"]):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, output
    assert _states(rows)[0] == "done"
    assert _states(rows)[-1] == "not begun"
    assert "failed" not in _states(rows)
    assert "| dry: ReLU |" in (out / "davidnet.md").read_text("utf-8")


def _states(rows: Path) -> list[str]:
    return [row["state"] for row in json.loads(rows.read_text("utf-8"))["runs"]]
