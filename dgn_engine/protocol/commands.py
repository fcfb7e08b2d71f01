"""Commands: requests of the viewer, obeyed between two steps; the answer is an event.

A command declares here its words and how it is undone; its handler is in `session.engine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, Literal

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.model.choices import ValueInput
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.file_reading import FileReading

# What a file is opened for: its gates into Θ^f, its weights into Θ^v, to compare, or by itself.
Purpose = Literal["", "gates", "weights", "compare", "network"]


@dataclass(frozen=True)
class UndoPolicy:
    """How a change is undone. `what` it is, in words, with fields of the command in braces.

    `reads`: it changes only what is read, the probe set; else the whole run is put back, weights,
    optimiser and order of the data too. `setting`: what `UndoSetting` puts back alone, 'the
    learning rate'; '' where there is no such thing. `merges`: several of a kind in quick
    succession count as one change.
    """

    what: str
    setting: str = ""
    merges: bool = False
    reads: bool = False


@dataclass(frozen=True)
class Command:
    """What every command declares: its words, and whether it can be undone."""

    title: ClassVar[str]  # an infinitive, with fields in braces: 'continue {folder}'
    undo: ClassVar[UndoPolicy | None] = None
    steers: ClassVar[bool] = False  # it changes the run, though it is itself no change to undo

    @property
    def changes_run(self) -> bool:
        """Whether it changes what is in force in the run in progress: weights, regime, order,
        dials or probe set. Such a change is not made while one looks back."""
        return self.undo is not None or self.steers

    def in_words(self) -> str:
        """The title with the command's values; of folders and files only the last part."""
        values = {
            name: PurePath(value).name if name in ("folder", "path") else value
            for name, value in vars(self).items()
        }
        return self.title.format(**values)


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
class ContinueRun(Command):
    """Go on with the run that this folder recorded; the run in progress ends.

    `discard`: also where that is not recorded, and is lost.
    """

    title = "continue {folder}"

    folder: str
    paused: bool = False
    discard: bool = False


@dataclass(frozen=True)
class ContinueLast(Command):
    """Go on with the run that was left last; where there is none, begin this one."""

    title = "go on where you left"

    otherwise: RunConfig
    paused: bool = False


@dataclass(frozen=True)
class Resume(Command):
    title = "resume"


@dataclass(frozen=True)
class Pause(Command):
    """Stop between two steps, keep everything."""

    title = "pause"


@dataclass(frozen=True)
class Advance(Command):
    """Take this many steps, then pause."""

    title = "advance"

    steps: int = 1


@dataclass(frozen=True)
class Reset(Command):
    """Begin the current run again with the same configuration and seed."""

    title = "reset"


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
class GoBack(Command):
    """Put a diverged run back to its newest finite state: weights, optimiser, regime, wiring and
    settings. The steps count on, and the run is paused."""

    title = "go back to the last finite state"
    steers = True


@dataclass(frozen=True)
class Redo(Command):
    """Make the last change that was undone once more."""

    title = "redo"
    steers = True


@dataclass(frozen=True)
class ProbeRequest:
    """A probe that a panel shows, with its options (a chosen layer, a chosen unit)."""

    probe: str
    options: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True)
class Watch(Command):
    """Compute just these probes from now on; replaces the previous request."""

    title = "watch"

    requests: tuple[ProbeRequest, ...]


@dataclass(frozen=True)
class CancelReading(Command):
    """Do not make these readings better than they are now, those of a compared network either."""

    title = "cancel the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class CancelLoading(Command):
    """Stop reading data: what wanted them is refused, and the run in progress goes on. It is obeyed
    at once, not between two steps."""

    title = "stop reading data"


@dataclass(frozen=True)
class GoOnReading(Command):
    """Go on with readings that were cancelled, or that failed."""

    title = "go on with the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class SetProbeExamples(Command):
    """Choose so many probe examples, as a new run with this number would; all panels share them."""

    title = "choose {examples} probe examples"
    undo = UndoPolicy("number of probe examples", reads=True)

    examples: int


@dataclass(frozen=True)
class SetWatchShare(Command):
    """Let all that is not training take this share (0…1) of a run's time from now on."""

    title = "watch with a share of {share:.0%}"

    share: float


@dataclass(frozen=True)
class ReportWindow(Command):
    """What the window's thread has taken since the last report, in processor seconds, and in which
    process: it is charged to the budget of watching."""

    title = "report the window's time"

    drawing: float
    other: float
    process: int


@dataclass(frozen=True)
class OpenFile(Command):
    """List what a checkpoint holds and match it with the layers. Training goes on meanwhile."""

    title = "open {path}"

    path: str
    purpose: Purpose = ""


