"""Undo and redo of what a user changed in a run, between two steps.

A change of what is trained (a regime, gates or weights of a file, an order, a rotation, a setting)
is undone with a copy of the run from right before it: both networks, optimiser state, regime,
settings and the order of the data. An order, a rotation or a setting can also be put back alone,
with the weights as they are now. The probe set changes only what is read, and is only turned back.
The count of steps is never taken back: the run goes on from the step that it has reached, and its
record stays whole. Which command is undone how is declared with it
(`protocol.messages.UndoPolicy`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event, UndoPolicy
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.training import ChangesListed, ListedChange, UndoChanged, UndoMany
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.text.written_numbers import number
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture, put_back

MOST = 50  # changes that are kept
MOST_BYTES = 512 << 20  # of their weights; the newest change is always kept
MERGED = 1.0  # seconds between two changes of one setting that count as one


@dataclass(frozen=True)
class _UndoneSettings:
    order: tuple[int, ...]
    rotation: tuple[int, ...]
    shift: tuple[int, ...]
    learning_rate: float
    beta: float
    value_input: ValueInput
    probe_examples: int = 0
    probe_set: str = ""


@dataclass(frozen=True)
class _Change:
    """A change with the settings and the run before it (None: only the probe set was changed).
    `what` it was, in words: 'gates of x.pt', at which `step` it was made first."""

    what: str
    settings: _UndoneSettings
    before: Snapshot | None
    kind: type[Command]
    policy: UndoPolicy
    at: float
    step: int
    detail: str = ""  # 'learning rate 0.001 → 0.01', or what it was where there is no more to say
    alone: bool = False  # its setting was put back alone, and so it is done again

    @property
    def size(self) -> int:
        """Bytes of its tensors."""
        tensors = () if self.before is None else self.before.tensors.values()
        return sum(tensor.nbytes for tensor in tensors)


class UndoHistory:
    """The changes of the run in progress, the newest last; another run begins without any."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        file_name: Callable[[int], str],
        choose: Callable[[Run, int, str], None],
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`file_name(ticket)`: of a listed file. `choose(run, examples, choice)`: another probe
        set. `most`, `most_bytes`: changes that are kept, and of their weights."""
        self._clock, self._most, self._most_bytes = clock, most, most_bytes
        self._emit = emit
        self._file_name = file_name
        self._choose = choose
        self._run = 0  # the number of the run that was changed
        self._done: list[_Change] = []
        self._undone: list[_Change] = []
        self._may_merge = False  # the newest change was made, not redone or uncovered by an undo

    def remember(self, command: Command, run: Run | None, act: Callable[[Any], object]) -> None:
        """Carry out a command; if it can be undone, remember the state of `run` before it.

        Raises what `act` raises, and then nothing is remembered.
        """
        number = 0 if run is None else run.number
        if number != self._run:
            self._run, self._done, self._undone = number, [], []
        if run is None or command.undo is None:
            act(command)
            return
        if (same := self._merged_with(command)) is not None:
            act(command)
            self._done[-1] = replace(same, detail=_detail(same, run))
        else:
            words, step = self._in_words(command), run.step_count
            change = self._change(run, words, type(command), command.undo, step)
            settings = _settings_of(run)
            with _shared(run, None if change is None else change.before):
                act(command)
            if (command.undo.setting or command.undo.reads) and settings == _settings_of(run):
                return  # it was set to what it was
            # A diverged run is not worth having back: what was changed before that is undone next.
            if change is not None:
                self._done.append(replace(change, detail=_detail(change, run)))
                self._may_merge = True
                self._trim(self._done)
        self._undone.clear()
        self._emit_names()

    def forget(self) -> None:
        """The run is replaced: nothing of it can be undone, and its weights are let go."""
        self._run, self._done, self._undone = 0, [], []

    def leave_out(self, step: int) -> None:
        """Forget the changes since a state of this step, to which the run was put back: they are
        in force no more, and undoing one would only lose what was trained since."""
        self._done = [one for one in self._done if one.before is None or one.before.step < step]
        self._undone.clear()
        self._may_merge = False
        self._emit_names()

    def undo(self, run: Run | None) -> None:
        """Put the run back to before its last change; raises `UserError` where there is none."""
        self._step(run, "undo", self._done, self._undone)

    def redo(self, run: Run | None) -> None:
        """Make the last change that was undone once more; raises `UserError` likewise."""
        self._step(run, "redo", self._undone, self._done)

    def undo_setting(self, run: Run | None) -> None:
        """Put only the setting that was changed last back, and keep the weights.

        Raises `UserError` where the last change was none of a setting, or the run has diverged.
        """
        last = self._done[-1] if self._done else None
        if run is None or last is None or not last.policy.setting:
            words = "The last change was none of a setting, which could be put back alone."
            raise UserError(words, kind="no-setting")
        if run.diverged:
            words = "The run has diverged: its weights cannot be kept, only undone."
            raise UserError(words, kind="diverged")
        self._step(run, "undo", self._done, self._undone, alone=True)

    def undo_many(self, command: UndoMany, run: Run | None) -> None:
        """Undo or redo one after the other, as if each had been asked for."""
        act = self.undo if command.changes > 0 else self.redo
        for _ in range(abs(command.changes)):
            act(run)

    def _step(
        self,
        run: Run | None,
        word: str,
        source: list[_Change],
        target: list[_Change],
        alone: bool = False,
    ) -> None:
        """`alone`: only the setting, with the weights kept."""
        if run is None or not source:
            raise UserError(f"There is nothing to {word}.", kind="empty", value=word)
        last = source[-1]
        change: _Change | None
        if last.before is None:
            change = replace(last, settings=_settings_of(run))
            self._choose(run, last.settings.probe_examples, last.settings.probe_set)
        elif alone or last.alone:  # what undo puts back stays the run before the change
            change = replace(last, settings=_settings_of(run), alone=alone)
            _turn_back(run, last.settings)
        else:
            change = self._change(run, last.what, last.kind, last.policy, last.step)
            change = None if change is None else replace(change, detail=last.detail)
            with _shared(run, None if change is None else change.before):
                undone = f"{word.capitalize()} {last.what}"
                put_back(run, last.before, f"{word} of {last.what}", undone, self._emit)
        source.pop()
        self._may_merge = False
        if change is not None:
            target.append(change)
            self._trim(target)
        self._emit_names()

    def _merged_with(self, command: Command) -> _Change | None:
        """Return the newest change where this command only goes on with it."""
        last = self._done[-1] if self._done and self._may_merge else None
        if last is None or not last.policy.merges or last.kind is not type(command):
            return None
        return last if self._clock() - last.at < MERGED else None

    def _emit_names(self) -> None:
        names = [changes[-1].what if changes else "" for changes in (self._done, self._undone)]
        done, undone = (
            tuple(
                ListedChange(change.step, change.detail or change.what, change.policy.setting)
                for change in changes
            )
            for changes in (self._done, self._undone[::-1])
        )
        self._emit(ChangesListed(done, undone))
        self._emit(UndoChanged(*names))

    def _change(
        self, run: Run, what: str, kind: type[Command], policy: UndoPolicy, step: int
    ) -> _Change | None:
        """None where the run has diverged: then there is nothing worth having back."""
        before = None if policy.reads else capture(run)
        if before is None and not policy.reads:
            return None
        return _Change(what, _settings_of(run), before, kind, policy, self._clock(), step)

    def _trim(self, changes: list[_Change]) -> None:
        del changes[: -self._most]
        while len(changes) > 1 and sum(one.size for one in changes) > self._most_bytes:
            del changes[0]

    def _in_words(self, command: Command) -> str:
        assert command.undo is not None
        values = dict(vars(command))
        if "ticket" in values:
            values["file"] = self._file_name(values["ticket"])
        return command.undo.what.format(**values)


def _detail(change: _Change, run: Run) -> str:
    """What it was, with the values before and after it: 'learning rate 0.001 → 0.01'."""
    if change.before is not None and not change.policy.setting:
        was, now = str(change.before.state["regime"]), run.trainer.regime.name
        regime = f"regime {was} → {now}"
        return regime if change.what.startswith("regime") else f"{change.what}, {regime}"
    before, now_set = change.settings, _settings_of(run)
    words: list[str] = []
    for name, was_set, is_set in (
        ("order of the gate layers", _from_one(before.order), _from_one(now_set.order)),
        ("rotation of the gates", _numbers(before.rotation), _numbers(now_set.rotation)),
        ("shift of the gates", _numbers(before.shift), _numbers(now_set.shift)),
        ("learning rate", number(before.learning_rate), number(now_set.learning_rate)),
        ("β", number(before.beta), number(now_set.beta)),
        ("value input", before.value_input, now_set.value_input),
        ("probe set", _examples(before), _examples(now_set)),
    ):
        if was_set != is_set:
            words.append(f"{name} {was_set} → {is_set}")
    return ", ".join(words) or change.what


def _examples(settings: _UndoneSettings) -> str:
    """'64 examples, class 3, 8'."""
    chosen = ProbeChoice.parse(settings.probe_set)
    count = "" if chosen.rows else f"{settings.probe_examples:,} examples, "
    return count + chosen.in_words


def _from_one(order: tuple[int, ...]) -> str:
    return " ".join(str(layer + 1) for layer in order)


def _numbers(turns: tuple[int, ...]) -> str:
    return " ".join(map(str, turns)) if any(turns) else "none"


@contextmanager
def _shared(run: Run, before: Snapshot | None) -> Iterator[None]:
    """Let a recording write the copy of the run that was made for undo, not another one."""
    run.control.snapshot = before
    try:
        yield
    finally:
        run.control.snapshot = None


def _settings_of(run: Run) -> _UndoneSettings:
    chosen = run.config.probe_examples, run.config.probe_set
    return _UndoneSettings(*run.control.wires, *run.control.dials, *chosen)


def _turn_back(run: Run, to: _UndoneSettings) -> None:
    run.control.wire(to.order, to.rotation, to.shift)
    run.control.set_dials(to.learning_rate, to.beta, to.value_input)
