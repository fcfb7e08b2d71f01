"""`dgn reproduce` and `dgn gate-information`: from the command to the report, on after a stop."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments.report import document, formatting, reproduction_progress
from dgn_engine.experiments.report import reproduce as reproducing
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.reproduce import report_again, reproduce
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest
from dgn_engine.experiments.report.result_layout import default_folder
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.protocol.experiments import Figure, PlottedLine, Printed
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.refusals import refused, refused_command

NET = NetConfig(options=(("width", 16), ("depth", 3)))
CONFIG = RunConfig(
    data=DataConfig(train_limit=96, test_limit=50),
    net=NET,
    training=TrainingConfig(epochs=2),
    probe_examples=20,
    device="cpu",
)
WIDE = ["--width", "16", "--depth", "3", "--train-limit", "96", "--device", "cpu"]


def _plan(request: Request) -> Plan:
    training = replace(CONFIG.training, epochs=request.epochs_or(2, 2))
    units = [
        Training(f"run-s{seed}", replace(CONFIG, seed=seed, training=training))
        for seed in request.seed_range(3, 3)
    ]
    return Plan(tuple(units), scaled_down=("96 digits",), choices=("a <b> & |c|",))


def _findings(request: Request, results: UnitResults) -> Findings:
    best = tuple(100 * results.trained_run(f"run-s{seed}").best for seed in range(3))
    figure = Figure(
        "curve",
        "A curve",
        "epoch",
        "accuracy (%)",
        (
            PlottedLine("<ours>", (1.0, 2.0), best[:2], (1.0, 1.0)),
            PlottedLine("printed", (), (50.0,)),
        ),
    )
    claim = judge(("npf-1", "FR below DL and ReLU"), "best", above(best))
    return Findings((Row("ReLU", best, Printed(98.14, 0.07), epochs=2),), (claim,), (figure,))


TINY = Experiment("A tiny table", "[NPF] Table 0", "For the tests.", _plan, _findings, 0.0, 0.0)


def _task(folder: Path, **request: int) -> ReproductionTask:
    return ReproductionTask("tiny", TINY, Request(**request), folder, ("reproduce", "tiny"))  # type: ignore[arg-type]


def _never(*_: object) -> None:
    """Nobody looks."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Document]:
    """The folder of a reproduction that is done, to read, and what it came to."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, reproduce(_task(folder), SerialExecutor(), _never)


@pytest.fixture
def done(whole: tuple[Path, Document], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole[0], tmp_path / "npf-nu-quick"))


def test_a_report_holds_every_number_and_needs_no_network(whole: tuple[Path, Document]) -> None:
    folder, made = whole
    (row,) = made.rows
    assert row.mean == pytest.approx(float(np.mean(row.values)))
    assert row.difference == pytest.approx(row.mean - 98.14)
    page = (folder / "report.html").read_text(encoding="utf-8")
    text = (folder / "report.md").read_text(encoding="utf-8")
    for wanted in (
        formatting.format_measured(row),
        "98.14 ± 0.07",
        formatting.format_number(row.difference, "%", True),
    ):
        assert wanted in page
        assert wanted in text
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page
    assert "a &lt;b&gt; &amp; |c|" in page
    assert "prefers-color-scheme:dark" in page
    assert "&lt;ours&gt;" in page
    for kind in ("pdf", "svg"):
        assert (folder / "figures" / f"curve.{kind}").stat().st_size > 1000
    assert all(unit.seconds >= 0 for unit in made.units)
    assert reproduction_progress.read_progress(folder).state == "done"


def test_a_result_is_read_again_as_it_was_written(
    whole: tuple[Path, Document], tmp_path: Path
) -> None:
    folder, made = whole
    assert document.to_bytes(document.read_document(folder)) == document.to_bytes(made)
    assert document.read_document(folder).figures == made.figures
    tree = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert set(tree) == {item.name for item in dataclasses.fields(made)}
    tree["rows"][0]["values"] = ["no number"]
    (tmp_path / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    with refused("damaged"):
        document.read_document(tmp_path)


@pytest.mark.usefixtures("figures_drawn_once")
def test_a_stopped_experiment_goes_on_and_reports_as_one_that_was_not(
    whole: tuple[Path, Document], tmp_path: Path
) -> None:
    asked = 0

    def soon() -> bool:
        nonlocal asked
        asked += 1
        return asked > 6

    half = reproduce(_task(tmp_path), SerialExecutor(), _never, soon)
    assert half.state == "interrupted"
    assert half.rows == ()
    assert {unit.state for unit in half.units} <= {"done", "interrupted", "queued"}
    assert "queued" in {unit.state for unit in half.units}
    assert reproduction_progress.read_progress(tmp_path).state == "interrupted"
    with refused("not-done", value=3):
        report_again(_task(tmp_path))
    again = reproduce(_task(tmp_path), SerialExecutor(), _never)
    assert again.state == "done"
    assert again.rows[0].values == whole[1].rows[0].values


@pytest.mark.usefixtures("figures_drawn_once")
def test_a_folder_begun_before_a_setting_existed_can_be_gone_on_with(done: Path) -> None:
    plan = done / "plan.json"
    tree = json.loads(plan.read_text(encoding="utf-8"))
    for unit in tree.values():
        assert unit["config"]["training"].pop("augmentation") == "none"
    plan.write_text(json.dumps(tree), encoding="utf-8")
    assert reproduce(_task(done), SerialExecutor(), _never).state == "done"
    tree["run-s0"]["config"]["training"]["augmentation"] = "davidnet"
    plan.write_text(json.dumps(tree), encoding="utf-8")
    with refused("other-run", value="run-s0"):
        reproduce(_task(done), SerialExecutor(), _never)


@pytest.mark.usefixtures("figures_drawn_once")
def test_the_device_does_not_make_another_run_of_it(
    whole: tuple[Path, Document], done: Path
) -> None:
    """Those that are done were on 'cpu', as their folders say."""
    units = [replace(u, config=replace(u.config, device="auto")) for u in _plan(Request()).units]  # type: ignore[attr-defined,type-var]
    task = replace(_task(done), experiment=replace(TINY, plan=lambda _: Plan(tuple(units))))
    again = reproduce(task, SerialExecutor(), _never)
    assert again.rows[0].values == whole[1].rows[0].values
    assert report_again(task).state == "done"
    assert RunReader(done / "units" / "run-s0").config.device == "cpu", "nothing was retrained"


def test_a_default_folder_is_that_of_all_that_decides_its_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path))
    asked: dict[str, Any] = {
        "scale": "full",
        "protocol": "as-in-code",
        "seeds": 2,
        "epochs": 3,
        "only": "FC/Adam",
        "data": "mnist",
        "steps": (0.1, 0.01),
        "augmentation": "davidnet",
        "train_limit": 9,
        "test_limit": 8,
        "seed_start": 7,
    }
    known = {default_folder("npf-nu", Request())}
    for name, value in asked.items():
        folder = default_folder("npf-nu", Request(**{name: value}))
        assert folder not in known, name
        assert folder == ReproduceRequest("npf-nu", **{name: value}).folder, "the window finds it"
        known.add(folder)
    assert default_folder("npf-nu", Request(only="FC/Adam")).name == "npf-nu-quick-only_FC_Adam"
    long = [default_folder("npf-nu", Request(data=f"{'x' * 300}{end}")).name for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) < 100


@pytest.mark.usefixtures("figures_drawn_once")
def test_a_unit_that_fails_is_reported_with_its_trouble(done: Path) -> None:
    bad = replace(CONFIG, gating=replace(CONFIG.gating, regime="FL", gates_from="/nowhere.pt"))
    plan = Plan((*_plan(Request()).units, Training("bad", bad)))
    task = ReproductionTask("tiny", replace(TINY, plan=lambda _: plan), Request(), done)
    made = reproduce(task, SerialExecutor(), _never)
    assert made.state == "failed"
    (failed,) = [unit for unit in made.units if unit.trouble]
    assert failed.id == "bad"
    assert "nowhere.pt" in (done / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("trouble", [ValueError("a fault of ours"), KeyboardInterrupt()])
def test_what_breaks_an_experiment_off_is_seen_in_its_progress(
    trouble: BaseException, tmp_path: Path
) -> None:
    told: list[tuple[str, float]] = []

    class Breaks(SerialExecutor):
        def run(self, units: Any, root: Path, on_update: Any, stopped: Any) -> None:
            told.append((reproduction_progress.read_progress(root).state, 0.0))
            on_update(UnitProgress("run-s0", "running", 0.5))
            now = reproduction_progress.read_progress(root)
            told.append((now.state, now.fraction))
            raise trouble

    with pytest.raises(type(trouble)):
        reproduce(_task(tmp_path), Breaks(), _never)
    assert told == [("running", 0.0), ("running", pytest.approx(0.5 / 3))]
    assert reproduction_progress.read_progress(tmp_path).state == "failed"
    assert document.read_document(tmp_path).state == "running"  # nothing of it is judged


def test_progress_is_written_twice_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(reproducing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    written: list[float] = []

    class Steady(SerialExecutor):
        def run(self, units: Any, root: Path, on_update: Any, stopped: Any) -> None:
            for tenth in range(12):
                now[0] = 100.0 + tenth / 8
                on_update(UnitProgress("run-s0", "running", tenth / 16))
                written.append(3 * reproduction_progress.read_progress(root).fraction)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(_task(tmp_path), Steady(), _never)
    eighths = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]
    assert written == pytest.approx([each / 16 for each in eighths])


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        ("reproduce npf-table3", "unknown-name", "npf-table3"),
        ("reproduce npf-table2 --only nothing", "no-rows", "nothing"),
        ("reproduce npf-table2 --only GCONV", "no-rows", "GCONV"),
        ("reproduce npf-table2 --rows --only nix", "no-rows", "nix"),
        ("reproduce npf-table2 --executor magic", "unknown-name", "magic"),
        ("reproduce npf-nu --only x", "no-effect", "only"),
        ("reproduce npf-nu --rows --only x", "no-effect", "only"),
        ("reproduce npf-nu --steps 0.1", "no-effect", "steps"),
        ("reproduce npf-nu --augmentation davidnet", "no-effect", "augmentation"),
        ("reproduce theory-depth --download", "no-effect", "download"),
        ("reproduce theory-depth --train-limit 9", "no-effect", "train_limit"),
        ("reproduce theory-depth --device cpu", "no-effect", "device"),
        ("reproduce theory-depth --epochs 7", "no-effect", "epochs"),
        ("reproduce theory-depth --data nonsense", "no-effect", "data"),
        ("reproduce dgn-hard-data --data mnist", "no-effect", "data"),
        ("reproduce npf-table2 --protocol as-in-code --steps 0.5", "no-effect", "steps"),
        ("reproduce npf-table2 --only Adam --steps 0.5", "no-effect", "steps"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    words: str, kind: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path))
    refusal = refused_command(*words.split())
    assert (refusal.kind, refusal.value) == (kind, value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("reproduce", "experiment"),
        ("reproduce npf-table2 --seeds 0", "--seeds is 0"),
        ("reproduce npf-table2 --data nothing", "'nothing'"),
        ("reproduce dgn-gates-only --protocol as-in-code", "as-in-code"),
        ("reproduce npf-table2 --steps 0.1,0.10", "--steps lists 0.1"),
        ("reproduce npf-table2 --json", "--rows"),
        ("reproduce all --rows", "--rows"),
        ("reproduce npf-nu --test-limit 0", "--test-limit is 0"),
        ("gate-information nowhere.pt", "nowhere.pt"),
        ("gate-information x.pt --regime FL", "--regime"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(words: str, part: str) -> None:
    assert part in str(refused_command(*words.split()))


def test_the_list_tells_what_lies_among_the_results(
    done: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(done.parent))
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (mine,) = [line for line in lines if line.startswith("npf-nu ")]
    assert "done" in mine
    assert "[NPF] Figure 2" in mine
    (other,) = [line for line in lines if line.startswith("npf-stages ")]
    assert other.count("none") == 2


@pytest.mark.usefixtures("figures_drawn_once")
def test_gate_information_is_beside_the_files_own_accuracy_and_random_gates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *WIDE, "--regime", "ReLU", "--epochs", "1", "--quiet", "--out",
                 str(tmp_path / "run")]) == 0  # fmt: skip
    file, out = tmp_path / "run" / "weights.safetensors", tmp_path / "result"
    measure = f"gate-information {file} --train-limit 96 --seeds 1 --device cpu --executor serial"
    words = [*measure.split(), "--quiet", "--out", str(out)]
    refused_command(*words, "--epochs", "0")
    assert "256" in str(refused_command(*words, "--epochs", "1", "--data", "correlated"))
    assert not out.exists(), "what is refused leaves no folder"
    assert main([*words, "--epochs", "1"]) == 0
    made = document.read_document(out)
    itself, copied, random = made.rows
    assert itself.values[0] == pytest.approx(100 * _own(file), abs=1e-6)
    assert len(copied.values) == len(random.values) == 1
    config = read_config(out / "config.toml")
    assert dict(config.net.options) == {"width": 16, "depth": 3}, "as the file says"
    assert "gate-information" in made.command
    kept = (out / "config.toml").read_bytes()
    assert refused_command(*words, "--epochs", "2").kind == "other-run"
    assert (out / "config.toml").read_bytes() == kept, "nor does it change one"
    capsys.readouterr()


def _own(file: Path) -> float:
    """The accuracy once more, by hand: dense layers with ReLU between them."""
    from safetensors.numpy import load_file

    arrays = load_file(file)
    z = load_examples(DataConfig()).test_x.reshape(-1, 64).astype(np.float64)
    for layer in range(3):
        z = z @ arrays[f"value.weights.{layer}"].astype(np.float64).T
        z = np.maximum(z, 0.0) if layer < 2 else z
    return float((z.argmax(1) == load_examples(DataConfig()).test_y).mean())
