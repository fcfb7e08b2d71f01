"""Commands that begin, steer and undo a run, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.config import RunConfig
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event, UndoPolicy
from dgn_engine.protocol.watching import ProbeSet, ProbeSetChanged
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.written_numbers import duration


@dataclass(frozen=True)
class LayerInfo:
    """One gated layer: `kind` is 'dense' or 'conv'; `shape` (w,) or (channels, height, width)."""

    index: int  # 0-based
    name: str
    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StartRun(Command):
    """Begin a new run with this configuration; the run in progress ends."""

    title = "start this run"

    config: RunConfig
    paused: bool = False


@dataclass(frozen=True)
class EstimateRun(Command):
    """Say what a run with this configuration would take; nothing is begun."""

    title = "estimate this run"

    config: RunConfig


@dataclass(frozen=True)
class RunEstimated(Event):
    """What a run takes.

    Attributes:
        config: The run; None for the one that begins.
        weights: Numbers of both networks, normalisations included.
        memory: Bytes at its peak.
        seconds: Of a training step; None where that cannot be said.
        measured: `seconds` was measured, not estimated.
        refusal: Why it cannot be carried out, one sentence; '' where it can.
    """

    weights: int = 0
    memory: int = 0
    seconds: float | None = None
    measured: bool = False
    refusal: str = ""
    config: RunConfig | None = None

    @property
    def sentence(self) -> str:
        """'1,234,570 weights, about 310 MB, about 2.1 ms a step (estimated)', or the refusal."""
        if self.refusal or not self.weights:
            return self.refusal
        words = f"{self.weights:,} weights, about {bytes_in_words(self.memory)}"
        if self.seconds is None:
            return words
        how = "measured" if self.measured else "estimated"
        return f"{words}, about {duration(self.seconds)} a step ({how})"


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins; everything about it that will not change."""

    run: int
    config: RunConfig
    regime: str  # the regime it begins in: FL begins with ReLU when it must pre-train
    device: str  # 'cpu', 'NVIDIA …'
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...]
    parameters_value: int
    parameters_feature: int
    train_examples: int
    test_examples: int
    classes: int
    steps_per_epoch: int
    total_steps: int  # 0: until stopped
    probe_set: ProbeSet
    paused: bool
    inspected: str = ""  # 'resnet18.pth': a network from a file, shown and not trained
    rotation: tuple[int, ...] = ()  # as in `Rewired`
    shift: tuple[int, ...] = ()
    assuming: str = ""  # 'ReLU': the activation that the user says and an inspected file does not
    accuracy: float | None = None  # of no use: recorded runs have it; `FileScored` says it
    accuracy_of: int = 0
    began_with: int = 0  # probe examples, where another number has been chosen since
    watched: str = ""  # 'ResNet of train.py': another program trains it, we only look (`watch`)


