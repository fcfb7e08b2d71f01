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

from benchmarks import gpu, gpu_case, gpu_davidnet, gpu_page
from benchmarks.gpu_davidnet import ImageData, find_data
from dgn_engine import cli
from dgn_engine.errors import UserError

ROOT = Path(__file__).parents[2]
FILES = ["davidnet.json", "davidnet.md", "gpu.json", "gpu.md", "session.log"]
IMAGE_RUNS = ["ReLU-s0", "FL-image-s0", "DL-image-s0", "FR-II-image-s0", "FR-DI-image-s0"]


def start(out: Path, *words: str) -> subprocess.Popen[str]:
    command = ["bash", str(ROOT / "benchmarks" / "gpu_session.sh"), "--python", sys.executable]
    return subprocess.Popen(
        [*command, "--out", str(out), *words],
        cwd=out.parent,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )


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


def pack_images(archive: Path, image: Path, classes: int) -> Path:
    with tarfile.open(archive, "w:gz") as file:
        for part in ("train", "test"):
            for label in range(classes):
                file.add(image, f"images/{part}/{label}/0000.jpg")
    return archive


def test_data_are_recognised_in_every_form(images: Path, tmp_path: Path) -> None:
    assert find_data(images) == ImageData(f"folder:{images}", "2 classes, not CIFAR-10")
    image = images / "train" / "cat" / "0.png"
    archive = pack_images(tmp_path / "images.tar.gz", image, 10)
    pack_images(tmp_path / "cifar-100-images.tar.gz", image, 100)
    expected = ImageData(f"folder:{archive}", "CIFAR-10 (JPEG)")
    assert find_data(tmp_path) == find_data(archive) == expected
    batches = tmp_path / "cifar-10-batches-py"
    batches.mkdir()
    assert (
        find_data(tmp_path) == find_data(batches) == ImageData("cifar10", "CIFAR-10", str(tmp_path))
    )


