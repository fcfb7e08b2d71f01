"""Events: what happened, in order, none lost. The engine speaks last: buttons follow events."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.commands import Purpose
from dgn_engine.protocol.file_reading import FileReading, OpenQuestion
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.written_numbers import percent

ReadOn = tuple[int, int, str]  # probe examples, out of how many, of which set


@dataclass(frozen=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True)
class LayerInfo:
    """One gated layer: `kind` is 'dense' or 'conv'; `shape` (w,) or (channels, height, width)."""

    index: int  # 0-based
    name: str
    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ProbeSet:
    """The training examples that feed every kernel panel, sorted by class.

    The last `drawn` are the user's own: their indices and their class lie behind those of the data.
    """

    indices: tuple[int, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    digest: str  # sha256 of inputs and labels
    drawn: int = 0

    @property
    def classes(self) -> int:
        """How many the data have."""
        return len(self.class_names) - (self.drawn > 0)


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
class EngineReady(Event):
    """torch is loaded; this is what can be chosen."""

    catalogue: Catalogue
    torch_version: str


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
class Running(Event):
    """Training goes on."""

    step: int


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
class ProbeScalars(Event):
    """The scalars of a probe's reading, so that no point of a trace is lost with a frame."""

    step: int
    probe: str
    values: Mapping[str, float]
    examples: int = 0  # probe examples that were read; 0: all with which the run began
    of: int = 0  # all that there were, where fewer were read: 32 of 64 are not 32 that were chosen
    chosen: str = ""  # of which set, where not of that with which the run began

    @property
    def read_on(self) -> ReadOn:
        """Values with the same belong to one trace."""
        return self.examples, self.of, self.chosen


@dataclass(frozen=True)
class Rewired(Event):
    """The gate layers have a new order or rotation (empty lists: not rotated)."""

    step: int
    order: tuple[int, ...]
    rotation: tuple[int, ...] = ()  # of the gates of each value layer, in units
    shift: tuple[int, ...] = ()  # and in rows and columns of maps


@dataclass(frozen=True)
class SettingChanged(Event):
    """A setting changed: learning rate, β, value input and pace as they are now."""

    step: int
    learning_rate: float
    beta: float
    value_input: ValueInput
    pace: float


@dataclass(frozen=True)
class ProbeSetChanged(Event):
    """Another probe set was asked for, of so many examples; `digest` of the one that was chosen,
    `choice` as the setting `probe_set` has it."""

    step: int
    examples: int
    digest: str
    choice: str = ""


@dataclass(frozen=True)
class ProbesLeft(Event):
    """Nobody watches these probes any more: from here on their traces have no points."""

    step: int
    probes: tuple[str, ...]


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
class UndoChanged(Event):
    """What would be undone and redone next, in words; '' where there is nothing."""

    undo: str = ""
    redo: str = ""


@dataclass(frozen=True)
class WeightsTaken(Event):
    """The value network has the weights of a file; its optimiser state was forgotten."""

    step: int
    source: str  # 'resnet18.pth'
    layers: int  # how many weight layers were copied
    kept: tuple[str, ...] = ()  # layers that were left as they are: 'output'
    biases: bool = False  # they came with biases

    @property
    def sentence(self) -> str:
        words = [
            f"Value network at step {self.step:,}: weights of {self.source} in {self.layers:,} "
            f"layer{'' if self.layers == 1 else 's'}{', with its biases' if self.biases else ''}."
        ]
        if self.kept:
            words.append(f"Left as it was: {', '.join(self.kept)}.")
        words.append("Its optimiser state was forgotten; the gates go on as before.")
        return " ".join(words)


@dataclass(frozen=True)
class WeightsSaved(Event):
    """Both networks were written to this file."""

    step: int
    path: str


@dataclass(frozen=True)
class Refused(Event):
    """Something the user asked cannot be done; nothing was changed."""

    what: str  # the kind of command, in words: 'new run', 'swap to FL', 'drop of x.pt'
    reason: str