@dataclass(frozen=True)
class PickTensors(Command):
    """Match a listed file anew: one tensor for each weight layer, '' for none."""

    title = "match these tensors"

    ticket: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class SayReading(Command):
    """Say of a listed file what it does not say of its network, all of it anew; `FileListed`
    follows, or `ReadingRefused`."""

    title = "read the file so"

    ticket: int
    reading: FileReading


@dataclass(frozen=True)
class TakeGates(Command):
    """Copy the matched weights of the file listed under `ticket` into the feature network (FL)."""

    title = "copy the gates"
    undo = UndoPolicy("gates of {file}")

    ticket: int
    restart_value: bool = True


@dataclass(frozen=True)
class TakeWeights(Command):
    """Copy the matched weights of a listed file into the value network, under any regime."""

    title = "copy the weights"
    undo = UndoPolicy("weights of {file}")

    ticket: int


@dataclass(frozen=True)
class BeginWithBiases(Command):
    """Begin the current run anew with biases, and copy the gates or weights of a listed file that
    has some into it at once. Nothing changes where they would not fit."""

    title = "begin a run with biases"

    ticket: int
    purpose: Literal["gates", "weights"]
    restart_value: bool = True


@dataclass(frozen=True)
class CompareFile(Command):
    """Compare with the network of a listed file, on the same probe examples."""

    title = "compare"

    ticket: int


@dataclass(frozen=True)
class CompareRun(Command):
    """Compare with a recorded run: its scores, and its network as last saved or at this step."""

    title = "compare with {folder}"

    folder: str
    step: int | None = None


@dataclass(frozen=True)
class CloseComparison(Command):
    """Show the run alone again."""

    title = "close the comparison"


@dataclass(frozen=True)
class InspectFile(Command):
    """Show the network of a listed file without training it; the run in progress ends.

    `data`: on which examples; None: those of the run in progress.
    """

    title = "open it as a network"

    ticket: int
    data: DataConfig | None = None


@dataclass(frozen=True)
class CheckNetwork(Command):
    """Say whether the network of a listed file takes these data; `NetworkChecked` follows.

    They are read meanwhile, a newer request takes the place of an older one, and training goes on.
    """

    title = "check the data"

    ticket: int
    data: DataConfig


@dataclass(frozen=True)
class TrainOn(Command):
    """Begin a run with the weights of the network that is inspected, in one of the regimes that
    `TrainingOffered` names; the file is read anew, and must be the one that was opened."""

    title = "train on from this network"

    regime: str
    paused: bool = False


@dataclass(frozen=True)
class CloseFile(Command):
    title = "close the file"

    ticket: int


@dataclass(frozen=True)
class SaveWeights(Command):
    """Write both networks to this file (safetensors)."""

    title = "save {path}"

    path: str


@dataclass(frozen=True)
class ListRuns(Command):
    """List the user's recorded runs; `RunsListed` follows. Training goes on meanwhile."""

    title = "list the recorded runs"


@dataclass(frozen=True)
class NoteRun(Command):
    """Call a recorded run by this name, and keep these notes; `RunsListed` follows."""

    title = "note {folder}"

    folder: str
    name: str
    notes: str


@dataclass(frozen=True)
class DeleteRun(Command):
    """Delete what belongs to a recorded run, for good; `RunsListed` follows."""

    title = "delete {folder}"

    folder: str


@dataclass(frozen=True)
class ThinRuns(Command):
    """Thin out the oldest of the user's runs until all are under their limit; `RunsThinned` and
    `RunsListed` follow.
    """

    title = "thin out the oldest runs"


@dataclass(frozen=True)
class ExportRun(Command):
    """Write a recorded run into one file: .dgn (all of it) or .csv (its scores)."""

    title = "export {folder}"

    folder: str
    path: str


@dataclass(frozen=True)
class ReadCurves(Command):
    """Read what these recorded runs wrote down over their steps; `CurvesRead` follows."""

    title = "read curves"

    folders: tuple[str, ...]


@dataclass(frozen=True)
class ShowRun(Command):
    """Show what this folder recorded; the run in progress ends, and is recorded itself.

    `discard`: also where it is not, and is lost.
    """

    title = "show {folder}"

    folder: str
    discard: bool = False


@dataclass(frozen=True)
class OpenSession(Command):
    """Show what a session file holds, in the same way."""

    title = "open {path}"

    path: str
    discard: bool = False


@dataclass(frozen=True)
class SaveSession(Command):
    """Write the run in its present state into a session file; training goes on meanwhile.

    `window`: the layout of the window as JSON, given back when the file is opened.
    """

    title = "save {path}"

    path: str
    window: str = "null"


@dataclass(frozen=True)
class Shutdown(Command):
    """End the run and the thread."""

    title = "shutdown"


RunEnding = ShowRun | OpenSession | ContinueRun  # with the field `discard`
