"""The state of engine and run, computed from events: `RunState().after(event).after(event)…`.

Engine and window look up the current regime, wiring and settings here, whether a run is training,
and what is shown instead of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.branches import (
    BranchBegan,
    BranchStatus,
    CheckpointsListed,
    ComparedMoved,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.files import FileScored, TrainingOffered
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import (
    EngineAnswered,
    EngineReady,
    EngineSilent,
    Event,
    Failed,
    Refused,
    Stopped,
    Working,
)
from dgn_engine.protocol.runs import FramesRecorded, HistoryReplayed, RunShown
from dgn_engine.protocol.training import (
    Change,
    ChangesListed,
    Diverged,
    Finished,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    RunStarted,
    SettingChanged,
    StepsNotCaptured,
    UndoChanged,
)
from dgn_engine.protocol.watching import ProbeSetChanged

# The fields that describe a step of a run, not the engine.
_IN_FORCE = (
    *("step", "regime", "wiring", "rotation", "shift", "settings", "gates_source"),
    *("parameters_feature", "probe_examples", "probe_digest", "probe_set"),
)
Phase = Literal["starting", "idle", "running", "paused", "finished", "stopped"]


@dataclass(frozen=True)
class RunState:
    """The state after all events so far. `wiring`, `rotation` and `shift` are as in `Rewired`."""

    phase: Phase = "starting"
    catalogue: Catalogue | None = None
    run: RunStarted | None = None
    regime: str = ""
    wiring: tuple[int, ...] = ()
    rotation: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    settings: SettingChanged | None = None
    gates_source: str = ""  # the file that the gates were copied from: 'resnet18.pth'
    parameters_feature: int = 0
    step: int = 0
    working: str = ""  # something slow in progress: 'Reading mnist, 40 %'
    recorded: RunShown | None = None  # the recorded run that is shown; nothing is trained
    diverged: int | None = None  # the step at which the loss was no longer finite
    back_to: int | None = None  # the step of the finite state that `GoBack` would restore
    comparison: ComparisonOpened | None = None
    undo: str = ""  # what would be undone next, in words
    redo: str = ""
    probe_examples: int = 0  # the requested number
    probe_digest: str = ""  # of the current probe set
    probe_set: str = ""  # its choice, as in the setting
    scored: FileScored | None = None  # the accuracy of the inspected network
    training: TrainingOffered | None = None  # the regimes in which it can be trained
    silent: bool = False  # the engine's process does not respond
    unrecorded: bool = False  # the run is not recorded until the user keeps it
    origin: BranchBegan | None = None  # if the run is a branch
    branch: BranchStatus | None = None  # of the branch that trains, or trained, alongside the run
    checkpoints: CheckpointsListed | None = None  # where a branch can start, once listed
    changes: ChangesListed | None = None  # of the run, that can be undone or redone
    not_captured: StepsNotCaptured | None = None  # why steps are not CUDA graphs, on a GPU
    can_cancel: bool = False  # `CancelLoading` stops what `working` describes, if anything

    @property
    def regime_entry(self) -> RegimeEntry | None:
        return self._entry_of(self.regime)

    @property
    def inspected_file(self) -> str:
        """The file whose network is shown but not trained; '' while there is a run."""
        return self.run.inspected if self.run is not None else ""

    @property
    def is_ready(self) -> bool:
        return self.catalogue is not None and self.phase != "stopped"

    @property
    def shows_nothing(self) -> bool:
        """True if there is no run and no network that a file could be used for."""
        return self.run is None and self.recorded is None

    @property
    def has_run(self) -> bool:
        trains = self.run is not None and not self.inspected_file and not self.run.watched
        return trains and self.phase in ("running", "paused", "finished")

    @property
    def has_epochs(self) -> bool:
        """True if steps can be converted to epochs; a watched run may not know its epoch length."""
        return self.run is not None and not self.inspected_file and self.run.steps_per_epoch > 0

    @property
    def is_running(self) -> bool:
        return self.phase == "running"

    @property
    def is_paused(self) -> bool:
        """True if there is a run that is not training; a recorded run that is only shown does not
        count."""
        return self.run is not None and not self.is_running and self.recorded is None

    @property
    def epoch_steps(self) -> int:
        """The steps from here to the end of the current epoch, at least 1."""
        length = self.run.steps_per_epoch if self.run else 1
        return length - self.step % length if length > 0 else 1

    def current_config(self) -> RunConfig | None:
        """Return the run's configuration with the current value of every setting; None without a
        run."""
        if self.run is None:
            return None
        config, settings = self.run.config, self.settings or _settings_of(self.run)
        gating = replace(
            config.gating,
            regime=self.regime,
            wiring=self.wiring,
            rotation=self.rotation,
            shift=self.shift,
            beta=settings.beta,
            value_input=settings.value_input,
        )
        training = replace(
            config.training, learning_rate=settings.learning_rate, pace=settings.pace
        )
        seed = self.origin.changes.seed if self.origin is not None else None
        return replace(
            config,
            gating=gating,
            training=training,
            probe_examples=self.probe_examples,
            seed=config.seed if seed is None else seed,
            probe_set=self.probe_set,
        )

    def moved_to_step(self, step: int) -> RunState:
        """Return the state at the step of a frame; a frame from before a pause may arrive
        after it."""
        late = not self.is_running and step < self.step
        return self if late or step == self.step else replace(self, step=step)

    def with_past_settings(self, then: RunState) -> RunState:
        """Return this state with regime, wiring and settings of `then`, an earlier step of the same
        run.

        What the engine is doing (whether it trains, what can be undone) stays as it is now.
        """
        return replace(self, **{name: getattr(then, name) for name in _IN_FORCE})

    def after(self, event: Event) -> RunState:
        """Return the state after an event; `self` if the event changes nothing."""
        match event:
            case EngineReady(catalogue=catalogue):
                return replace(self, phase="idle", catalogue=catalogue)
            case RunStarted():
                return self._after_start(event)
            case FramesRecorded() if self.unrecorded:
                return replace(self, unrecorded=False)
            case RunShown(step=step):
                return replace(self, recorded=event, phase="paused", step=step)
            case Running(step=step):
                return replace(self, phase="running", step=step, working="")
            case Paused(step=step):
                return replace(self, phase="paused", step=step, working="")
            case Finished(step=step):
                return replace(self, phase="finished", step=step, working="")
            case Diverged(step=step, back_to=back):
                return replace(
                    self, phase="paused", step=step, working="", diverged=step, back_to=back
                )
            case RegimeSwapped():
                return replace(
                    self,
                    regime=event.after,
                    gates_source=event.source,
                    parameters_feature=event.parameters_feature,
                    # An undo restores weights from before the divergence.
                    diverged=None if event.undone else self.diverged,
                    back_to=None if event.undone else self.back_to,
                )
            case Rewired(order=order, rotation=rotation, shift=shift):
                return replace(self, wiring=order, rotation=rotation, shift=shift)
            case SettingChanged():
                return replace(self, settings=event)
            case ProbeSetChanged(examples=examples, digest=digest, choice=choice):
                return replace(self, probe_examples=examples, probe_digest=digest, probe_set=choice)
            case UndoChanged(undo=undo, redo=redo):
                return replace(self, undo=undo, redo=redo)
            case FileScored(run=run) if self.run is not None and run == self.run.run:
                return replace(self, scored=event)
            case TrainingOffered(run=run) if self.run is not None and run == self.run.run:
                return replace(self, training=event)
            case BranchBegan():
                return replace(self, origin=event)
            case BranchStatus():
                return replace(self, branch=event)
            case CheckpointsListed():
                return replace(self, checkpoints=event)
            case ChangesListed():
                return replace(self, changes=event)
            case ComparedMoved():
                return self._after_compared_moved(event)
            case ComparisonOpened():
                return replace(self, comparison=event)
            case ComparisonClosed():
                return replace(self, comparison=None)
            case HistoryReplayed(events=events):
                state = self
                for past in events:
                    state = state.after(past)
                return state
            case Working():
                return replace(self, working=event.sentence, can_cancel=event.can_cancel)
            case Refused() | Failed() if self.working:
                return replace(self, working="")
            case StepsNotCaptured():
                return replace(self, not_captured=event)
            case EngineSilent() | EngineAnswered():
                return replace(self, silent=isinstance(event, EngineSilent))
            case Stopped():
                return replace(self, phase="stopped", silent=False)
            case _:
                return self

    def _after_start(self, run: RunStarted) -> RunState:
        entry, gates_from = self._entry_of(run.regime), run.config.gating.gates_from
        takes_gates = entry is not None and entry.takes_gates
        return RunState(
            phase="paused" if run.paused else "running",
            catalogue=self.catalogue,
            branch=self.branch,
            run=run,
            regime=run.regime,
            wiring=run.wiring,
            rotation=run.rotation,
            shift=run.shift,
            settings=_settings_of(run),
            gates_source=PurePath(gates_from).name if takes_gates else "",
            parameters_feature=run.parameters_feature,
            probe_examples=run.config.probe_examples,
            probe_digest=run.probe_set.digest,
            probe_set=run.config.probe_set,
            unrecorded=run.unrecorded,
        )

    def _after_compared_moved(self, event: ComparedMoved) -> RunState:
        """Return the state after the compared network, which trains elsewhere, has moved to another
        step."""
        previous = self.comparison
        if previous is None:
            return self
        moved = replace(
            previous,
            step=event.step,
            regime=event.regime or previous.regime,
            wiring=event.wiring or previous.wiring,
            config=event.config or previous.config,
        )
        return replace(self, comparison=moved)

    def _entry_of(self, regime: str) -> RegimeEntry | None:
        regimes = self.catalogue.regimes if self.catalogue is not None else ()
        return next((entry for entry in regimes if entry.id == regime), None)


@dataclass(frozen=True)
class RunChanges:
    """The start of a run and its changes since, in the order of its log."""

    began: RunStarted
    changes: tuple[Change, ...] = ()
    catalogue: Catalogue | None = None

    def state_at(self, step: int, frame: Frame | None = None) -> RunState:
        """Return the state of the run at a step: regime, order, settings, probe set.

        A change at step s happens between two steps: a reading at s may be from before or after it.
        Given a frame of the step, the state is the last one at that step with the frame's regime,
        order and probe set; otherwise the one after all changes at the step.

        Args:
            step: A step that the run has reached.
            frame: The recorded frame of this step; None if there is none.

        Returns:
            The state at that step; its phase is that of a run that has just started.
        """
        earlier: dict[type[Change], Change] = {}  # the last of each kind; kinds are independent
        at_step: list[Change] = []
        for change in self.changes:
            if change.step < step:
                earlier[type(change)] = change
            elif change.step == step:
                at_step.append(change)
        state = RunState(catalogue=self.catalogue).after(self.began)
        state = _after_all(state, earlier.values())[-1]
        states = _after_all(state, at_step)
        state_then = next(
            (candidate for candidate in reversed(states) if _frame_agrees(candidate, frame)), None
        )
        if state_then is None and frame is not None:  # the log has gaps; the frame knows its regime
            wiring = frame.wiring or states[-1].wiring
            state_then = replace(states[-1], regime=frame.regime, wiring=wiring)
        return replace(state_then or states[-1], step=step)


def _after_all(state: RunState, changes: Iterable[Change]) -> list[RunState]:
    """Return the state before the changes, and after each of them."""
    states = [state]
    for change in changes:
        states.append(states[-1].after(change))
    return states


def _frame_agrees(state: RunState, frame: Frame | None) -> bool:
    """Return whether a frame may belong to a state; what the frame lacks is not compared."""
    if frame is None or not frame.regime:
        return True
    digests = frame.probe_digest, state.probe_digest
    return (
        frame.regime == state.regime
        and (not frame.wiring or frame.wiring == state.wiring)
        and (not all(digests) or digests[0] == digests[1])
    )


def _settings_of(run: RunStarted) -> SettingChanged:
    config = run.config
    return SettingChanged(
        step=0,
        learning_rate=config.training.learning_rate,
        beta=config.gating.beta,
        value_input=config.gating.value_input,
        pace=config.training.pace,
    )
