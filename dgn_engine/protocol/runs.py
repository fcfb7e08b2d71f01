"""Commands about recorded runs and sessions, and what is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Measured, RunStarted
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.byte_counts import binary_size_in_words

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Array

TRAINING = "training"  # source of loss and accuracy; every other source is a probe's id


SAMPLES = (Measured, ProbeScalars)  # many: they may wait, come together and change no state


_SCORES = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


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
class FramesRecorded(Event):
    """The frames of the run that is shown lie in its folder, on this machine.

    Whoever looks back reads them there (`dgn_engine.storage.runs.recorded_steps`), so that neither
    the engine's thread nor its process has to. `foreign`: others wrote them.
    """

    folder: str
    foreign: bool = False


@dataclass(frozen=True)
class ListRuns(Command):
    """List the user's recorded runs; `RunsListed` follows. Training goes on meanwhile."""

    title = "list the recorded runs"


@dataclass(frozen=True, kw_only=True)
class ListedFacts:
    """What is known of one recorded run. `name`: of its folder. `best`: test accuracy of its last
    regime, NaN where none is known, first reached at `best_step`. `given_name`, `notes`: the
    user's words, empty where there are none. `seconds`: how long it was written to, from a start
    to an end each time; `created`: ISO 8601, UTC; `bytes`: of all its files.

    `status`: 'running', 'finished', 'stopped', 'diverged', 'failed', 'interrupted', 'damaged'.
    `resumable`: it has a checkpoint. `trouble`: why a damaged run cannot be read, in a sentence; of
    any other what its log has lost.
    """

    name: str
    status: str
    step: int
    total_steps: int
    regime: str
    net: str
    data: str
    seed: int
    best: float
    resumable: bool
    created: str = ""
    best_step: int = 0
    seconds: float = 0.0
    bytes: int = 0
    given_name: str = ""
    notes: str = ""
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedRun(ListedFacts):
    """One folder among the user's runs. `touched`: when it was last written to, seconds since
    1970."""

    folder: str
    touched: float

    @property
    def shown_name(self) -> str:
        """What the user calls it, else the name of its folder."""
        return self.given_name or self.name


@dataclass(frozen=True)
class RunsListed(Event):
    """Every run among the user's, newest first. `limit`: bytes that all of them may take, 0 where
    there is no folder of runs.
    """

    root: str
    runs: tuple[RecordedRun, ...]
    limit: int = 0


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
class RunsThinned(Event):
    """The oldest runs were thinned out, or why not: `what` as sentences, `trouble` a line about
    each of the runs.
    """

    what: str
    trouble: str = ""


@dataclass(frozen=True)
class ExportRun(Command):
    """Write a recorded run into one file: .dgn (all of it) or .csv (its scores)."""

    title = "export {folder}"

    folder: str
    path: str


@dataclass(frozen=True)
class RunExported(Event):
    """A recorded run was written into one file; `what`: 'runs.csv: 12 scores.'"""

    what: str


@dataclass(frozen=True)
class ReadCurves(Command):
    """Read what these recorded runs wrote down over their steps; `CurvesRead` follows."""

    title = "read curves"

    folders: tuple[str, ...]


def scores_of(event: Measured) -> dict[str, float]:
    """What was measured, by the name of its curve."""
    fields = vars(event)
    return {name: fields[name] for name in _SCORES if fields[name] is not None}


@dataclass(frozen=True)
class RunCurves:
    """What one recorded run wrote down over its steps, to be drawn beside another run.

    `scalars[(source, name)]`: steps and values, source 'training' or a probe; `examples[probe]`:
    of how many probe examples these are. `spectrum`: the eigenvalues of the neural path kernel and
    their cumulative energy, as last recorded at `spectrum_step`, `spectrum_remark` says of how many
    examples and how exact; empty where they were not.
    """

    folder: str
    name: str
    scalars: Mapping[tuple[str, str], tuple[Array, Array]]
    spectrum: Mapping[str, Array] = field(default_factory=dict)
    spectrum_step: int = 0
    spectrum_remark: str = ""
    examples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CurvesRead(Event):
    """The curves of all runs that were asked for, in that order, in the place of those before."""

    runs: tuple[RunCurves, ...]


@dataclass(frozen=True)
class ShowRun(Command):
    """Show what this folder recorded; the run in progress ends, and is recorded itself.

    `discard`: also where it is not, and is lost.
    """

    title = "show {folder}"

    folder: str
    discard: bool = False


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
class SessionSaved(Event):
    """The run as it stood at this step is in this file."""

    step: int
    path: str


RunEnding = ShowRun | OpenSession | ContinueRun  # with the field `discard`


@dataclass(frozen=True)
class DiscardConfirmation(Event):
    """Not obeyed yet: the run in progress is not recorded, and would be lost at this step.

    `name`: of what would be shown, or (not `shown`) gone on with; `anyway`: the command that does
    it all the same.
    """

    step: int
    name: str
    shown: bool
    anyway: RunEnding


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
