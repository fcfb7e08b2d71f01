"""Which changes are kept for undo, which count as one, and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dgn_engine.protocol.files import TakeGates, TakeWeights
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import (
    ChangesListed,
    Pause,
    Rotate,
    SetBeta,
    SetLearningRate,
    StartRun,
    SwapRegime,
    UndoChanged,
    UndoMany,
)
from dgn_engine.protocol.watching import SetProbeExamples
from dgn_engine.session.undo import UndoHistory
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.run import Run
from tests.engine.session.conftest import Desk, small_config
from tests.refusals import refused


class History:
    """A history of its own over the run of a desk, with a clock that stands."""

    def __init__(self, desk: Desk, **limits: int) -> None:
        desk.handle(StartRun(small_config(), paused=True))
        self.desk, self.now = desk, 100.0
        self.events: list[Event] = []
        self.seen: list[Snapshot | None] = []
        self.history = UndoHistory(
            self.events.append,
            lambda ticket: f"file{ticket}.pt",
            lambda *_: None,
            clock=lambda: self.now,
            **limits,
        )

    @property
    def run(self) -> Run:
        assert self.desk.engine.run is not None
        return self.desk.engine.run

    def do(self, *commands: Command) -> str:
        """What is undone next, in words."""
        for command in commands:
            self.history.execute_undoable(command, self.run, self.act)
        return self.last(UndoChanged).undo

    def act(self, command: Command) -> None:
        self.seen.append(self.run.control.snapshot)
        if not isinstance(command, TakeGates | TakeWeights):
            self.desk.engine.handlers[type(command)](command)

    def last(self, kind: type[Any]) -> Any:
        return next(event for event in reversed(self.events) if isinstance(event, kind))

    @property
    def kept(self) -> int:
        return len(self.last(ChangesListed).done)


@pytest.fixture
def history(desk: Desk) -> Iterator[History]:
    return History(desk)


def test_a_change_is_named_with_its_file_or_regime(history: History) -> None:
    for command, name in (
        (TakeGates(7), "file7.pt"),
        (TakeWeights(8), "file8.pt"),
        (SwapRegime("FR-II"), "FR-II"),
    ):
        assert history.do(command).endswith(f" {name}")
    history.do(Rotate((1, 0, 0)))
    names = [one.what for one in history.last(ChangesListed).done]
    assert len(set(names)) == 4


def test_turns_of_one_dial_within_a_second_are_one_change_from_the_run_before_the_first(
    history: History,
) -> None:
    history.do(SetBeta(1.0))
    history.now += 0.9
    history.do(SetBeta(2.0))
    assert history.kept == 1
    history.now += 0.2  # counted from the first
    for command, kept in ((SetBeta(3.0), 2), (SetLearningRate(0.1), 3)):
        history.do(command)
        assert history.kept == kept
    history.do(SwapRegime("DL"), SwapRegime("DL"))  # no dial
    assert history.kept == 5
    history.history.undo_many(UndoMany(4), history.run)
    assert history.run.trainer.network.gate.beta == 2.0
    history.history.undo(history.run)
    assert history.run.trainer.network.gate.beta == small_config().gating.beta
    history.do(SetBeta(4.0))
    history.history.undo(history.run)
    history.do(SetBeta(5.0), SetBeta(6.0))  # right after an undo a turn begins anew
    assert history.kept == 1
    history.do(SwapRegime("FR-II"))
    history.history.undo(history.run)
    history.do(SetBeta(7.0))  # … also of a dial that the undo has uncovered
    assert history.kept == 2


def test_so_many_changes_are_kept_and_so_much_memory(desk: Desk) -> None:
    few = History(desk, most=3)
    rates = (0.1, 0.2, 0.3, 0.4)
    for step, rate in enumerate(rates):
        few.now += 2.0
        few.do(SetLearningRate(rate))
        assert few.kept == min(step + 1, 3)
    few.history.undo_many(UndoMany(3), few.run)
    assert few.run.trainer.optimizer.learning_rate == 0.1
    with refused("empty", value="undo"):
        few.history.undo(few.run)
    one = sum(tensor.nbytes for tensor in few.run.trainer.tensors().values())
    for room, kept in ((2 * one, 2), (1, 1)):  # the newest is kept whatever it takes
        small_one = History(desk, most_bytes=room)
        for regime in ("DL", "FR-II", "DL"):
            small_one.do(SwapRegime(regime))
        assert small_one.kept == kept


def test_a_copy_made_for_undo_is_there_for_the_record_while_a_command_is_carried_out(
    history: History,
) -> None:
    history.do(SwapRegime("DL"), SetBeta(2.0))
    assert all(isinstance(seen, Snapshot) for seen in history.seen)
    history.do(SetProbeExamples(9))
    assert history.seen[-1] is None
    assert history.run.control.snapshot is None


def test_what_cannot_be_undone_or_is_refused_is_not_remembered(history: History) -> None:
    history.do(SwapRegime("DL"))
    told = len(history.events)
    history.do(Pause())
    with refused("unknown-name"):
        history.do(SwapRegime("no-such-regime"))
    assert (history.kept, len(history.events)) == (1, told)
    assert history.run.control.snapshot is None


def test_changes_of_another_run_are_forgotten(history: History) -> None:
    history.do(SwapRegime("FR-II"), SetBeta(2.0))
    history.desk.handle(StartRun(small_config(seed=1), paused=True))
    history.do(SetBeta(3.0))
    assert history.kept == 1
    history.history.undo(history.run)
    with refused("empty", value="undo"):
        history.history.undo(history.run)


def test_all_changes_are_listed_with_their_steps_and_values_to_and_fro(history: History) -> None:
    history.desk.train(2)
    history.do(SetBeta(2.0))
    history.desk.train(3)
    history.do(SwapRegime("FR-II"))
    both = history.last(ChangesListed)
    assert both.undone == ()
    assert [one.step for one in both.done] == [2, 5]
    assert [one.what.split()[-3:] for one in both.done] == [["8", "→", "2"], ["DL", "→", "FR-II"]]
    history.history.undo_many(UndoMany(2), history.run)
    assert history.last(ChangesListed) == ChangesListed((), both.done)
    history.history.undo_many(UndoMany(-1), history.run)
    assert history.last(ChangesListed) == ChangesListed(both.done[:1], both.done[1:])
    history.history.redo(history.run)
    with refused("empty", value="redo"):
        history.history.redo(history.run)
