"""`dgn reproduce all`: each experiment in its turn, a table of them, and one exit code."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dgn_engine.cli import FAILED, main
from dgn_engine.cli.run import reproduce_papers
from dgn_engine.errors import UserError
from dgn_engine.experiments import all_experiments
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.session.stop_signals import StopSignals
from tests.engine.experiments.documents import result

CHOSEN = ("npf-nu", "npf-stages", "theory-depth")
SECONDS = 7  # by its clock, which every experiment takes
Outcome = Document | UserError | RuntimeError


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[ReproductionTask]:
    """Those that are carried out; three experiments are all there are."""
    found = {name: all_experiments()[name] for name in CHOSEN}
    monkeypatch.setattr(reproduce_papers, "all_experiments", lambda: found)
    clock = itertools.count(5000, SECONDS)
    watch = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr(reproduce_papers, "time", watch)
    return []


@pytest.fixture
def outcomes(tasks: list[ReproductionTask], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what the experiments come to, in their order."""

    def say(*coming: Outcome) -> None:
        left = iter(coming)

        def carry_out(_: argparse.Namespace, task: ReproductionTask, stop: StopSignals) -> Document:
            tasks.append(task)
            outcome = next(left)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(reproduce_papers, "carry_out", carry_out)

    return say


def table(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of its rows, without the heads."""
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


DONE = result(claims=())


@pytest.mark.parametrize(
    ("trouble", "state"),
    [
        (UserError("There are no data."), "refused"),
        (RuntimeError("a fault"), "failed"),
        (result(state="failed", claims=()), "failed"),
    ],
)
def test_one_experiment_that_fails_stops_no_other_and_all_are_in_the_table(
    outcomes: Callable[..., None],
    tasks: list[ReproductionTask],
    trouble: Outcome,
    state: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes(DONE, trouble, result())
    assert main(["reproduce", "all"]) == FAILED
    assert [task.name for task in tasks] == list(CHOSEN)
    first, second, third, last = table(capsys)
    assert first == ["npf-nu", "done", "7", "s"]
    assert second == ["npf-stages", state, "7", "s"]
    assert third[:4] == ["theory-depth", "done", "7", "s"]
    assert "held" in third
    assert last == ["3", "experiments", "21", "s"]


def test_all_that_are_done_are_a_success_each_in_a_folder_of_its_own(
    outcomes: Callable[..., None], tasks: list[ReproductionTask], tmp_path: Any
) -> None:
    outcomes(DONE, DONE, DONE)
    # An option that one of them does not have is ignored.
    assert main(["reproduce", "all", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert [task.folder for task in tasks] == [tmp_path / name for name in CHOSEN]
    assert [task.request.device for task in tasks] == ["cpu", "cpu", "auto"]


def test_after_an_interruption_no_other_experiment_begins(
    outcomes: Callable[..., None],
    tasks: list[ReproductionTask],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(StopSignals, "exit_code", 143)
    outcomes(RuntimeError("a fault"), result(state="interrupted", claims=()), DONE)
    assert main(["reproduce", "all"]) == 143
    assert len(tasks) == 2
    assert [row[:2] for row in table(capsys)][1:] == [
        ["npf-stages", "interrupted"],
        ["2", "experiments"],
    ]


def test_an_experiment_without_the_protocol_that_is_asked_for_is_left_out(
    outcomes: Callable[..., None], tasks: list[ReproductionTask]
) -> None:
    outcomes(DONE, DONE, DONE)
    asked_for = [
        name
        for name in CHOSEN
        if "as-in-code" in reproduce_papers.all_experiments()[name].protocols
    ]
    assert main(["reproduce", "all", "--protocol", "as-in-code"]) == 0
    assert [task.name for task in tasks] == asked_for
    assert len(asked_for) < len(CHOSEN)
