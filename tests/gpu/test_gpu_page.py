"""`make gpu`: what it says without a card, and the page that it writes; `test_gpu_session` has a
whole session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from benchmarks import gpu, gpu_case, gpu_page, machine, training_epochs
from benchmarks.case import Amounts, Case, Faster, Measured, Method
from benchmarks.children import run_with_limit
from benchmarks.floors import add_floors, count_training_work
from benchmarks.gpu_cases import watching
from benchmarks.report import Row, encode_row
from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.plugins import discover_plugins
from dgn_engine.training.run import Run
from dgn_engine.training.trainer import Trainer

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "measurements"
RATES = {"float32": 1e12, "tf32": 2e12, "bf16": 4e12, "float64": 5e11, "copy": 1e12}


def made_up() -> dict[str, Any]:
    """In the shape that is recorded, and marked as not measured."""
    one = Method("ours", lambda *_: lambda: torch.zeros(1), arithmetic="tf32")
    two = Method("theirs", lambda *_: lambda: torch.zeros(1))
    case = Case(
        "A case", 8, 2, (one, two), (Faster("theirs", 5.0),), floor=lambda _: Amounts(1e9, 8e8)
    )
    wall = (1.0, 1.0, 1.0)
    seconds = [Measured(one, (0.001, 0.002, 0.003), wall), Measured(two, (0.02, 0.02, 0.03), wall)]
    about = {
        "device": "a card",
        "torch": "2.13.0",
        "cuda": "13.0",
        "processor": "a processor",
        "cores": 4,
        "load": None,
        "date": "2000-01-01",
    }
    row = encode_row(Row("a", case, 8, seconds, 1e-7, 0.5))
    add_floors(row, RATES)
    return {
        "measured": False,
        "machine": about,
        "quick": False,
        "seconds": 61.2,
        "rates": RATES,
        "tests": {"word": "passed", "code": 0, "summary": "80 passed in 60 s", "seconds": 60.0},
        "cases": [
            row,
            {"name": "b", "title": "Another", "failed": "RuntimeError: no room"},
            {"name": "c", "title": "A third", "skipped": "no time was left"},
        ],
    }


def test_without_a_card_it_says_so_in_one_sentence_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out, page = tmp_path / "gpu.json", tmp_path / "gpu.md"
    assert gpu.main(["--out", str(out), "--page", str(page)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == gpu.NO_CARD_WORDS + "\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_without_the_packages_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "NEEDED", gpu.NEEDED | {"no_such_package": "no-such-package"})
    assert gpu.main(["--out", str(tmp_path / "gpu.json")]) == 3
    said = capsys.readouterr().err
    assert said.startswith("make gpu needs no-such-package, which ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_stopped_when_its_time_is_over_and_its_output_kept() -> None:
    words = "print('begun', flush=True); import time; time.sleep(600)"
    code, said = run_with_limit([sys.executable, "-c", words], 0.3, {})
    assert code is None
    assert said in ("begun\n", "")  # a crowded machine may not have come so far
    assert run_with_limit([sys.executable, "-c", "raise SystemExit(5)"], 60.0, {}) == (5, "")


def test_cases_are_measured_by_rank_and_one_without_time_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(gpu_case.find_cases()) == [
        "fc_graphs",
        "cnn",
        "fc_full",
        "cnn_small",
        "fc_mean",
        "watching",
        "packed",
        "davidnet",
        "cnn_kernels",
    ]
    given: list[tuple[str, float]] = []
    out = tmp_path / "gpu.json"
    made = made_up() | {
        "cases": [{"name": n, "title": n.upper(), "skipped": gpu.NO_TIME} for n in "abc"]
    }
    report = gpu.GpuReport(out, tmp_path / "gpu.md", made)
    times = iter([400.0, 405.0, 410.0, 415.0, 441.0])
    monkeypatch.setattr(gpu, "now", lambda: next(times))

    def run_case(name: str, title: str, quick: bool, seconds: float, dry: bool) -> gpu.Tree:
        if given:  # what was measured before is on disk while the next is measured
            kept = json.loads(out.read_text("utf-8"))["cases"]
            assert kept[0] == {"name": "a", "title": "A", "failed": "no luck"}
        given.append((name, seconds))
        return {"name": name, "title": title, "failed": "no luck"}

    monkeypatch.setattr(gpu, "run_case", run_case)
    gpu.measure_cases(report, quick=False, until=460.0)
    assert given == [("a", 60.0), ("b", 50.0)]
    assert made["cases"][2] == {"name": "c", "title": "C", "skipped": gpu.NO_TIME}
    assert gpu.TEST_SECONDS + gpu.CASE_SECONDS < gpu.LIMIT < 480


@pytest.mark.parametrize(
    ("code", "said", "word", "summary"),
    [
        (0, "t.py::a PASSED [9%]\n=== 1 passed in 0.10s ===", "passed", "1 passed in 0.10s"),
        (1, "t.py::a FAILED [9%]\n=== 1 failed in 0.10s ===", "failed", "1 failed in 0.10s"),
        (None, "", "stopped", "stopped after 25 s: 0 had passed, 0 failed; last: none"),
        (
            None,
            "t.py::a PASSED [9%]\nt.py::b[x 1] ",
            "stopped",
            "stopped after 25 s: 1 had passed, 0 failed; last: t.py::b[x 1]",
        ),
        (
            None,
            "t.py::a FAILED [9%]\nt.py::b ",
            "failed",
            "stopped after 25 s: 0 had passed, 1 failed; last: t.py::b",
        ),
        (
            -11,
            "t.py::a PASSED [9%]\nt.py::b \nSegmentation fault",
            "failed",
            "ended with code -11 after 25 s: 1 had passed, 0 failed; last: t.py::b",
        ),
    ],
)
def test_tests_that_time_ends_are_stopped_and_not_failed(
    code: int | None, said: str, word: str, summary: str
) -> None:
    judged = gpu.judge_tests(code, said, 25.0)
    assert (judged["word"], judged["summary"]) == (word, summary)
    assert gpu.has_faults({"tests": judged, "cases": []}) is (word == "failed")


def test_a_session_that_has_no_time_ends_without_a_fault(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    assert gpu.main(["--dry", "--seconds", "5", "--out", str(out)]) == 0
    written = json.loads(out.read_text("utf-8"))
    assert written["tests"]["word"] == "stopped"
    assert {row["skipped"] for row in written["cases"]} == {gpu.NO_TIME}
    assert written["rates"] is None


def test_a_case_that_fails_in_its_process_is_a_row_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for code, said, why in (
        (1, "RuntimeError: CUDA error: no luck.\n", "RuntimeError: CUDA error: no luck"),
        (None, "", f"it was stopped after {gpu.CASE_SECONDS:.0f} s"),
        (-9, "", "exit code -9"),
    ):
        monkeypatch.setattr(gpu, "run_with_limit", lambda *_, c=code, s=said: (c, s))
        row = gpu.run_case("a", "A", False, gpu.CASE_SECONDS)
        assert row == {"name": "a", "title": "A", "failed": why}
    monkeypatch.setattr(gpu, "run_with_limit", lambda *_: (None, ""))
    late = gpu.run_case("a", "A", False, gpu.CASE_SECONDS / 2)
    assert late == {"name": "a", "title": "A", "skipped": gpu.NO_TIME}


def test_the_process_of_a_case_writes_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Method("ours", lambda *_: lambda: torch.ones(1))
    case = Case("A case", 8, 2, (work,), ())

    def broken(*_: object) -> Any:
        raise RuntimeError("CUDA error: no luck\nmore")

    bad = Case("Another", 8, 2, (Method("ours", broken),), ())
    monkeypatch.setattr(gpu_case, "find_cases", lambda: {"a": case, "b": bad})
    out = tmp_path / "row.json"
    common = ["--out", str(out), "--dry", "--rounds-for", "0"]
    assert gpu_case.main(["b", *common]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("\nRuntimeError: CUDA error: no luck\n")
    assert gpu_case.main(["a", *common]) == 0
    row = json.loads(out.read_text("utf-8"))
    assert row["title"] == "A case"
    assert "eager" not in row
    monkeypatch.setattr(gpu_case, "EAGER", ["ours: no luck"])
    assert gpu_case.main(["a", *common]) == 0
    assert json.loads(out.read_text("utf-8"))["eager"] == ["ours: no luck"]


def test_eager_steps_and_methods_that_disagree_are_on_the_page_and_are_faults() -> None:
    content = made_up()
    row = content["cases"][0]
    assert ", **DISAGREE**\n" not in gpu_page.format_page(content)
    assert not gpu.has_faults(content | {"cases": [row]})
    assert gpu.has_faults(content)  # the second failed
    row["eager"] = ["ours: no luck"]
    assert "- **steps were eager**: ours: no luck" in gpu_page.format_page(content)
    assert gpu.has_faults(content | {"cases": [row]})
    far = row | {"eager": [], "agrees": False}
    assert ", **DISAGREE**\n" in gpu_page.format_page(content | {"cases": [far]})
    assert gpu.has_faults(content | {"cases": [far]})
    measured = Measured(Method("ours", lambda *_: lambda: torch.zeros(1)), (1.0,), (1.0,))
    for difference, limit, agrees in (
        (1e-3, 1e-4, False),
        (float("nan"), 1e-4, False),
        (1e-5, 1e-4, True),
        (float("nan"), float("inf"), True),
    ):
        case = Case("A case", 8, 2, (measured.method,), (), agreement=limit)
        assert encode_row(Row("a", case, 8, [measured], difference, 0.5))["agrees"] is agrees


class _Refusing:
    """A trainer whose steps cannot be captured."""

    steps_per_epoch = 1

    def __init__(self) -> None:
        self.network_step = SimpleNamespace()

    def step(self) -> None:
        self.network_step.on_eager("no luck")

    def train_score(self) -> Any:
        return SimpleNamespace(loss=0.0)


def test_why_a_trainer_steps_eagerly_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[str] = []
    monkeypatch.setattr(training_epochs, "EAGER", recorded)
    training_epochs.make_epochs(cast(Trainer, _Refusing()), "bf16")()
    assert recorded == ["bf16: no luck"]


def test_a_watched_run_that_stops_ends_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = watching.CASE.methods[1].prepare(torch.device("cpu"), 3)

    def fail(_: Run) -> bool:
        raise ValueError("no luck")

    monkeypatch.setattr(Run, "advance", fail)
    with pytest.raises(RuntimeError, match=": ValueError: no luck\nTraceback"):
        steps()


def test_the_page_has_every_case_with_its_bar_and_marks_made_up_figures() -> None:
    lines = gpu_page.format_page(made_up()).splitlines()
    assert "**Not measured: these figures are made up, to try the page.**" in lines
    assert "Tests: passed: 80 passed in 60 s." in lines
    assert "| ours | 2 ms | 1.5 ms – 2.5 ms | 800 µs (memory) | 0.4 |" in lines
    assert "| theirs | 20 ms | 20 ms – 25 ms | 1 ms (arithmetic) | 0.05 |" in lines
    assert "Rates: float32 1 TFLOP/s; TF32 2 TFLOP/s" in gpu_page.format_page(made_up())
    assert "- met: 10× faster than theirs (target ≥ 5×)" in lines
    assert "Not measured: RuntimeError: no room." in lines
    assert "Not measured: no time was left." in lines
    assert "made up" not in gpu_page.format_page(made_up() | {"measured": True})


def test_a_training_step_is_counted_by_its_products_and_by_what_it_moves() -> None:
    architecture = Architecture((5,), (Dense(5, 4), Dense(4, 4), Dense(4, 3, gated=False)))
    first, second, last = 2.0 * 20, 2.0 * 16, 2.0 * 12
    whole = 3 * (first + second + last) - first
    weights, gating, inputs = 48, 36, 7 * 5  # the feature network has no last layer
    for regime, optimiser, flops, numbers in (
        ("ReLU", "sgd", whole, 2 * weights),
        ("ReLU", "adam", whole, 6 * weights),
        ("FR-II", "sgd", whole + first + second, 2 * weights + gating),
        ("DL", "sgd", whole + 3 * (first + second) - first, 2 * (weights + gating)),
    ):
        config = RunConfig(
            training=TrainingConfig(optimiser=optimiser), gating=GatingConfig(regime=regime)
        )
        amounts = count_training_work(config, architecture, examples=7, steps=2)
        assert amounts == Amounts(7 * flops, 4 * (2 * numbers + inputs)), (regime, optimiser)
        four = count_training_work(config, architecture, examples=7, steps=2, networks=4)
        assert four == Amounts(28 * flops, 4 * (8 * numbers + inputs))


def test_no_kept_figure_of_a_card_is_made_up_or_of_a_dry_run() -> None:
    content = json.loads((KEPT / "gpu.json").read_text("utf-8"))
    assert content["measured"] is True
    assert content["dry"] is False
    assert [row["name"] for row in content["cases"]] == list(gpu_case.find_cases())
    assert json.loads((KEPT / "davidnet.json").read_text("utf-8"))["dry"] is False


def test_make_gpu_writes_beside_its_json_and_not_to_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe of the Makefile names no page and no file outside build/."""
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ngpu:\n")[2].splitlines()[0]
    assert recipe.split()[1:] == ["-m", "benchmarks.gpu", "--out", "build/gpu.json"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(machine, "describe_machine", lambda _: made_up()["machine"])
    out = tmp_path / "gpu.json"
    assert gpu.main(["--seconds", "5", "--out", str(out)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.md"]
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"To keep the figures, copy {out} to docs/measurements/gpu.json."


def test_every_case_compares_with_a_method_it_has() -> None:
    cases = discover_plugins("benchmarks.gpu_cases", "CASE", Case)
    for case in cases.values():
        assert {bar.against for bar in case.bars} <= {method.name for method in case.methods}
        for method in case.methods:
            floor = method.floor or case.floor
            assert floor is not None, case.title
            for n in (case.n, case.quick, case.dry or case.quick):
                amounts = floor(n)
                assert amounts.flops > 0.0
                assert amounts.bytes > 0.0


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_stopped_leaves_what_it_has(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--out", str(out)]
    command += ["--only", "fc_graphs", "--only", "fc_mean", "--only", "packed"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        while not (out.exists() and "methods" in json.loads(out.read_text("utf-8"))["cases"][0]):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
    finally:
        process.kill()
    content = json.loads(out.read_text("utf-8"))
    assert content["stopped"] is True
    assert content["cases"][2]["skipped"] == gpu.NO_TIME
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.md"]
