"""Which changes are kept for undo, which count as one, and in which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dgn_engine.protocol.files import TakeGates, TakeWeights
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import (
    ChangesListed,
    ListedChange,
    Pause,
    Rotate,
    SetBeta,
    SetLearningRate,
    SwapRegime,
    UndoChanged,
    UndoMany,
)
from dgn_engine.protocol.watching import SetProbeExamples
from dgn_engine.session import undo
from dgn_engine.session.undo import UndoHistory
from dgn_engine.storage.runs.run_checkpoints import Snapshot


class History:
    """A history over a run that is made up: a state is one number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        self.run: Any = SimpleNamespace(
            number=1,
            control=SimpleNamespace(snapshot=None),
            step_count=7,
            diverged=False,
            trainer=SimpleNamespace(regime=SimpleNamespace(name="DL")),
        )
        self.size, self.now, self.state, self.copies = 1, 100.0, 0, 0
        self.seen: list[object] = []
        self.back: list[object] = []
        self.history = UndoHistory(
            self.events.append, lambda ticket: f"file{ticket}.pt", self.choose
        )
        monkeypatch.setattr(undo, "capture", self.capture)
        monkeypatch.setattr(undo, "_settings_of", lambda _: self.settings())
        monkeypatch.setattr(undo, "put_back", lambda *given: self.back.append(given))
        monkeypatch.setattr(undo, "_turn_back", lambda *given: self.back.append(given))
        monkeypatch.setattr(undo, "time", SimpleNamespace(monotonic=lambda: self.now))

    def choose(self, *given: object) -> None:
        self.back.append(given)

    def capture(self, _: object) -> Snapshot | None:
        self.copies += 1
        tensors = {"a": torch.zeros(self.size, dtype=torch.uint8)}
        return Snapshot(tensors, {"step": self.copies, "regime": "FL"}) if self.size else None

    def settings(self) -> Any:
        self.state += 1
        return undo._UndoneSettings((), (), (), float(self.state), 1.0, "image")

    def do(self, *commands: Command) -> str:
        """What is undone next, in words."""
        for command in commands:
            self.history.remember(
                command, self.run, lambda _: self.seen.append(self.run.control.snapshot)
            )
        return self.names.undo

    @property
    def names(self) -> UndoChanged:
        event = self.events[-1]
        assert isinstance(event, UndoChanged)
        return event

    @property
    def kept(self) -> int:
        return len(self.history._done)


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> History:
    return History(monkeypatch)


def test_a_change_is_named_with_its_file_or_regime(history: History) -> None:
    assert history.do(TakeGates(7)) == "gates of file7.pt"
    assert history.do(TakeWeights(8)) == "weights of file8.pt"
    assert history.do(SwapRegime("FR-II")) == "regime FR-II"
    assert history.do(Rotate((1,))) == "rotation of the gates"


def test_turns_of_one_dial_within_a_second_are_one_change(history: History) -> None:
    history.do(SetBeta(1.0))
    history.now += 0.9
    history.do(SetBeta(2.0))
    assert (history.kept, history.copies) == (1, 1)  # the run before the first
    history.now += 0.2  # counted from the first
    history.do(SetBeta(3.0))
    assert history.kept == 2
    history.do(SetLearningRate(0.1))  # another dial
    assert history.kept == 3
    history.do(SwapRegime("DL"), SwapRegime("DL"))  # no dial
    assert history.kept == 5
    history.history.undo(history.run)
    history.history.undo(history.run)
    ((_, last, *_), (_, before, *_)) = history.back  # type: ignore[misc]
    assert isinstance(last, Snapshot)
    assert isinstance(before, Snapshot)
    assert last.step == before.step + 1


def test_fifty_changes_are_kept_and_so_much_memory(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.do(*[SwapRegime("DL")] * 53)
    assert history.kept == 50
    assert history.history._done[0].before.step == 4  # type: ignore[union-attr]
    monkeypatch.setattr(undo, "MOST_BYTES", 30)
    history.size = 10
    history.do(SwapRegime("DL"))
    assert sum(change.size for change in history.history._done) == 30
    assert history.kept == 21
    history.size = 100
    history.do(SwapRegime("DL"))
    assert history.kept == 1  # the newest is kept whatever it takes


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
    told_so_far = len(history.events)
    history.history.remember(Pause(), history.run, lambda _: None)
    assert (history.kept, len(history.events)) == (1, told_so_far)

    def refuse(_: object) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        history.history.remember(SwapRegime("FL"), history.run, refuse)
    assert (history.kept, len(history.events)) == (1, told_so_far)
    assert history.run.control.snapshot is None
    history.history.remember(SwapRegime("FL"), None, lambda _: None)  # no run: it will refuse
    assert history.kept == 0


def test_another_run_begins_without_changes_and_a_diverged_one_keeps_those_from_before(
    history: History,
) -> None:
    history.do(SwapRegime("DL"), SwapRegime("FL"))
    history.history.undo(history.run)
    history.size = 0  # it has diverged: nothing of it is worth having back
    assert history.do(SetBeta(2.0), SwapRegime("FR-II")) == "regime DL"
    assert (history.kept, history.names.redo) == (1, "")
    history.size = 1
    history.run = SimpleNamespace(**{**vars(history.run), "number": 2})
    assert history.do(SetBeta(2.0)) == "β"
    assert history.kept == 1


def test_undo_and_redo_go_to_and_fro(history: History) -> None:
    history.do(SetBeta(2.0), SwapRegime("DL"))
    history.history.undo(history.run)
    assert history.names == UndoChanged("β", "regime DL")
    history.history.undo(history.run)
    assert history.names == UndoChanged("", "β")
    history.history.redo(history.run)
    assert history.names == UndoChanged("β", "regime DL")
    words = [given[2] for given in history.back if len(given) == 5]  # type: ignore[arg-type,index]
    assert words == ["undo of regime DL", "undo of β", "redo of β"]
    history.history.redo(history.run)
    assert history.names == UndoChanged("regime DL", "")
    with pytest.raises(Exception, match=r"There is nothing to redo\."):
        history.history.redo(history.run)
    with pytest.raises(Exception, match=r"There is nothing to undo\."):
        history.history.undo(None)
    history.history.undo(history.run)
    history.size = 0  # diverged since: what is undone cannot be redone
    history.do(SetBeta(3.0))
    assert history.names.redo == ""


def test_all_changes_are_listed_with_their_steps_and_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = History(monkeypatch)
    history.do(SetBeta(2.0))
    history.run.step_count = 9
    history.do(SwapRegime("DL"))
    listed = [event for event in history.events if isinstance(event, ChangesListed)][-1]
    assert listed.undone == ()
    assert [one.step for one in listed.done] == [7, 9]
    assert listed.done[0].what.startswith("learning rate ")  # what the made-up settings differ by
    assert listed.done[1].what == "regime FL → DL"
    history.history.undo_many(UndoMany(2), history.run)
    listed = [event for event in history.events if isinstance(event, ChangesListed)][-1]
    assert listed.done == ()
    assert [one.step for one in listed.undone] == [7, 9]
    history.history.undo_many(UndoMany(-1), history.run)
    listed = [event for event in history.events if isinstance(event, ChangesListed)][-1]
    assert [one.step for one in listed.done] == [7]
    assert listed.undone == (ListedChange(9, "regime FL → DL"),)
