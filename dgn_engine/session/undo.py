"""Undo and redo of the user's changes to a run, between two steps.

A change of what is trained (a regime, gates or weights of a file, an order, a rotation, a setting)
is undone with a copy of the run from just before it: both networks, optimiser state, regime,
settings and the order of the data. An order, a rotation or a setting can also be restored alone,
with the current weights. A change of the probe set affects only readings, and only the probe set is
restored. The step counter never goes back: the run continues from the step it has reached, and its
record stays complete. Each command declares how it is undone (`protocol.messages.UndoPolicy`).
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
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, revert_run

MOST = 50  # changes
MOST_BYTES = 512 << 20  # of their weights; the newest change is always kept
MERGED = 1.0  # seconds within which changes of one setting count as one


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
    """A change, with the settings and the run before it (None: only the probe set was changed).

    `what` describes it: 'gates of x.pt'; it was first made at `step`.
    """

    what: str
    settings: _UndoneSettings
    before: Snapshot | None
    kind: type[Command]
    policy: UndoPolicy
    at: float
    step: int
    detail: str = ""  # 'learning rate 0.001 → 0.01', or `what`
    alone: bool = False  # only its setting was restored, and is redone likewise

    @property
    def byte_size(self) -> int:
        """Bytes of its tensors."""
        tensors = () if self.before is None else self.before.tensors.values()
        return sum(tensor.nbytes for tensor in tensors)


class UndoHistory:
    """The changes of the current run, newest last; a new run starts without any."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        file_name: Callable[[int], str],
        choose: Callable[[Run, int, str], None],
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`file_name(ticket)` returns the name of a listed file; `choose(run, examples, choice)`
        sets another probe set. `most` and `most_bytes` limit the number of changes and the memory
        of their weights."""
        self._clock, self._most, self._most_bytes = clock, most, most_bytes
        self._emit = emit
        self._file_name = file_name
        self._choose = choose
        self._run = 0  # the number of the changed run
        self._done: list[_Change] = []
        self._undone: list[_Change] = []
        self._may_merge = False  # the newest change was just made, not redone or exposed by an undo

    def execute_undoable(
        self, command: Command, run: Run | None, act: Callable[[Any], object]
    ) -> None:
        """Carry out a command; if it can be undone, keep the state of `run` from before it.

        Raises what `act` raises, and then keeps nothing.
        """
        number = 0 if run is None else run.number
        if number != self._run:
            self._run, self._done, self._undone = number, [], []
        if run is None or command.undo is None:
            act(command)
            return
        if (merged := self._merged_with(command)) is not None:
            act(command)
            self._done[-1] = replace(merged, detail=_change_detail(merged, run))
        else:
            words, step = self._describe_command(command), run.step_count
            change = self._record_change(run, words, type(command), command.undo, step)
            settings = _settings_of(run)
            with _share_snapshot(run, None if change is None else change.before):
                act(command)
            if (command.undo.setting or command.undo.reads) and settings == _settings_of(run):
                return  # set to the same value
            # A diverged run is not worth restoring: the change before it is undone next.
            if change is not None:
                self._done.append(replace(change, detail=_change_detail(change, run)))
                self._may_merge = True
                self._trim_changes(self._done)
        self._undone.clear()
        self._emit_names()

    def clear_history(self) -> None:
        """Clear the history and free its weights, because the run is replaced."""
        self._run, self._done, self._undone = 0, [], []

    def drop_changes_since(self, step: int) -> None:
        """Drop the changes since a state of this step, to which the run was restored.

        They are no longer in effect, and undoing one would only lose training.
        """
        self._done = [
            change for change in self._done if change.before is None or change.before.step < step
        ]
        self._undone.clear()
        self._may_merge = False
        self._emit_names()

    def undo(self, run: Run | None) -> None:
        """Restore the run from before its last change; raises `UserError` if there is none."""
        self._move_change(run, "undo", self._done, self._undone)

    def redo(self, run: Run | None) -> None:
        """Redo the last change that was undone; raises `UserError` if there is none."""
        self._move_change(run, "redo", self._undone, self._done)

    def undo_setting(self, run: Run | None) -> None:
        """Restore only the setting that was changed last, and keep the weights.

        Raises `UserError` if the last change was not a setting, or the run has diverged.
        """
        last = self._done[-1] if self._done else None
        if run is None or last is None or not last.policy.setting:
            words = "The last change was not a setting, so nothing can be undone on its own."
            raise UserError(words, kind="no-setting")
        if run.diverged:
            words = "The run has diverged, so its weights cannot be kept: use Undo instead."
            raise UserError(words, kind="diverged")
        self._move_change(run, "undo", self._done, self._undone, alone=True)

    def undo_many(self, command: UndoMany, run: Run | None) -> None:
        """Undo or redo several changes, one after the other."""
        act = self.undo if command.changes > 0 else self.redo
        for _ in range(abs(command.changes)):
            act(run)

    def _move_change(
        self,
        run: Run | None,
        word: str,
        source: list[_Change],
        target: list[_Change],
        alone: bool = False,
    ) -> None:
        """Move a change between the two lists; `alone`: restore only the setting, keep the
        weights."""
        if run is None or not source:
            raise UserError(f"There is nothing to {word}.", kind="empty", value=word)
        last = source[-1]
        change: _Change | None
        if last.before is None:
            change = replace(last, settings=_settings_of(run))
            self._choose(run, last.settings.probe_examples, last.settings.probe_set)
        elif alone or last.alone:  # the copy stays that from before the change
            change = replace(last, settings=_settings_of(run), alone=alone)
            _restore_settings(run, last.settings)
        else:
            change = self._record_change(run, last.what, last.kind, last.policy, last.step)
            change = None if change is None else replace(change, detail=last.detail)
            with _share_snapshot(run, None if change is None else change.before):
                undone = f"{word.capitalize()} {last.what}"
                revert_run(run, last.before, f"{word} of {last.what}", undone, self._emit)
        source.pop()
        self._may_merge = False
        if change is not None:
            target.append(change)
            self._trim_changes(target)
        self._emit_names()

    def _merged_with(self, command: Command) -> _Change | None:
        """Return the newest change, if this command only continues it."""
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

    def _record_change(
        self, run: Run, what: str, kind: type[Command], policy: UndoPolicy, step: int
    ) -> _Change | None:
        """Return the change about to be made; None if the run has diverged, which is not worth
        restoring."""
        before = None if policy.reads else capture_run(run)
        if before is None and not policy.reads:
            return None
        return _Change(what, _settings_of(run), before, kind, policy, self._clock(), step)

    def _trim_changes(self, changes: list[_Change]) -> None:
        del changes[: -self._most]
        while len(changes) > 1 and sum(change.byte_size for change in changes) > self._most_bytes:
            del changes[0]

    def _describe_command(self, command: Command) -> str:
        assert command.undo is not None
        values = dict(vars(command))
        if "ticket" in values:
            values["file"] = self._file_name(values["ticket"])
        return command.undo.what.format(**values)


def _change_detail(change: _Change, run: Run) -> str:
    """Describe a change with the values before and after it: 'learning rate 0.001 → 0.01'."""
    if change.before is not None and not change.policy.setting:
        was, now = str(change.before.state["regime"]), run.trainer.regime.name
        regime = f"regime {was} → {now}"
        return regime if change.what.startswith("regime") else f"{change.what}, {regime}"
    before, now_set = change.settings, _settings_of(run)
    words: list[str] = []
    for name, was_set, is_set in (
        ("gate order", _one_based(before.order), _one_based(now_set.order)),
        ("gate rotation", _format_turns(before.rotation), _format_turns(now_set.rotation)),
        ("gate shift", _format_turns(before.shift), _format_turns(now_set.shift)),
        (
            "learning rate",
            format_number(before.learning_rate),
            format_number(now_set.learning_rate),
        ),
        ("β", format_number(before.beta), format_number(now_set.beta)),
        ("value input", before.value_input, now_set.value_input),
        ("probe set", _describe_examples(before), _describe_examples(now_set)),
    ):
        if was_set != is_set:
            words.append(f"{name} {was_set} → {is_set}")
    return ", ".join(words) or change.what


def _describe_examples(settings: _UndoneSettings) -> str:
    """Return '64 examples, class 3, 8'."""
    chosen = ProbeChoice.parse(settings.probe_set)
    count = "" if chosen.rows else f"{settings.probe_examples:,} examples, "
    return count + chosen.in_words


def _one_based(order: tuple[int, ...]) -> str:
    return " ".join(str(layer + 1) for layer in order)


def _format_turns(turns: tuple[int, ...]) -> str:
    return " ".join(map(str, turns)) if any(turns) else "none"


@contextmanager
def _share_snapshot(run: Run, before: Snapshot | None) -> Iterator[None]:
    """Let a recording write the copy of the run made for undo, instead of another one."""
    run.control.snapshot = before
    try:
        yield
    finally:
        run.control.snapshot = None


def _settings_of(run: Run) -> _UndoneSettings:
    chosen = run.config.probe_examples, run.config.probe_set
    return _UndoneSettings(*run.control.wiring_state, *run.control.dials, *chosen)


def _restore_settings(run: Run, to: _UndoneSettings) -> None:
    run.control.apply_wiring(to.order, to.rotation, to.shift)
    run.control.set_dials(to.learning_rate, to.beta, to.value_input)
