"""Commands that start, change and undo a run, and the run's events."""

from __future__ import annotations

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event, UndoPolicy
from dgn_engine.protocol.watching import ProbeSet, ProbeSetChanged
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.written_numbers import format_duration


@dataclass(frozen=True)
class LayerInfo:
    """One gated layer: `kind` is 'dense' or 'conv', `shape` is (w,) or (channels, height,
    width)."""

    index: int  # 0-based
    name: str
    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StartRun(Command):
    """Start a new run with this configuration; the current run ends.

    Without `recorded` nothing of it is written until `KeepRun`.
    """

    title = "start this run"

    config: RunConfig
    paused: bool = False
    recorded: bool = True


@dataclass(frozen=True)
class EstimateRun(Command):
    """Estimate the cost of a run with this configuration, without starting it."""

    title = "estimate this run"

    config: RunConfig


@dataclass(frozen=True)
class RunEstimated(Event):
    """The estimated cost of a run.

    Attributes:
        config: The run; None if it is the one being started.
        weights: Parameters of both networks, normalisation layers included.
        memory: Peak memory in bytes.
        seconds: Per training step; None if unknown.
        measured: Whether `seconds` was measured rather than estimated.
        refusal: Why it cannot be run, one sentence; '' if it can.
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
        return f"{words}, about {format_duration(self.seconds)} a step ({how})"


@dataclass(frozen=True)
class RunStarted(Event):
    """A run starts; everything about it that will not change."""

    run: int
    config: RunConfig
    regime: str  # the initial regime: FL starts with ReLU if it must pre-train
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
    inspected: str = ""  # 'resnet18.pth': a network from a file, shown but not trained
    rotation: tuple[int, ...] = ()  # as in `Rewired`
    shift: tuple[int, ...] = ()
    assuming: str = ""  # 'ReLU': the activation, given by the user and not by the inspected file
    accuracy: float | None = None  # unused, but in recorded runs; see `FileScored`
    accuracy_of: int = 0
    began_with: int = 0  # initial number of probe examples, if it was changed since
    watched: str = ""  # 'ResNet of train.py': trained by another program, with `watch`
    unrecorded: bool = False  # not recorded until the user keeps it: a playground

    @property
    def network_name(self) -> str:
        """'fc 64×5' (width × weight layers), 'cnn4 128' (channels), 'vconv'."""
        name, widths = self.config.net.display_name, {layer.shape[0] for layer in self.layers}
        kinds = {layer.kind for layer in self.layers}
        if kinds == {"dense"} and len(widths) == 1:
            return f"{name} {widths.pop()}×{len(self.layers) + 1}"
        channels = dict(self.config.net.options).get("channels")
        if channels is None and kinds == {"conv"} and len(widths) == 1:
            channels = widths.pop()
        return f"{name} {channels}" if channels is not None else name


@dataclass(frozen=True)
class SettingsIgnored(Event):
    """Settings that have no effect in the run that is starting; a sentence for each."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class StepsNotCaptured(Event):
    """Steps on this GPU run one operation at a time, which is slower than as CUDA graphs."""

    step: int
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"From step {self.step:,} on, steps run one operation at a time, not as CUDA "
            f"graphs: {self.reason}. This is slower, but gives the same numbers."
        )


@dataclass(frozen=True)
class CancelLoading(Command):
    """Stop reading data: the command that needed them is refused, and the current run continues.

    It takes effect at once, not between two steps.
    """

    title = "stop reading data"


@dataclass(frozen=True)
class Measured(Event):
    """Loss and accuracy (0…1): train, the mean over the steps since the last; test, the
    whole set."""

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
    """Training continues."""

    step: int


@dataclass(frozen=True)
class Pause(Command):
    """Stop between two steps and keep everything."""

    title = "pause"


@dataclass(frozen=True)
class Paused(Event):
    """Training stopped between two steps."""

    step: int


@dataclass(frozen=True)
class Finished(Event):
    """The run reached its last epoch; it can be resumed for more."""

    step: int