@dataclass(frozen=True)
class SettingsIgnored(Event):
    """Settings of the run that begins have no effect in it; a sentence for each."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class StepsNotCaptured(Event):
    """Steps on this card are taken one operation at a time, slower than as graphs."""

    step: int
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"From step {self.step:,} on, steps are not launched as CUDA graphs but one operation "
            f"at a time, which is slower and gives the same numbers: {self.reason}."
        )


@dataclass(frozen=True)
class CancelLoading(Command):
    """Stop reading data: what wanted them is refused, and the run in progress goes on. It is obeyed
    at once, not between two steps."""

    title = "stop reading data"


@dataclass(frozen=True)
class Measured(Event):
    """Loss and accuracy (0…1). Train: mean over the steps since the last; test: whole set."""

    step: int
    epoch: float
    train_loss: float
    train_accuracy: float
    test_loss: float | None = None
    test_accuracy: float | None = None


@dataclass(frozen=True)
class Resume(Command):
    title = "resume"


@dataclass(frozen=True)
class Advance(Command):
    """Take this many steps, then pause."""

    title = "advance"

    steps: int = 1


@dataclass(frozen=True)
class Running(Event):
    """Training goes on."""

    step: int


@dataclass(frozen=True)
class Pause(Command):
    """Stop between two steps, keep everything."""

    title = "pause"


@dataclass(frozen=True)
class Paused(Event):
    """Training has stopped between two steps."""

    step: int


@dataclass(frozen=True)
class Finished(Event):
    """The run reached its last epoch (it can be resumed for more)."""

    step: int


@dataclass(frozen=True)
class Diverged(Event):
    """A number of the run is no longer finite; it stands at this step.

    `what`: 'loss', of a training batch, or 'weights'. `last_finite`: the last step that is known to
    have had a finite loss, 0 where the first had none; None: not known. `back_to`: the step of the
    newest finite state that is kept, which `GoBack` puts back; None where none is. `stored`: it is
    a checkpoint of the run's folder, not a copy from before a change.
    """

    step: int
    what: str = "loss"
    last_finite: int | None = None
    back_to: int | None = None
    stored: bool = False

    @property
    def what_happened(self) -> str:
        """'Diverged at step 3,007: the loss is no longer finite.'"""
        lost = "the loss is" if self.what == "loss" else "weights are"
        return f"Diverged at step {self.step:,}: {lost} no longer finite."

    @property
    def sentence(self) -> str:
        """What happened, and how far back the newest finite state is."""
        said = self.what_happened
        if self.last_finite and self.what == "loss":
            said = f"{said[:-1]} (last: step {self.last_finite:,})."
        if self.back_to is None:
            return f"{said} No earlier state is kept: reset the run with a smaller learning rate."
        if self.last_finite is None or self.back_to < self.last_finite:
            kept = "checkpoint" if self.stored else "copy"
            said += f" The newest {kept} before is of step {self.back_to:,}."
        return said


@dataclass(frozen=True)
class Reset(Command):
    """Begin the current run again with the same configuration and seed."""

    title = "reset"


@dataclass(frozen=True)
class GoBack(Command):
    """Put a diverged run back to its newest finite state: weights, optimiser, regime, wiring and
    settings. The steps count on, and the run is paused."""

    title = "go back to the last finite state"
    steers = True


@dataclass(frozen=True)
class SwapRegime(Command):
    """Change the gating regime at the next step (THEORY §1, 'Swapping in mid-run').

    `restart_value` redraws the value network too; it is meant for FL, where it is the default.
    """

    title = "swap to {regime}"
    undo = UndoPolicy("regime {regime}")

    regime: str
    restart_value: bool = True


@dataclass(frozen=True)
class RegimeSwapped(Event):
    """The regime changed; each tuple names groups ('value weights', 'feature weights', …)."""

    step: int
    before: str
    after: str
    kept: tuple[str, ...]
    frozen: tuple[str, ...]
    redrawn: tuple[str, ...]
    copied: tuple[str, ...]
    source: str = ""  # 'resnet18.pth' where the gates came from a file
    parameters_feature: int = 0
    undone: str = ""  # 'Undo gates of resnet18.pth': both networks as they were …
    of_step: int = 0  # … at this step
    undone_steps: int | None = None  # that no longer count for the order of the data since; None:
    # not recorded (the versions before put only the networks back)

    @property
    def sentence(self) -> str:
        if self.undone:
            change = "" if self.before == self.after else f" ({self.before} → {self.after})"
            if self.of_step == self.step:
                return f"{self.undone}{change} at step {self.step:,}: as if it had not been done."
            return (
                f"{self.undone}{change}: networks, optimiser and dials are those of step "
                f"{self.of_step:,}, and the run goes on from step {self.step:,}."
            )
        parts = [
            f"{word}: {', '.join(names)}"
            for word, names in (
                ("kept", self.kept),
                ("copied", self.copied),
                ("redrawn", self.redrawn),
                ("frozen", self.frozen),
            )
            if names
        ]
        origin = f" with the gates of {self.source}" if self.source else ""
        became = "; ".join(parts)
        became = f" {became[:1].upper()}{became[1:]}." if became else ""
        return f"{self.before} → {self.after}{origin} at step {self.step:,}.{became}"


@dataclass(frozen=True)
class Rewire(Command):
    """Value layer l uses gate layer order[l] from the next step on (0-based permutation)."""

    title = "permute the gate layers"
    undo = UndoPolicy("order of the gate layers", setting="the order of the gate layers")

    order: tuple[int, ...]


@dataclass(frozen=True)
class Rotate(Command):
    """Rotate the gate layers from the next step on, the same for every example.

    The gates of value layer l by `rotation[l]` units, and in a map by `shift[l]` rows and columns;
    an empty list rotates nothing.
    """

    title = "rotate the gates"
    undo = UndoPolicy("rotation of the gates", setting="the rotation of the gates")

    rotation: tuple[int, ...]
    shift: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rewired(Event):
    """The gate layers have a new order or rotation (empty lists: not rotated)."""

    step: int
    order: tuple[int, ...]
    rotation: tuple[int, ...] = ()  # of the gates of each value layer, in units
    shift: tuple[int, ...] = ()  # and in rows and columns of maps


@dataclass(frozen=True)
class SetLearningRate(Command):
    title = "set the learning rate"
    undo = UndoPolicy("learning rate", setting="the learning rate", merges=True)

    learning_rate: float


@dataclass(frozen=True)
class SetBeta(Command):
    title = "set β"
    undo = UndoPolicy("β", setting="β", merges=True)

    beta: float


@dataclass(frozen=True)
class SetValueInput(Command):
    title = "set the value input"
    undo = UndoPolicy("value input", setting="the value input", merges=True)

    value_input: ValueInput


@dataclass(frozen=True)
class SetPace(Command):
    """Take at most this many steps a second; 0: no limit."""

    title = "set the pace"
    steers = True

    steps_per_second: float


@dataclass(frozen=True)
class SettingChanged(Event):
    """A setting changed: learning rate, β, value input and pace as they are now."""

    step: int
    learning_rate: float
    beta: float
    value_input: ValueInput
    pace: float


@dataclass(frozen=True)
class Undo(Command):
    """Put the run back to before its last change: weights, optimiser, regime, wiring, settings and
    order of the data. Of a change of the probe set, only that."""

    title = "undo"
    steers = True


@dataclass(frozen=True)
class UndoSetting(Command):
    """Put back only the order, rotation or setting that was changed last; weights and optimiser
    stay as they are."""

    title = "put only the setting back"
    steers = True


@dataclass(frozen=True)
class UndoMany(Command):
    """Undo so many changes, the newest first, or redo so many where the number is negative."""

    title = "undo {changes} changes"
    steers = True

    changes: int


@dataclass(frozen=True)
class Redo(Command):
    """Make the last change that was undone once more."""

    title = "redo"
    steers = True


@dataclass(frozen=True)
class UndoChanged(Event):
    """What would be undone and redone next, in words; '' where there is nothing."""

    undo: str = ""
    redo: str = ""


@dataclass(frozen=True)
class ListedChange:
    """One change in words ('regime FR-II'), and the step before which it was made.

    `setting`: what can be put back alone, with the weights kept: 'the learning rate'; else ''.
    """

    step: int
    what: str
    setting: str = ""


@dataclass(frozen=True)
class ChangesListed(Event):
    """All changes of the run that can be undone, the oldest first, and those that were undone and
    can be done again, the next one first."""

    done: tuple[ListedChange, ...] = ()
    undone: tuple[ListedChange, ...] = ()

    @property
    def setting(self) -> str:
        """What `UndoSetting` would put back: 'the learning rate'; '' where there is nothing."""
        return self.done[-1].setting if self.done else ""


Change = RegimeSwapped | Rewired | SettingChanged | ProbeSetChanged


def probe_digest_at(run: RunStarted, changes: tuple[Event, ...], step: int) -> str:
    """Of the probe set that a run was read on at a step, by the events of its log; '' where that
    cannot be told: another was chosen at just this step."""
    chosen = [one for one in changes if isinstance(one, ProbeSetChanged)]
    if any(one.step == step for one in chosen):
        return ""
    before = [one for one in chosen if one.step < step]
    return before[-1].digest if before else run.probe_set.digest