def test_what_is_not_cifar_10_is_refused_in_a_sentence(images: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no CIFAR-10"):
        find_data(tmp_path / "missing")
    pack_images(tmp_path / "cifar-100-images.tar.gz", images / "train" / "cat" / "0.png", 100)
    (tmp_path / "empty.tar.gz").touch()
    (tmp_path / "short.zip").write_bytes(b"PK")
    with tarfile.open(tmp_path / "python.tar.gz", "w:gz") as file:
        file.add(images / "train" / "cat" / "0.png", "cifar-10-batches-py/data_batch_1")
    with pytest.raises(UserError) as refused:
        find_data(tmp_path)
    assert [reason.split(maxsplit=1)[0] for reason in str(refused.value).split("; ")] == [
        str(tmp_path),
        "cifar-100-images.tar.gz",
        "empty.tar.gz",
        "python.tar.gz",
        "short.zip",
    ]


@pytest.mark.parametrize(
    ("table", "taken"),
    [
        ({"dry": False, "machine": {"device": "a card"}, "rates": {"copy": 1.0}}, True),
        ({"dry": True, "machine": {"device": "a card"}, "rates": {"copy": 1.0}}, False),
        ({"dry": False, "machine": {"device": "cpu"}, "rates": {"copy": 1.0}}, False),
        ({"dry": False, "machine": {"device": "a card"}, "rates": None}, False),
        ({}, False),
    ],
)
def test_rates_are_taken_of_the_same_device_only(
    table: gpu.Tree, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_davidnet, "measure_rates", lambda *_: {"copy": 2.0})
    path = tmp_path / "gpu.json"
    content: gpu.Tree = {"dry": False, "machine": {"device": "a card"}}
    until = time.monotonic() + 1000.0
    path.write_text(json.dumps(table))
    assert gpu_davidnet._find_rates(path, until, content) == {"copy": 1.0 if taken else 2.0}
    path.write_text('{"dry": fal')
    assert gpu_davidnet._find_rates(path, until, content) == {"copy": 2.0}


def test_runs_are_those_of_the_experiment_at_its_scale_the_image_first() -> None:
    runs = gpu_davidnet.plan_runs(ImageData("cifar10", "CIFAR-10"), "tf32", dry=False)
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


def stub_interpreter(folder: Path, body: str) -> Path:
    """A Python that says what it is asked and does nothing but this."""
    made = folder / "python"
    made.write_text(f'#!/bin/bash\nshift; echo "$*"\n{body}\n', encoding="utf-8")
    made.chmod(0o755)
    return made


def old_files(folder: Path) -> Path:
    out = folder / "out"
    out.mkdir()
    for name in FILES:
        (out / name).write_text("old\n", encoding="utf-8")
    return out


@pytest.mark.parametrize(
    ("codes", "code", "begun"),
    [
        ((0, 0), 0, 2),
        ((1, 0), 1, 2),
        ((0, 1), 1, 2),
        ((2, 0), 2, 1),
        ((gpu.NO_CARD, 0), gpu.NO_CARD, 1),
        ((137, 0), 137, 1),
    ],
)
def test_a_session_ends_as_its_commands_do_and_nothing_old_stands_beside_them(
    codes: tuple[int, int], code: int, begun: int, tmp_path: Path
) -> None:
    out = old_files(tmp_path)
    body = f"[ $1 = benchmarks.gpu ] && exit {codes[0]}; exit {codes[1]}"
    python = stub_interpreter(tmp_path, body)
    process = start(out, "--python", str(python), "--seconds", "100", "--data", "here")
    output, _ = process.communicate()
    assert process.returncode == code
    table, *trained = (line.split() for line in output.splitlines())
    until = int(table.pop(6))
    assert table == [
        "benchmarks.gpu", "--out", f"{out}/gpu.json", "--page", f"{out}/gpu.md", "--until",
    ]  # fmt: skip
    assert trained == [[
        "benchmarks.gpu_davidnet", "--out", f"{out}/davidnet.json", "--rates", f"{out}/gpu.json",
        "--until", f"{until + 55}", "--data", f"{tmp_path}/here",
    ]][: begun - 1]  # fmt: skip
    assert [path.name for path in out.iterdir()] == ["session.log"]
    assert (out / "session.log").read_text("utf-8") == output


def test_the_table_alone_has_all_but_twenty_seconds(tmp_path: Path) -> None:
    python = stub_interpreter(tmp_path, "exit 0")
    before = int(time.time())
    words = ("--python", str(python), "--seconds", "100", "--only", "gpu")
    output, _ = start(tmp_path / "out", *words).communicate()
    assert before + 80 <= int(output.split()[-1]) <= time.time() + 80
    assert output.count("\n") == 1


def test_the_cntk_alone_leaves_the_files_of_an_earlier_session(tmp_path: Path) -> None:
    out = old_files(tmp_path)
    (out / "cntk.json").touch()
    python = stub_interpreter(tmp_path, "exit 0")
    words = ("--python", str(python), "--seconds", "180", "--only", "cntk", "--data", "here")
    before = int(time.time())
    output, _ = start(out, *words).communicate()
    module, *given = output.split()
    until = int(given.pop(3))
    assert [module, *given] == [
        "benchmarks.gpu_cntk", "--out", f"{out}/cntk.json", "--until", "--data", f"{tmp_path}/here",
    ]  # fmt: skip
    assert before + 175 <= until <= time.time() + 175
    assert sorted(path.name for path in out.iterdir()) == FILES


def test_a_signal_is_passed_on_and_its_end_awaited(tmp_path: Path) -> None:
    trap = "trap 'sleep 0.1; echo saved; exit 143' TERM"
    body = f"{trap}; echo begun; for i in {{1..3000}}; do sleep 0.02; done"
    out = tmp_path / "out"
    process = start(out, "--python", str(stub_interpreter(tmp_path, body)), "--dry")
    log = out / "session.log"
    try:
        while not (log.exists() and "begun\n" in log.read_text("utf-8")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert output.splitlines()[1:] == ["begun", "saved"]


def test_without_a_card_nothing_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_davidnet.main(["--out", str(tmp_path / "davidnet.json")]) == gpu.NO_CARD
    assert capsys.readouterr().err == gpu.NO_CARD_WORDS + "\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_a_dry_session_does_all_of_it(images: Path, tmp_path: Path) -> None:
    """As it is typed; the time that it has is its own default. `make gpu-dry` is its first half."""
    before = (ROOT / "docs" / "measurements" / "gpu.json").read_bytes()
    out = tmp_path / "out"
    process = start(out, "--dry", "--data", str(images))
    output, _ = process.communicate()
    assert process.returncode == 0, output[-4000:]
    assert sorted(path.name for path in out.iterdir()) == FILES
    table = json.loads((out / "gpu.json").read_text("utf-8"))
    page = (out / "gpu.md").read_text("utf-8")
    assert table["dry"] is True
    assert table["tests"]["code"] == 0
    assert [row["name"] for row in table["cases"]] == list(gpu_case.find_cases())
    assert page.startswith(gpu_page.DRY_HEAD)
    for row in table["cases"]:
        assert row["dry"] is True
        for method in row["methods"]:
            assert method["median_seconds"] > 0.0
            assert method["reached"] > 0.0
            assert f"| dry: {method['name']} |" in page
    assert (ROOT / "docs" / "measurements" / "gpu.json").read_bytes() == before
    trained = json.loads((out / "davidnet.json").read_text("utf-8"))
    page = (out / "davidnet.md").read_text("utf-8")
    assert trained["dry"] is True
    assert trained["rates"] == table["rates"]
    assert [row["name"] for row in trained["runs"]] == IMAGE_RUNS
    for row in trained["runs"]:
        assert row["state"] == "done", row
        assert row["epochs"] == gpu_davidnet.DRY_EPOCHS
        assert 0.0 <= row["test_accuracy"] <= row["best_test_accuracy"] <= 1.0
        assert row["reached"] > 0.0
        assert f"| dry: {row['regime']} |" in page


@pytest.mark.slow
def test_without_data_it_says_so_and_leaves_the_training_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = old_files(tmp_path)
    process = start(out, "--dry", "--only", "davidnet", "--data", ".")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert_left_out(out, f"{tmp_path} {gpu_davidnet.NO_DATA}", output)
    assert (out / "gpu.json").read_text("utf-8") == "old\n"
    assert gpu_davidnet.main(["--dry", "--out", str(out / "davidnet.json")]) == 0
    assert_left_out(out, "no data were given", capsys.readouterr().err)


def assert_left_out(out: Path, why: str, said: str) -> None:
    assert json.loads((out / "davidnet.json").read_text("utf-8"))["skipped"] == why
    assert said == f"DavidNet is not trained: {why}.\n"
    assert f"DavidNet was not trained: {why}." in (out / "davidnet.md").read_text("utf-8")


def test_a_training_that_has_no_time_is_not_begun(images: Path, tmp_path: Path) -> None:
    rows = tmp_path / "davidnet.json"
    given = ["--dry", "--data", str(images), "--out", str(rows)]
    assert gpu_davidnet.main([*given, "--seconds", "10"]) == 0
    assert _states(rows) == ["not begun"] * len(IMAGE_RUNS)
    assert gpu.NO_TIME in (tmp_path / "davidnet.md").read_text("utf-8")


def test_a_training_that_is_stopped_leaves_what_it_has(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run is trained in this process; the second is stopped."""
    begun: list[str] = []

    def run(command: list[str], *_: object) -> tuple[int, str]:
        begun.append(command[-1])
        if len(begun) > 1:
            raise SystemExit(128 + signal.SIGTERM)
        return cli.main(command[command.index("train") :]), ""

    monkeypatch.setattr(gpu_davidnet, "run_with_limit", run)
    monkeypatch.setattr(gpu_davidnet, "measure_rates", lambda *_: None)
    rows = tmp_path / "davidnet.json"
    with pytest.raises(SystemExit):
        gpu_davidnet.main(["--dry", "--data", str(images), "--out", str(rows)])
    assert _states(rows) == ["done", "stopped", *["not begun"] * (len(IMAGE_RUNS) - 2)]
    first, second, *_ = json.loads(rows.read_text("utf-8"))["runs"]
    assert first["epochs"] == gpu_davidnet.DRY_EPOCHS
    assert 0.0 <= first["test_accuracy"] <= first["best_test_accuracy"] <= 1.0
    assert "epochs" not in second
    assert "| dry: ReLU |" in (tmp_path / "davidnet.md").read_text("utf-8")


@pytest.mark.nightly
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
