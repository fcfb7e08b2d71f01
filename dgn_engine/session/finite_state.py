"""Find the newest finite state of a diverged run, to go back to."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Diverged
from dgn_engine.session.undo import UndoHistory
from dgn_engine.storage.runs import folder_layout, run_checkpoints
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.recording import Recording
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import BACK_FROM_DIVERGENCE, revert_run


@dataclass(frozen=True)
class FiniteState:
    """A state to go back to. `stored`: it comes from a checkpoint in the run's folder."""

    snapshot: Snapshot
    stored: bool

    @property
    def step(self) -> int:
        return self.snapshot.step


class RecoveryPoint:
    """Keeps the state to which the current run can go back once it has diverged."""

    def __init__(self) -> None:
        self._state: FiniteState | None = None
        self._gone_back_to: FiniteState | None = None  # kept in case the run diverges again
        self._tried: set[int] = set()  # steps of states that led to another divergence

    def add_finite_state(self, event: Diverged, run: Run, recording: Recording | None) -> Diverged:
        """Return the event with the state that `run` can go back to, which is kept from now on."""
        self._state = state = find_finite_state(run, recording, self._tried)
        return event if state is None else replace(event, back_to=state.step, stored=state.stored)

    def check_not_diverged(self, run: Run) -> None:
        """Raise `UserError` if the run has diverged."""
        if run.diverged:
            back = "" if self._state is None else f"go back to step {self._state.step:,}, "
            raise UserError(
                f"The run diverged at step {run.step_count:,}: {back}reset it or start a new one.",
                kind="diverged",
                value=run.step_count,
            )

    def restore_finite_state(
        self, run: Run, undo: UndoHistory, emit: Callable[[Event], None]
    ) -> None:
        """Restore the newest finite state of a diverged run; raises `UserError` if there is
        none."""
        state = self._state
        if not run.diverged or state is None:
            why = "there is no earlier state" if run.diverged else "it has not diverged"
            raise UserError(f"The run cannot go back: {why}.", kind="no-way-back")
        undo.drop_changes_since(state.step)
        revert_run(run, state.snapshot, "going back", BACK_FROM_DIVERGENCE, emit)
        # A new checkpoint of this step would be the same state again.
        self._tried |= {state.step, run.step_count}
        self._gone_back_to, self._state = state, None


def find_finite_state(
    run: Run, recording: Recording | None, tried: Collection[int]
) -> FiniteState | None:
    """Return the newest state of `run` in which all numbers are finite; None if there is none.

    A state that was left by an undo is excluded: the run does not descend from it.

    Args:
        run: A diverged run.
        recording: Its recording, whose checkpoints are candidates too.
        tried: Steps whose states led to this divergence. They are used only if there is no other,
            so that going back repeatedly goes further back.
    """
    states = [
        candidate
        for candidate in _candidate_states(run, recording)
        if candidate.step <= run.step_count
    ]
    newest = sorted(
        states,
        key=lambda candidate: (candidate.step not in tried, candidate.step, not candidate.stored),
    )
    earliest = None
    for state in reversed(newest):
        try:
            finite = FiniteState(state.load(), state.stored)
        except UserError:  # its checkpoint has been removed or damaged
            continue
        if not finite.snapshot.all_finite():
            continue
        left_at = _last_shared_step(finite.snapshot, run)
        if finite.step < left_at:
            return finite
        if finite.step == left_at:  # the first one at this step is from before the undone change
            earliest = finite
    return earliest


def _last_shared_step(snapshot: Snapshot, run: Run) -> float:
    """Return the last step that leads from this state to the present one: infinite if the run was
    never restored since, -1 if no step does."""
    pairs = snapshot.state.get("put_backs", ())
    then, now = tuple((int(at), int(of)) for at, of in pairs), run.put_backs
    if then != now[: len(then)]:
        return -1
    return now[len(then)][1] if len(now) > len(then) else math.inf


class _State(NamedTuple):
    step: int
    stored: bool
    load: Callable[[], Snapshot]


def _candidate_states(run: Run, recording: Recording | None) -> Iterator[_State]:
    """Yield the copies kept for undo or by the recorder, and the stored checkpoints."""
    for copy in run.live_copies():
        yield _State(copy.step, False, lambda copy=copy: copy)  # type: ignore[misc]
    if recording is None:
        return
    with suppress(OSError):
        folder = recording.root / folder_layout.CHECKPOINTS
        for checkpoint in run_checkpoints.scan_checkpoints(folder, thorough=False):
            if checkpoint.is_intact:
                yield _State(
                    checkpoint.step, True, partial(run_checkpoints.load_checkpoint, checkpoint)
                )
