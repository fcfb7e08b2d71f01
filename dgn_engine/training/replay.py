"""A recorded run at any of its steps: its nearest checkpoint before that step, and from there its
own steps once more, with what was changed between them as its log has it.

Steps are bit-exact functions of the state before them, so that the state is the one that the run
had. What the run recorded on the way (its train scores) must come out equal; where it does not, as
on another processor, the step is refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from dgn_engine.data import Examples
from dgn_engine.errors import UserError
from dgn_engine.model.regime_entry import VALUE
from dgn_engine.protocol.branches import BranchBegan
from dgn_engine.protocol.files import TrainedOn, WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RecordingResumed
from dgn_engine.protocol.training import Measured, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.branch_origin import origin_of
from dgn_engine.storage.runs.log import CONTINUED, LOST, LogLine, event_of
from dgn_engine.storage.runs.log_summary import lines_before
from dgn_engine.storage.runs.run_checkpoints import Snapshot, StoredCheckpoint
from dgn_engine.storage.runs.run_ranges import is_count
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import check_ours, restore_recorded
from dgn_engine.training.run import Report, Run
from dgn_engine.training.run_snapshot import BACK_FROM_DIVERGENCE, capture, go_back

REPORT_EVERY = 0.2  # seconds
FOR_BRANCH = "before branch"  # why a checkpoint is kept at which one begins
_LoggedChange = (
    RegimeSwapped | WeightsTaken | Rewired | SettingChanged | ProbeSetChanged | BranchBegan
)
_Announced = Rewired | SettingChanged | ProbeSetChanged  # … also where nothing is changed


@dataclass(frozen=True)
class RecordedState:
    """A run between two steps. `lines`: how many lines of its log were written by then; `remark`:
    why it may differ in the last bits from the machine that recorded it, '' where it does not."""

    run: Run
    lines: int
    remark: str


def recorded_run_at(
    reader: RunReader,
    step: int,
    emit: Callable[[Event], None],
    report: Report,
    examples: Examples | None = None,
    *,
    after_changes: bool = False,
) -> RecordedState:
    """Return a recorded run as it came to a step, before anything was changed there.

    A checkpoint of just this step is taken as it is, if it was written before the first change
    there. Else the steps from the nearest one before, or from the seed, are taken once more; what
    happens then is not emitted.

    Args:
        reader: The run, which may be written meanwhile.
        step: One of its steps.
        emit: Takes the events of the run from the step on.
        report: Is called with what is in progress and how much of it is done.
        examples: Those of its configuration, where they have been loaded already.
        after_changes: Take the newest checkpoint of this step, with what was changed there before
            it was written; the one that was written for a branch, where there is one.

    Raises:
        UserError: the step is not one of the run, its data are others now, a change on the way
            cannot be repeated, a score comes out other than it was recorded, or there is no
            checkpoint of the step and `after_changes` asks for one.
    """
    check_ours(reader.path, reader.info)
    last = reader.step
    if not 0 <= step <= last:
        steps = f"steps 0 to {last:,}" if last else "no step but 0"
        raise UserError(
            f"{reader.name} has {steps}, and none of number {step:,}.",
            kind="no-such-step",
            value=step,
        )
    load = _load_changed if after_changes else _load_nearest
    base, snapshot = load(reader, step)
    exact = base is not None and base.step == step
    past = _LoggedSteps(lines=base.lines) if exact and base else _read_past(reader, base, step)
    while base is not None and (wanted := past.first_undone) < base.step:
        # An undo on the way goes back to before this checkpoint: that state is made on the way.
        if any(one.step == wanted and one.kept for one in reader.checkpoints):
            break
        base, snapshot = _load_nearest(reader, int(wanted) - 1)
        past = _read_past(reader, base, step)
    replay = _Replay(reader, base, step, past, emit)
    run = Run(
        1,
        reader.config,
        replay.on_event,
        report,
        live=False,
        recorded=snapshot is not None,
        examples=examples,
    )
    replay.remark = restore_recorded(run, snapshot, reader.path, reader.info)
    if not exact:
        replay.repeat(run, report)
    return RecordedState(run, past.lines, replay.remark)


def _load_nearest(reader: RunReader, step: int) -> tuple[StoredCheckpoint | None, Snapshot | None]:
    """The newest checkpoint before a step, or of it and before the first change there, with what
    it holds; None for the seed. One that its run has removed meanwhile is left out."""
    first = math.inf
    if any(one.step == step for one in reader.checkpoints):
        reader.checkpoint(step)  # refuses where a newer one of this step is damaged
        first = _first_change(reader, step)
    for one in reversed([one for one in reader.checkpoints if one.step <= step]):
        if one.lines > first if one.step == step else _is_superseded(one, reader.log.lines):
            continue
        try:
            return one, run_checkpoints.load(one)
        except UserError:
            if one.step == step and one.path.exists():
                raise
    return None, None


def _first_change(reader: RunReader, step: int) -> float:
    """The number of the log's line that has the first change at a step; infinite without one. What
    is changed where a branch begins, before its first checkpoint, is part of the branch."""
    origin, begin = origin_of(reader.info), 0
    if origin is not None and origin.step == step:
        begin = min(one.lines for one in reader.checkpoints if one.step == step)
    state = RunState() if reader.started is None else RunState().after(reader.started)
    for line in reader.log.lines:
        event = event_of(line)
        if not isinstance(event, RegimeSwapped | WeightsTaken | _Announced):
            continue
        before, state = state, state.after(event)
        same = _in_force(before) == _in_force(state) and isinstance(event, _Announced)
        if line.seq >= begin and event.step == step and not same:
            return line.seq
    return math.inf


def _in_force(state: RunState) -> tuple[object, ...]:
    """Order, turns, probe set and dials: what a run says once more when it begins or goes on is no
    change."""
    said, dials = (state.wiring, state.rotation, state.shift, state.probe_digest), state.settings
    return said if dials is None else (*said, dials.learning_rate, dials.beta, dials.value_input)


def _load_changed(reader: RunReader, step: int) -> tuple[StoredCheckpoint | None, Snapshot | None]:
    """The newest checkpoint of a step that was written for a branch, else the newest of it."""
    newest = reader.checkpoint(step)
    there = [one for one in reader.checkpoints if one.step == step]
    found = next((one for one in reversed(there) if one.kept.startswith(FOR_BRANCH)), newest)
    return found, run_checkpoints.load(found)


def _is_superseded(checkpoint: StoredCheckpoint, lines: Sequence[LogLine]) -> bool:
    """Whether the run went on from before a checkpoint after that was written."""
    return any(
        line.name == CONTINUED and lines_before(line) < checkpoint.lines <= line.seq
        for line in lines
    )


@dataclass(frozen=True)
class _LoggedSteps:
    """What a log says of the steps that are repeated: what was changed, in this order, and the
    scores by their steps. `gap`: the step after which lines of it are lost."""

    changes: tuple[_LoggedChange, ...] = ()
    scores: dict[int, Measured] = field(default_factory=dict)
    lines: int = 0
    gap: int | None = None

    @property
    def first_undone(self) -> float:
        """The earliest step to which an undo among the changes goes back; infinite without one."""
        return min(
            (one.of_step for one in self.changes if isinstance(one, RegimeSwapped) and one.undone),
            default=math.inf,
        )


def _read_past(reader: RunReader, base: StoredCheckpoint | None, step: int) -> _LoggedSteps:
    changes: list[_LoggedChange] = []
    scores: dict[int, Measured] = {}
    lines = first = 0 if base is None else base.lines
    reached = 0 if base is None else base.step
    gap: int | None = None
    for line in reader.log.lines:
        if line.seq < first:
            continue
        at = line.fields.get("step", 0)
        if is_count(at) and at > step:
            break
        event = event_of(line)
        if isinstance(event, _LoggedChange) and event.step >= step:
            break  # the state is that before it
        if isinstance(event, TrainedOn) and base is None:
            later = min((one.step for one in reader.checkpoints), default=None)
            first_kept = "" if later is None else f"; its first checkpoint is of step {later:,}"
            raise UserError(
                f"{reader.name} began with the weights of {event.source}, which it does not keep"
                f"{first_kept}."
            )
        if line.name == LOST or (isinstance(event, RecordingResumed) and event.lost):
            gap = reached if gap is None else gap
        if isinstance(event, _LoggedChange):
            changes.append(event)
        elif isinstance(event, Measured):
            scores[event.step] = event
            reached = event.step
        lines = line.seq + 1
    return _LoggedSteps(tuple(changes), scores, lines, gap)


class _Replay:
    """Takes the steps of a recorded run once more. Until that is done its events go nowhere but
    into the comparison with what was recorded; then to `emit`."""

    def __init__(
        self,
        reader: RunReader,
        base: StoredCheckpoint | None,
        step: int,
        past: _LoggedSteps,
        emit: Callable[[Event], None],
    ) -> None:
        self._reader, self._base, self._step, self._past = reader, base, step, past
        self._emit = emit
        self._begin = 0 if base is None else base.step
        self._repeats = False
        # States to go back to. An undo goes to one right before a change, by the change's place;
        # going back from divergence also to one where none was made, by that of the change before.
        self._before: list[tuple[int, Snapshot]] = []
        self._passed: list[tuple[int, Snapshot]] = []
        self._reported = time.monotonic()
        self.remark = ""

    def on_event(self, event: Event) -> None:
        if not self._repeats:
            self._emit(event)
        elif isinstance(event, Measured):
            self._compare(event)

    def repeat(self, run: Run, report: Report) -> None:
        """Bring the run from its checkpoint, or its seed, to the step."""
        past = self._past
        if past.gap is not None:
            raise self._refusal("lines of its log are lost on the way", past.gap)
        swaps = [one for one in past.changes if isinstance(one, RegimeSwapped)]
        needed = {swap.of_step for swap in swaps if swap.undone}
        self._repeats = True
        run.evaluation.repeat(past.scores)
        for place, change in enumerate(past.changes):
            for step in sorted(needed):
                # The checkpoint that this begins with is read where it is needed.
                begins = place == 0 and self._base is not None and step == run.step_count
                if run.step_count <= step < change.step and not begins:
                    self._advance(run, step, report)
                    if (copy := capture(run)) is not None:
                        self._passed.append((place - 1, copy))
            self._advance(run, change.step, report)
            if change.step in needed and (copy := capture(run)) is not None:
                self._before.append((place, copy))
            self._carry_out(change, place, run)
        self._advance(run, self._step, report)
        run.settle()
        run.evaluation.repeat(None)
        self._repeats = False

    def _advance(self, run: Run, step: int, report: Report) -> None:
        while run.step_count < step:
            if run.diverged:
                raise self._refusal(f"the loss diverged at step {run.step_count:,}", self._begin)
            run.step()
            if time.monotonic() - self._reported >= REPORT_EVERY:
                self._reported = time.monotonic()
                done = (run.step_count - self._begin) / (self._step - self._begin)
                report(f"Repeating {self._step - self._begin:,} steps", done)

    def _compare(self, measured: Measured) -> None:
        recorded = self._past.scores.get(measured.step)
        if recorded is None or _same_score(recorded, measured):
            return
        why = f" ({self.remark})" if self.remark else ""
        raise self._refusal(
            f"its steps do not come out here as they were recorded: the train loss at step "
            f"{measured.step:,} is {measured.train_loss!r}, not {recorded.train_loss!r}{why}",
            self._begin,
        )

    def _carry_out(self, change: _LoggedChange, place: int, run: Run) -> None:
        try:
            match change:
                case RegimeSwapped() if change.undone:
                    self._undo(change, place, run)
                case RegimeSwapped(source=""):
                    run.control.swap(change.after, restart_value=VALUE in change.redrawn)
                case RegimeSwapped() | WeightsTaken():
                    what = "gates" if isinstance(change, RegimeSwapped) else "weights"
                    why = f"{what} of {change.source} came in at step {change.step:,}"
                    raise self._refusal(why, change.step)
                case Rewired():
                    run.control.wire(change.order, change.rotation, change.shift)
                case SettingChanged(_, rate, beta, value_input, pace):
                    run.control.set_dials(rate, beta, value_input)
                    run.control.pace = pace
                case ProbeSetChanged():
                    run.choose_probe_examples(change.examples, change.choice)
                case BranchBegan():
                    if change.changes.seed is not None:
                        run.trainer.reseed(change.changes.seed)
        except _RefusedStepError:
            raise
        except UserError as refusal:
            why = f"a change at step {change.step:,} cannot be repeated: {refusal}".rstrip(".")
            raise self._refusal(why, change.step) from None

    def _undo(self, change: RegimeSwapped, place: int, run: Run) -> None:
        """Go back to the state before what was undone: a copy that was made on the way, or the
        checkpoint that was written then; refused where there are several that differ."""
        if change.undone_steps is None:
            why = f"the undo at step {change.step:,} is of an earlier version, which kept the order"
            raise self._refusal(f"{why} of the data as it was", change.step)
        passed = self._passed if change.undone == BACK_FROM_DIVERGENCE else ()
        copies = [*self._before, *passed]
        made = [one for at, one in copies if at < place and _fits(one, change)]
        written = [one for one in self._written_before(change) if _fits(one[1], change)]
        states = made or [one for kept, one in written if kept] or [one for _, one in written]
        if len(states) > 1:  # of one step: the dials that followed tell them apart
            set_then = self._settings_after(place, run)
            states = [one for one in states if _settings_of(one) == set_then] or states
        if not states or not all(_same_state(states[0], one) for one in states[1:]):
            raise self._refusal(
                f"the state of step {change.of_step:,}, to which it was put back at step "
                f"{change.step:,}, is not kept",
                change.step,
            )
        run.control.announce_change(change.undone)
        run.evaluation.restart()
        go_back(run, states[0])
        run.probed.invalidate_readings()

    def _settings_after(self, place: int, run: Run) -> tuple[object, ...]:
        """Order, turns and dials after an undo: as they are, but for what the log says next."""
        step = run.step_count
        turns, dials = run.control.wires, run.control.dials
        for next_one in self._past.changes[place + 1 :]:
            match next_one:
                case Rewired() if next_one.step == step:
                    turns = next_one.order, next_one.rotation, next_one.shift
                case SettingChanged(_, rate, beta, value_input) if next_one.step == step:
                    return *turns, rate, beta, value_input
                case _:
                    break
        return *turns, *dials

    def _written_before(self, change: RegimeSwapped) -> list[tuple[bool, Snapshot]]:
        """Checkpoints of the step to which an undo goes back, and whether a change asked for it."""
        first = 0 if self._base is None else self._base.lines
        return [
            (one.kept.startswith("before"), run_checkpoints.load(one))
            for one in self._reader.checkpoints
            if one.step == change.of_step and one.lines <= first
        ]

    def _refusal(self, why: str, nearest: int) -> UserError:
        """`nearest`: the last step before that can be had."""
        later = [one.step for one in self._reader.checkpoints if one.step > self._step]
        steps = [nearest, *sorted(later)[:1]]
        named = " and ".join(f"{one:,}" for one in steps)
        return _RefusedStepError(
            f"{self._reader.name} cannot be brought to step {self._step:,}: {why}. The nearest "
            f"step{'s' if steps[1:] else ''} that can be had: {named}.",
            kind="not-repeatable",
            value=tuple(steps),
        )


class _RefusedStepError(UserError):
    """Why a step cannot be had, with the nearest ones that can."""


def _fits(snapshot: Snapshot, undo: RegimeSwapped) -> bool:
    state = snapshot.state
    undone = undo.step - snapshot.step + state.get("undone_steps", 0)
    same = snapshot.step == undo.of_step and undone == undo.undone_steps
    return same and state["regime"] == undo.after


def _settings_of(snapshot: Snapshot) -> tuple[object, ...]:
    state, dials = snapshot.state, snapshot.state["dials"]
    turns = [tuple(state[name]) if any(state[name]) else () for name in ("rotation", "shift")]
    return (
        tuple(state["wiring"]),
        *turns,
        dials["learning_rate"],
        dials["beta"],
        dials["value_input"],
    )


def _same_state(one: Snapshot, other: Snapshot) -> bool:
    """Whether an undo would put back the same: networks, optimiser, order and dials."""
    names = ("draws", "seed", "undone_steps", "wiring", "rotation", "shift", "pretrain_steps")
    dials = ("learning_rate", "beta", "epsilon", "value_input")
    return (
        all(one.state.get(name, 0) == other.state.get(name, 0) for name in names)
        and all(one.state["dials"][name] == other.state["dials"][name] for name in dials)
        and one.tensors.keys() == other.tensors.keys()
        and all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    )


def _same_score(one: Measured, other: Measured) -> bool:
    pairs = (one.train_loss, other.train_loss), (one.train_accuracy, other.train_accuracy)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
