"""The newest finite state of a run, for going back to when it has diverged."""

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
from dgn_engine.training.run_snapshot import BACK_FROM_DIVERGENCE, put_back


@dataclass(frozen=True)
class FiniteState:
    """A state to go back to. `stored`: it was read from a checkpoint of the run's folder."""

    snapshot: Snapshot
    stored: bool

    @property
    def step(self) -> int:
        return self.snapshot.step


class WayBack:
    """Keeps the state that the run in progress can be put back to once it has diverged."""

    def __init__(self) -> None:
        self._state: FiniteState | None = None
        self._gone_back_to: FiniteState | None = None  # held, for a run that diverges once more
        self._tried: set[int] = set()  # steps of states that led to divergence once more

    def add_to(self, event: Diverged, run: Run, recording: Recording | None) -> Diverged:
        """Return the event with the state that `run` can be put back to, which is held from now
        on."""
        self._state = state = find_finite_state(run, recording, self._tried)
        return event if state is None else replace(event, back_to=state.step, stored=state.stored)

    def check_trains(self, run: Run) -> None:
        if run.diverged:
            back = "" if self._state is None else f"go back to step {self._state.step:,}, "
            raise UserError(
                f"The run diverged at step {run.step_count:,}; {back}reset it or start another.",
                kind="diverged",
                value=run.step_count,
            )

    def put_back(self, run: Run, undo: UndoHistory, emit: Callable[[Event], None]) -> None:
        """Put a diverged run back to its newest finite state; raises `UserError` without one."""
        state = self._state
        if not run.diverged or state is None:
            why = "no earlier state of it is kept" if run.diverged else "it has not diverged"
            raise UserError(f"The run cannot go back: {why}.", kind="no-way-back")
        undo.leave_out(state.step)
        put_back(run, state.snapshot, "going back", BACK_FROM_DIVERGENCE, emit)
        # A checkpoint of this step would be the same state once more.
        self._tried |= {state.step, run.step_count}
        self._gone_back_to, self._state = state, None


def find_finite_state(
    run: Run, recording: Recording | None, tried: Collection[int]
) -> FiniteState | None:
    """Return the newest state of `run` all of whose numbers are finite; None where none is kept.

    A state that an undo left behind is none of them: it is not one that the run came from.

    Args:
        run: A run that has diverged.
        recording: Its recording, whose checkpoints are states, too.
        tried: Steps whose states led to where it is now: they are taken only where there is no
            other, so that going back once more goes further back.
    """
    states = [one for one in _states(run, recording) if one.step <= run.step_count]
    newest = sorted(states, key=lambda one: (one.step not in tried, one.step, not one.stored))
    earliest = None
    for state in reversed(newest):
        try:
            found = FiniteState(state.load(), state.stored)
        except UserError:  # its checkpoint was removed or damaged since
            continue
        if not found.snapshot.all_finite():
            continue
        left_at = _left_at(found.snapshot, run)
        if found.step < left_at:
            return found
        if found.step == left_at:  # before or after what was undone there: the first is before it
            earliest = found
    return earliest


def _left_at(snapshot: Snapshot, run: Run) -> float:
    """Return the last step that leads from the steps of this state to where `run` is now; infinite
    where it was put back no more, and -1 where no step does."""
    pairs = snapshot.state.get("put_backs", ())
    then, now = tuple((int(at), int(of)) for at, of in pairs), run.put_backs
    if then != now[: len(then)]:
        return -1
    return now[len(then)][1] if len(now) > len(then) else math.inf


class _State(NamedTuple):
    step: int
    stored: bool
    load: Callable[[], Snapshot]


def _states(run: Run, recording: Recording | None) -> Iterator[_State]:
    """Copies that undo or the recorder hold, and checkpoints that were written."""
    for copy in run.copies():
        yield _State(copy.step, False, lambda copy=copy: copy)  # type: ignore[misc]
    if recording is None:
        return
    with suppress(OSError):
        folder = recording.root / folder_layout.CHECKPOINTS
        for one in run_checkpoints.scan(folder, thorough=False):
            if one.sound:
                yield _State(one.step, True, partial(run_checkpoints.load, one))
