"""Restore a recorded run at any of its steps.

Steps are repeated from the nearest earlier checkpoint, with the changes between them as logged.
Steps are bit-exact functions of the state before them, so the result is the state the run had.
Scores recorded on the way must be reproduced exactly; if they are not, as on another processor, the
step is refused.
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
from dgn_engine.training.recording import check_trained_here, restore_recorded
from dgn_engine.training.run import Report, Run
from dgn_engine.training.run_snapshot import BACK_FROM_DIVERGENCE, capture_run, load_earlier_state

REPORT_EVERY = 0.2  # seconds
FOR_BRANCH = "before branch"  # prefix of the reason why a branch's checkpoint is kept
_LoggedChange = (
    RegimeSwapped | WeightsTaken | Rewired | SettingChanged | ProbeSetChanged | BranchBegan
)
_Announced = Rewired | SettingChanged | ProbeSetChanged  # also emitted without a change


@dataclass(frozen=True)
class RecordedState:
    """A run between two steps.

    Attributes:
        run: The run.
        lines: Number of log lines written by then.
        remark: Why it may differ in the last bits from the recorded run, or ''.
    """

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
    """Restore a recorded run at a step, before anything was changed there.

    A checkpoint of that step is used directly if it was written before the first change there.
    Otherwise steps are repeated from the nearest earlier checkpoint or the seed, without emitting
    events.

    Args:
        reader: The run, which may still be writing.
        step: One of its steps.
        emit: Takes the events of the run from the step on.
        report: Called with a description of the progress, and the share done.
        examples: Examples of the configuration, if they are loaded already.
        after_changes: Whether to use the newest checkpoint of this step, including changes made
            there; preferably one written for a branch.

    Returns:
        The run, ready for its next step.

    Raises:
        UserError: The run has no such step, its data have changed, a change on the way cannot be
            repeated, a score differs from the recorded one, or there is no checkpoint of the step
            and `after_changes` needs one.
    """
    check_trained_here(reader.path, reader.info)
    last = reader.step
    if not 0 <= step <= last:
        steps = f"steps 0 to {last:,}" if last else "only step 0"
        raise UserError(
            f"{reader.name} has {steps}, not step {step:,}.",
            kind="no-such-step",
            value=step,
        )
    load = _load_changed if after_changes else _load_nearest
    base, snapshot = load(reader, step)
    exact = base is not None and base.step == step
    past = _LoggedSteps(lines=base.lines) if exact and base else _read_past(reader, base, step)
    while base is not None and (wanted := past.first_undone) < base.step:
        # An undo on the way returns to before this checkpoint: start before that state.
        if any(checkpoint.step == wanted and checkpoint.kept for checkpoint in reader.checkpoints):
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
        replay.repeat_steps(run, report)
    return RecordedState(run, past.lines, replay.remark)


def _load_nearest(reader: RunReader, step: int) -> tuple[StoredCheckpoint | None, Snapshot | None]:
    """Return the newest usable checkpoint up to a step and its content; None for the seed.

    A checkpoint of the step itself must be older than the first change there. Files the run has
    deleted meanwhile are skipped.
    """
    first = math.inf
    if any(checkpoint.step == step for checkpoint in reader.checkpoints):
        reader.find_checkpoint(step)  # refuses if a newer one of this step is damaged
        first = _first_change(reader, step)
    for checkpoint in reversed(
        [checkpoint for checkpoint in reader.checkpoints if checkpoint.step <= step]
    ):
        if (
            checkpoint.lines > first
            if checkpoint.step == step
            else _is_superseded(checkpoint, reader.log.lines)
        ):
            continue
        try:
            return checkpoint, run_checkpoints.load_checkpoint(checkpoint)
        except UserError:
            if checkpoint.step == step and checkpoint.path.exists():
                raise
    return None, None


def _first_change(reader: RunReader, step: int) -> float:
    """Return the log line of the first change at a step; infinite without one.

    Changes of a branch before its first checkpoint are part of the branch.
    """
    origin, begin = origin_of(reader.info), 0
    if origin is not None and origin.step == step:
        begin = min(
            checkpoint.lines for checkpoint in reader.checkpoints if checkpoint.step == step
        )
    state = RunState() if reader.start_event is None else RunState().after(reader.start_event)
    for line in reader.log.lines:
        event = event_of(line)
        if not isinstance(event, RegimeSwapped | WeightsTaken | _Announced):
            continue
        before, state = state, state.after(event)
        same = _settings_in_force(before) == _settings_in_force(state) and isinstance(
            event, _Announced
        )
        if line.seq >= begin and event.step == step and not same:
            return line.seq
    return math.inf


def _settings_in_force(state: RunState) -> tuple[object, ...]:
    """Return order, turns, probe set and dials, as far as events set them.

    Events that leave these as they are announce a start, not a change.
    """
    current, dials = (state.wiring, state.rotation, state.shift, state.probe_digest), state.settings
    return (
        current if dials is None else (*current, dials.learning_rate, dials.beta, dials.value_input)
    )


def _load_changed(reader: RunReader, step: int) -> tuple[StoredCheckpoint | None, Snapshot | None]:
    """Return the newest checkpoint of a step that was written for a branch, else the newest."""
    newest = reader.find_checkpoint(step)
    candidates = [checkpoint for checkpoint in reader.checkpoints if checkpoint.step == step]
    chosen = next(
        (
            checkpoint
            for checkpoint in reversed(candidates)
            if checkpoint.kept.startswith(FOR_BRANCH)
        ),
        newest,
    )
    return chosen, run_checkpoints.load_checkpoint(chosen)


def _is_superseded(checkpoint: StoredCheckpoint, lines: Sequence[LogLine]) -> bool:
    """Return whether the run later continued from before this checkpoint."""
    return any(
        line.name == CONTINUED and lines_before(line) < checkpoint.lines <= line.seq
        for line in lines
    )


@dataclass(frozen=True)
class _LoggedSteps:
    """Log of the steps to repeat: changes in order, and scores by step.

    `gap` is the step after which log lines are missing.
    """

    changes: tuple[_LoggedChange, ...] = ()
    scores: dict[int, Measured] = field(default_factory=dict)
    lines: int = 0
    gap: int | None = None

    @property
    def first_undone(self) -> float:
        """Return the earliest step that an undo on the way returns to; infinite without one."""
        return min(
            (
                change.of_step
                for change in self.changes
                if isinstance(change, RegimeSwapped) and change.undone
            ),
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
        line_step = line.fields.get("step", 0)
        if is_count(line_step) and line_step > step:
            break
        event = event_of(line)
        if isinstance(event, _LoggedChange) and event.step >= step:
            break  # the state is that before the change
        if isinstance(event, TrainedOn) and base is None:
            later = min((checkpoint.step for checkpoint in reader.checkpoints), default=None)
            first_kept = "" if later is None else f"; its first checkpoint is at step {later:,}"
            raise UserError(
                f"{reader.name} started from the weights of {event.source}, which are not stored"
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
    """The repetition of a recorded run's steps.

    Meanwhile its events are only compared with the log; afterwards they go to `emit`.
    """

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
        # States to return to. An undo returns to one right before a change, keyed by the change's
        # index; a return from divergence also to other steps, keyed by the change before them.
        self._before: list[tuple[int, Snapshot]] = []
        self._passed: list[tuple[int, Snapshot]] = []
        self._reported = time.monotonic()
        self.remark = ""

    def on_event(self, event: Event) -> None:
        """Emit an event, or compare it with the log while steps are repeated.

        Args:
            event: The event.
        """
        if not self._repeats:
            self._emit(event)
        elif isinstance(event, Measured):
            self._check_score(event)

    def repeat_steps(self, run: Run, report: Report) -> None:
        """Bring a run from its checkpoint, or its seed, to the step.

        Args:
            run: The run in the state of the checkpoint.
            report: Called with a description of the progress, and the share done.

        Raises:
            UserError: The state cannot be reproduced.
        """
        past = self._past
        if past.gap is not None:
            raise self._make_refusal("log lines in between are missing", past.gap)
        swaps = [logged for logged in past.changes if isinstance(logged, RegimeSwapped)]
        needed = {swap.of_step for swap in swaps if swap.undone}
        self._repeats = True
        run.evaluation.repeat_scores(past.scores)
        for index, change in enumerate(past.changes):
            for step in sorted(needed):
                # The base checkpoint is loaded when needed.
                begins = index == 0 and self._base is not None and step == run.step_count
                if run.step_count <= step < change.step and not begins:
                    self._advance_to(run, step, report)
                    if (copy := capture_run(run)) is not None:
                        self._passed.append((index - 1, copy))
            self._advance_to(run, change.step, report)
            if change.step in needed and (copy := capture_run(run)) is not None:
                self._before.append((index, copy))
            self._apply_change(change, index, run)
        self._advance_to(run, self._step, report)
        run.wait_for_scores()
        run.evaluation.repeat_scores(None)
        self._repeats = False

    def _advance_to(self, run: Run, step: int, report: Report) -> None:
        while run.step_count < step:
            if run.diverged:
                raise self._make_refusal(
                    f"the loss diverged at step {run.step_count:,}", self._begin
                )
            run.step()
            if time.monotonic() - self._reported >= REPORT_EVERY:
                self._reported = time.monotonic()
                done = (run.step_count - self._begin) / (self._step - self._begin)
                report(f"Repeating {self._step - self._begin:,} steps", done)

    def _check_score(self, measured: Measured) -> None:
        recorded = self._past.scores.get(measured.step)
        if recorded is None or _same_score(recorded, measured):
            return
        why = f" ({self.remark})" if self.remark else ""
        raise self._make_refusal(
            f"its steps are not reproduced on this machine: the train loss at step "
            f"{measured.step:,} is {measured.train_loss!r}, not {recorded.train_loss!r}{why}",
            self._begin,
        )

    def _apply_change(self, change: _LoggedChange, index: int, run: Run) -> None:
        try:
            match change:
                case RegimeSwapped() if change.undone:
                    self._undo_change(change, index, run)
                case RegimeSwapped(source=""):
                    run.control.swap_regime(change.after, restart_value=VALUE in change.redrawn)
                case RegimeSwapped() | WeightsTaken():
                    what = "gates" if isinstance(change, RegimeSwapped) else "weights"
                    why = f"{what} of {change.source} were loaded at step {change.step:,}"
                    raise self._make_refusal(why, change.step)
                case Rewired():
                    run.control.apply_wiring(change.order, change.rotation, change.shift)
                case SettingChanged(_, rate, beta, value_input, pace):
                    run.control.set_dials(rate, beta, value_input)
                    run.control.pace = pace
                case ProbeSetChanged():
                    run.choose_probe_examples(change.examples, change.choice)
                case BranchBegan():
                    if change.changes.seed is not None:
                        run.trainer.set_seed(change.changes.seed)
        except _RefusedStepError:
            raise
        except UserError as refusal:
            why = f"a change at step {change.step:,} cannot be repeated: {refusal}".rstrip(".")
            raise self._make_refusal(why, change.step) from None

    def _undo_change(self, change: RegimeSwapped, index: int, run: Run) -> None:
        """Restore the state before an undone change.

        It is a copy made on the way, or a checkpoint written then; ambiguous states are refused.
        """
        if change.undone_steps is None:
            why = (
                f"the undo at step {change.step:,} was recorded by an earlier version, with another"
            )
            raise self._make_refusal(f"{why} order of the data", change.step)
        passed = self._passed if change.undone == BACK_FROM_DIVERGENCE else ()
        copies = [*self._before, *passed]
        copied = [
            state
            for position, state in copies
            if position < index and _is_undo_state(state, change)
        ]
        written = [
            state for state in self._written_before(change) if _is_undo_state(state[1], change)
        ]
        states = (
            copied
            or [state for caused, state in written if caused]
            or [state for _, state in written]
        )
        if len(states) > 1:  # of one step: tell them apart by the settings that followed
            set_then = self._settings_after(index, run)
            states = [state for state in states if _settings_of(state) == set_then] or states
        if not states or not all(_same_state(states[0], state) for state in states[1:]):
            raise self._make_refusal(
                f"the state of step {change.of_step:,}, to which it returned at step "
                f"{change.step:,}, was not stored",
                change.step,
            )
        run.control.announce_change(change.undone)
        run.evaluation.restart_test()
        load_earlier_state(run, states[0])
        run.probed.invalidate_readings()

    def _settings_after(self, index: int, run: Run) -> tuple[object, ...]:
        """Return order, turns and dials after an undo: the current ones unless logged otherwise."""
        step = run.step_count
        turns, dials = run.control.wiring_state, run.control.dials
        for following in self._past.changes[index + 1 :]:
            match following:
                case Rewired() if following.step == step:
                    turns = following.order, following.rotation, following.shift
                case SettingChanged(_, rate, beta, value_input) if following.step == step:
                    return *turns, rate, beta, value_input
                case _:
                    break
        return *turns, *dials

    def _written_before(self, change: RegimeSwapped) -> list[tuple[bool, Snapshot]]:
        """Return checkpoints of the step an undo returns to, and whether a change caused each."""
        first = 0 if self._base is None else self._base.lines
        return [
            (checkpoint.kept.startswith("before"), run_checkpoints.load_checkpoint(checkpoint))
            for checkpoint in self._reader.checkpoints
            if checkpoint.step == change.of_step and checkpoint.lines <= first
        ]

    def _make_refusal(self, why: str, nearest: int) -> UserError:
        """Build the error that refuses the step.

        Args:
            why: The reason, as part of a sentence.
            nearest: Last earlier step that can be restored.
        """
        later = [step.step for step in self._reader.checkpoints if step.step > self._step]
        steps = [nearest, *sorted(later)[:1]]
        named = " and ".join(f"{step:,}" for step in steps)
        return _RefusedStepError(
            f"{self._reader.name} cannot be restored at step {self._step:,}: {why}. Nearest "
            f"available step{'s' if steps[1:] else ''}: {named}.",
            kind="not-repeatable",
            value=tuple(steps),
        )


class _RefusedStepError(UserError):
    """Refusal of a step that cannot be restored, with the nearest steps that can."""


def _is_undo_state(snapshot: Snapshot, undo: RegimeSwapped) -> bool:
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


def _same_state(first: Snapshot, second: Snapshot) -> bool:
    """Return whether an undo would restore the same: networks, optimiser, order and dials."""
    names = ("draws", "seed", "undone_steps", "wiring", "rotation", "shift", "pretrain_steps")
    dials = ("learning_rate", "beta", "epsilon", "value_input")
    return (
        all(first.state.get(name, 0) == second.state.get(name, 0) for name in names)
        and all(first.state["dials"][name] == second.state["dials"][name] for name in dials)
        and first.tensors.keys() == second.tensors.keys()
        and all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    )


def _same_score(first: Measured, second: Measured) -> bool:
    pairs = (first.train_loss, second.train_loss), (first.train_accuracy, second.train_accuracy)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