@dataclass(frozen=True)
class SettingsIgnored(Event):
    """Settings of the run that begins have no effect in it; a sentence for each."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Working(Event):
    """Something slow is in progress (reading data, downloading); `fraction` None: unknown.

    `can_cancel`: `CancelLoading` ends it.
    """

    what: str
    fraction: float | None = None
    can_cancel: bool = False

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        if self.fraction is None:
            return self.what
        return f"{self.what}, {percent(self.fraction, 0)}"


@dataclass(frozen=True)
class Failed(Event):
    """A fault of ours: one sentence and the traceback; the session lives on."""

    what: str
    traceback: str

    @classmethod
    def from_exception(cls, what: str, error: Exception) -> Failed:
        """A `UserError` is its own sentence; of any other exception the traceback is kept."""
        if isinstance(error, UserError):
            return cls(str(error), "")
        details = "".join(traceback.format_exception(error))
        return cls(f"{what}: {type(error).__name__}: {error}", details)


@dataclass(frozen=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerMatch:
    """The tensor that a layer of the network would receive, or why there is none."""

    layer: str
    needed: tuple[int, ...]
    tensor: str  # empty: nothing found
    found: tuple[int, ...] | None
    fits: bool
    remark: str = ""  # 'with bias', …


@dataclass(frozen=True)
class FileUseCheck:
    """Whether a listed file has this use: in one sentence, and layer by layer.

    `with_biases`: it has biases and the run has none; `BeginWithBiases` takes them. `remarks`: what
    was assumed or folded, or what the data give that it does not fit, in sentences.
    """

    fits: bool
    verdict: str
    matches: tuple[LayerMatch, ...] = ()
    with_biases: bool = False
    remarks: str = ""


@dataclass(frozen=True)
class FileListed(Event):
    """A checkpoint was read in a child process; nothing has been changed yet.

    `matches`, `fits` and `verdict` say what becomes of its gates, `weights` what of its weights in
    the value network; `network`: whether it is a network of its own on these examples.
    `questions`: what the file leaves open of that network, `reading`: what was said of it. Emitted
    again, with the same ticket, when tensors were picked for layers or a reading was said.
    """

    ticket: int
    path: str
    file_name: str
    tensors: tuple[TensorInfo, ...]
    matches: tuple[LayerMatch, ...]
    fits: bool
    verdict: str  # one sentence
    ignored: tuple[str, ...] = field(default=())
    weights: FileUseCheck = field(default=FileUseCheck(False, ""))
    network: FileUseCheck = field(default=FileUseCheck(False, ""))
    purpose: Purpose = ""  # what it was opened for; empty: not said yet
    picked: bool = False  # the tensors are those that the user picked
    with_biases: bool = False  # of its gates, as in `FileUseCheck`
    would_call: tuple[str, ...] = ()  # what Python would call to load it; nothing of it was run
    would_look_up: tuple[str, ...] = ()  # other names that are not known to be harmless, likewise
    would_import: tuple[str, ...] = ()  # modules of such names, likewise
    questions: tuple[OpenQuestion, ...] = ()
    reading: FileReading = field(default=FileReading())


@dataclass(frozen=True)
class FileClosed(Event):
    """The listed file was used or forgotten."""

    ticket: int


@dataclass(frozen=True)
class ComparisonOpened(Event):
    """A network, or a recorded run, is compared with the current run; it is not trained.

    Its readings come with the frames, as `compared`; `scores` are what its run recorded, up to
    `at_step` where one was asked for."""

    name: str  # 'resnet18.pth', 'run 2026-11-20 digits'
    about: str  # what it is, in words: 'ReLU · 4 gate layers · 21,450 weights · step 1,200'
    regime: str
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...] = ()
    step: int = 0  # that its weights belong to, where that is known
    scores: tuple[Measured, ...] = ()
    remark: str = ""  # what cannot be compared, in one sentence
    config: RunConfig | None = None  # of a recorded run, as it was then
    folder: str = ""  # of the run that it belongs to; '' for a file, and for a run not recorded
    at_step: int | None = None  # that was asked for: nothing later counts; None: as it is now
    number: int = 0  # of the comparison in its session, from 1; frames say it


@dataclass(frozen=True)
class ComparisonClosed(Event):
    """There is no comparison any more; `reason` where the user did not ask for that."""

    reason: str = ""


@dataclass(frozen=True)
class RunShown(Event):
    """A recorded run is shown as it was at this step; nothing is trained. `Resume` goes on."""

    name: str
    status: str
    step: int
    file_name: str = ""  # of the session file it comes from
    saved: str = ""
    window: str = "null"  # the window then, as JSON
    replaced: str = ""  # the folder of the run that ended for it

    @property
    def live(self) -> bool:
        """Another process writes it, and it is followed."""
        return self.status == "running" and not self.file_name


@dataclass(frozen=True)
class SessionSaved(Event):
    """The run as it stood at this step is in this file."""

    step: int
    path: str


@dataclass(frozen=True)
class RecordingPaused(Event):
    """The run's folder cannot be written; training goes on and writing is tried again."""

    reason: str  # one sentence
    step: int = 0


@dataclass(frozen=True)
class RecordingResumed(Event):
    """The folder is written again; measurements of the gap are written now, frames are not."""

    step: int
    lost: int = 0  # lines of the log that were too many to be held


@dataclass(frozen=True)
class RecordingMended(Event):
    """Somebody else changed or moved the run's folder; recording goes on."""

    remark: str  # a sentence or two: what was changed, and what was done
    step: int = 0
    folder: str = ""  # where the run lies now


@dataclass(frozen=True)
class RecordThinned(Event):
    """Old frames, and checkpoints before changes, were taken out of the run's folder, which has
    reached its limit; `frames` by first and last serial number of each stretch, `checkpoints` by
    name. `limit`: bytes of the folder.
    """

    step: int
    frames: tuple[tuple[int, int], ...]
    checkpoints: tuple[str, ...]
    limit: int

    @property
    def sentence(self) -> str:
        what = "frames" if self.frames else "checkpoints"
        what += " and checkpoints" if self.frames and self.checkpoints else ""
        return (
            f"The run's folder has reached its limit of {binary_size_in_words(self.limit)} at step "
            f"{self.step:,}: old {what} thin out from now on, the log stays whole. "
            "'dgn runs limits' and the settings of the window change the limit."
        )


@dataclass(frozen=True)
class RunContinued(Event):
    """A recorded run goes on from this step; what was recorded later does not count."""

    step: int
    remark: str = ""  # why it may differ from a run that was never interrupted; empty: it is equal
    folder: str = ""


@dataclass(frozen=True)
class HistoryReplayed(Event):
    """Past events of a recorded run, for panels to draw; they do not happen again.

    `began`: how the run began, where the `RunStarted` before this says how it goes on.
    """

    events: tuple[Event, ...]
    left_out: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # as in `View`
    began: RunStarted | None = None


@dataclass(frozen=True)
class Stopped(Event):
    """The thread has ended; nothing comes after this."""