@dataclass(frozen=True)
class Diverged(Event):
    """A number of the run is no longer finite; it stops at this step.

    `what`: 'loss', of a training batch, or 'weights'. `last_finite`: the last step known to have a
    finite loss, 0 if not even the first had one, None if unknown. `back_to`: the step of the newest
    finite state, which `GoBack` restores; None if there is none. `stored`: that state is a
    checkpoint in the run's folder, not a copy from before a change.
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
        """The event, and the step of the newest finite state."""
        text = self.what_happened
        if self.last_finite and self.what == "loss":
            text = f"{text[:-1]} (last: step {self.last_finite:,})."
        if self.back_to is None:
            return f"{text} There is no earlier state: reset the run with a smaller learning rate."
        if self.last_finite is None or self.back_to < self.last_finite:
            source = "checkpoint" if self.stored else "copy"
            text += f" The newest {source} before that is from step {self.back_to:,}."
        return text


@dataclass(frozen=True)
class Reset(Command):
    """Restart the current run with the same configuration and seed."""

    title = "reset"


@dataclass(frozen=True)
class GoBack(Command):
    """Restore the newest finite state of a diverged run: weights, optimiser, regime, wiring,
    settings.

    The step counter keeps running, and the run is paused.
    """

    title = "go back to the last finite state"
    steers = True


@dataclass(frozen=True)
class SwapRegime(Command):
    """Change the gating regime at the next step (theory §1, 'Swapping in mid-run').

    `restart_value` also redraws the value network, as is usual for FL.
    """

    title = "swap to {regime}"
    undo = UndoPolicy("regime {regime}")

    regime: str
    restart_value: bool = True


@dataclass(frozen=True)
class RegimeSwapped(Event):
    """The regime changed; each tuple lists groups ('value weights', 'feature weights', …)."""

    step: int
    before: str
    after: str
    kept: tuple[str, ...]
    frozen: tuple[str, ...]
    redrawn: tuple[str, ...]
    copied: tuple[str, ...]
    source: str = ""  # 'resnet18.pth' where the gates came from a file
    parameters_feature: int = 0
    undone: str = ""  # 'Undo gates of resnet18.pth': both networks are restored …
    of_step: int = 0  # … from this step
    undone_steps: int | None = None  # steps that no longer count for the order of the data; None:
    # not recorded (earlier versions restored only the networks)

    @property
    def sentence(self) -> str:
        if self.undone:
            change = "" if self.before == self.after else f" ({self.before} → {self.after})"
            if self.of_step == self.step:
                return f"{self.undone}{change} at step {self.step:,}: as if it never happened."
            return (
                f"{self.undone}{change}: networks, optimiser and settings are those of step "
                f"{self.of_step:,}, and the run continues from step {self.step:,}."
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
    """Make value layer l use gate layer `order[l]` from the next step on (0-based)."""

    title = "permute the gate layers"
    undo = UndoPolicy("gate order", setting="the gate order")

    order: tuple[int, ...]


@dataclass(frozen=True)
class Rotate(Command):
    """Rotate the gate layers from the next step on, the same for every example.

    The gates of value layer l are rotated by `rotation[l]` units and, in a feature map, by
    `shift[l]` rows and columns; empty lists do not rotate.
    """

    title = "rotate the gates"
    undo = UndoPolicy("gate rotation", setting="the gate rotation")

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
    """Take at most this many steps per second; 0: no limit."""

    title = "set the pace"
    steers = True

    steps_per_second: float


@dataclass(frozen=True)
class SettingChanged(Event):
    """A setting changed: the current learning rate, β, value input and pace."""

    step: int
    learning_rate: float
    beta: float
    value_input: ValueInput
    pace: float


@dataclass(frozen=True)
class Undo(Command):
    """Restore the run from before its last change: weights, optimiser, regime, wiring, settings and
    order of the data. If that changed the probe set, restore only the probe set."""

    title = "undo"
    steers = True


@dataclass(frozen=True)
class UndoSetting(Command):
    """Restore only the order, rotation or setting that was changed last; keep weights and
    optimiser."""

    title = "undo only the setting"
    steers = True


@dataclass(frozen=True)
class UndoMany(Command):
    """Undo this many changes, the newest first; if negative, redo as many."""

    title = "undo {changes} changes"
    steers = True

    changes: int


@dataclass(frozen=True)
class Redo(Command):
    """Redo the last change that was undone."""

    title = "redo"
    steers = True


@dataclass(frozen=True)
class UndoChanged(Event):
    """The next changes to undo and redo, in words; '' if there are none."""

    undo: str = ""
    redo: str = ""


@dataclass(frozen=True)
class ListedChange:
    """A change in words ('regime FR-II'), and the step before which it was made.

    `setting`: what can be restored on its own, keeping the weights, 'the learning rate'; or ''.
    """

    step: int
    what: str
    setting: str = ""


@dataclass(frozen=True)
class ChangesListed(Event):
    """All changes of the run that can be undone, oldest first, and those that can be redone, next
    first."""

    done: tuple[ListedChange, ...] = ()
    undone: tuple[ListedChange, ...] = ()

    @property
    def last_setting(self) -> str:
        """The setting that `UndoSetting` would restore, 'the learning rate'; '' if there is
        none."""
        return self.done[-1].setting if self.done else ""


Change = RegimeSwapped | Rewired | SettingChanged | ProbeSetChanged


def probe_digest_at(run: RunStarted, changes: tuple[Event, ...], step: int) -> str:
    """Return the digest of a run's probe set at a step, from the events of its log.

    It is '' if unknown, because another probe set was chosen at just this step.
    """
    changed = [event for event in changes if isinstance(event, ProbeSetChanged)]
    if any(event.step == step for event in changed):
        return ""
    before = [event for event in changed if event.step < step]
    return before[-1].digest if before else run.probe_set.digest
