"""A run whose graphs are dropped says so once: in its log, in `dgn train`, in the state of the
window."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import StartRun, StepsNotCaptured, SwapRegime, Undo
from dgn_engine.session.engine import Engine
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.batched import Job, train_pack
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.steps.graphs import WARM_UP
from dgn_engine.training.trainer import Trainer
from tests.engine.training.cuda.fake_card import FakeCard
from tests.engine.training.run_watchers import NoWatcher

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 8), ("depth", 3))),
    training=TrainingConfig(epochs=1, learning_rate=3e-3, batch=64),
    probe_examples=20,
)


class WrongCard(FakeCard):
    """Its graphs do half of what they were given."""

    def capture_graph(self, work: Callable[[], None]) -> Any:
        graph = super().capture_graph(work)
        graph.calls = graph.calls[: len(graph.calls) // 2]
        return graph


def capture_on(card: type[FakeCard], kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, whatever is made of this kind takes its steps as graphs of such a card."""
    made = kind.__init__  # type: ignore[misc]  # of exactly this class

    def make(self: Any, *args: Any) -> None:
        made(self, *args)
        self.capture_steps(card())

    monkeypatch.setattr(kind, "__init__", make)


def dropped(folder: Path) -> list[StepsNotCaptured]:
    return [event for event in RunReader(folder).events if isinstance(event, StepsNotCaptured)]


def test_train_says_it_once_and_so_does_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder = tmp_path / "run.toml", tmp_path / "run"
    config.write_text(CONFIG.to_toml(), "utf-8")
    capture_on(WrongCard, Trainer, monkeypatch)
    assert main(["train", str(config), "--out", str(folder), "--quiet"]) == 0
    (event,) = dropped(folder)
    assert event.step == WARM_UP
    assert " ".join(capsys.readouterr().err.split()).count(event.sentence) == 1


@pytest.mark.parametrize(("card", "lines"), [(FakeCard, 1), (WrongCard, 2)])
def test_a_run_that_goes_on_says_it_again_only_if_it_happens_again(
    card: type[FakeCard], lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()
    with monkeypatch.context() as patch:
        capture_on(WrongCard, Trainer, patch)
        first = HeadlessRun(NoWatcher(), lambda: next(asked) > 2 * WARM_UP)
        first.train(CONFIG, RunFolder.create(tmp_path / "run", CONFIG))
    assert RunReader(tmp_path / "run").status == "stopped"
    assert len(dropped(tmp_path / "run")) == 1
    capture_on(card, Trainer, monkeypatch)
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert len(dropped(tmp_path / "run")) == lines


def test_each_network_of_a_stack_has_it_in_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture_on(WrongCard, TrainerStack, monkeypatch)
    jobs = [Job(replace(CONFIG, seed=seed), tmp_path / str(seed)) for seed in range(2)]
    assert {done.status for done in train_pack(jobs)} == {"finished"}
    assert [[event.step for event in dropped(job.folder)] for job in jobs] == [[WARM_UP]] * 2


def test_the_state_of_a_run_keeps_it_and_that_of_the_next_run_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Event] = []
    engine = Engine(said.append, lambda _: None)

    def state() -> RunState:
        found = RunState()
        for event in said:
            found = found.after(event)
        return found

    def take_steps(count: int) -> None:
        assert engine.run is not None
        last = engine.run.step_count + count
        while engine.run.step_count < last:
            engine.advance()

    endless = replace(CONFIG, training=replace(CONFIG.training, epochs=0))
    with monkeypatch.context() as patch:
        capture_on(WrongCard, Trainer, patch)
        engine.handle_command(StartRun(endless))
    take_steps(WARM_UP + 2)
    (event,) = [one for one in said if isinstance(one, StepsNotCaptured)]
    engine.handle_command(SwapRegime("FR-II"))
    take_steps(WARM_UP + 2)
    engine.handle_command(Undo())
    take_steps(WARM_UP + 2)
    assert [one for one in said if isinstance(one, StepsNotCaptured)] == [event]
    assert state().not_captured == event
    engine.handle_command(StartRun(endless))
    assert state().not_captured is None
