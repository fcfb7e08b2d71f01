"""Commands about recorded runs and sessions, and their events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Measured, RunStarted
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.byte_counts import binary_size_in_words

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Array

TRAINING = "training"  # the source of loss and accuracy; any other source is the id of a probe


SAMPLES = (Measured, ProbeScalars)  # frequent: they may wait and be batched, and change no state


_TAG = re.compile(r"(?<!\S)#([\w./+-]*\w)")
_SCORES = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


@dataclass(frozen=True)
class ContinueRun(Command):
    """Resume the run recorded in this folder; the current run ends.

    `discard`: even if the current run is not recorded and would be lost.
    """

    title = "continue {folder}"

    folder: str
    paused: bool = False
    discard: bool = False


@dataclass(frozen=True)
class ContinueLast(Command):
    """Resume the run that was left last; if there is none, start this one."""

    title = "resume the last run"

    otherwise: RunConfig
    paused: bool = False


@dataclass(frozen=True)
class RunContinued(Event):
    """A recorded run continues from this step; anything recorded later is dropped."""

    step: int
    remark: str = ""  # why it may differ from an uninterrupted run; empty: it is identical
    folder: str = ""


@dataclass(frozen=True)
class HistoryReplayed(Event):
    """Past events of a recorded run, for panels to draw; they do not happen again.

    `began` is how the run started, if the preceding `RunStarted` describes how it continues.
    """

    events: tuple[Event, ...]
    left_out: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # as in `View`
    began: RunStarted | None = None


@dataclass(frozen=True)
class FramesRecorded(Event):
    """The frames of the shown run are in its folder, on this machine.

    The viewer reads earlier ones there (`dgn_engine.storage.runs.recorded_steps`), without the
    engine's thread or process. `foreign`: written by someone else.
    """

    folder: str
    foreign: bool = False


@dataclass(frozen=True)
class KeepRun(Command):
    """Record a run that was started unrecorded: its scores and changes so far, and what follows."""

    title = "keep this run"


@dataclass(frozen=True)
class ListRuns(Command):
    """List the user's recorded runs, while training continues; `RunsListed` follows."""

    title = "list the recorded runs"


@dataclass(frozen=True, kw_only=True)
class ListedFacts:
    """The facts about one recorded run.

    `name` is that of its folder. `best` is the test accuracy of its last regime, NaN if unknown,
    first reached at `best_step`. `given_name` and `notes` are the user's, or empty. `seconds` is
    how long it was written to, over all sessions; `created` is ISO 8601 in UTC; `bytes` is the size
    of all its files.

    `status`: 'running', 'finished', 'stopped', 'diverged', 'failed', 'interrupted', 'damaged'.
    `resumable`: it has a checkpoint. `trouble`: why a damaged run cannot be read, one sentence; for
    any other run, what its log has lost.

    `settings`: what runs are searched by, such as 'lr' and 'depth'. `trend`: its test accuracy over
    its steps, as `protocol.trend` encodes it.
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
    settings: Mapping[str, float | str] = field(default_factory=dict)
    trend: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The words of the notes that begin with #, without it."""
        return tuple(dict.fromkeys(_TAG.findall(self.notes)))


@dataclass(frozen=True, kw_only=True)
class RecordedRun(ListedFacts):
    """One folder among the user's runs. `touched` is its last modification, in seconds since
    1970."""

    folder: str
    touched: float

    @property
    def shown_name(self) -> str:
        """The user's name for it, or the name of its folder."""
        return self.given_name or self.name


@dataclass(frozen=True)
class RunsListed(Event):
    """All of the user's runs, newest first. `limit`: bytes that they may use together, 0 if there
    is no folder of runs."""

    root: str
    runs: tuple[RecordedRun, ...]
    limit: int = 0


@dataclass(frozen=True)
class NoteRun(Command):
    """Save a name and notes for a recorded run; `RunsListed` follows."""

    title = "note {folder}"

    folder: str
    name: str
    notes: str


@dataclass(frozen=True)
class DeleteRun(Command):
    """Delete the files of a recorded run permanently; `RunsListed` follows."""

    title = "delete {folder}"

    folder: str


@dataclass(frozen=True)
class ThinRuns(Command):
    """Thin out the oldest runs until all together are below their limit; `RunsThinned` and
    `RunsListed` follow."""

    title = "thin out the oldest runs"


@dataclass(frozen=True)
class RunsThinned(Event):
    """The oldest runs were thinned out, or not: `what` in sentences, `trouble` with a line about
    each run."""

    what: str
    trouble: str = ""


@dataclass(frozen=True)
class ExportRun(Command):
    """Write a recorded run to one file: .dgn (everything) or .csv (its scores)."""

    title = "export {folder}"

    folder: str
    path: str


@dataclass(frozen=True)
class RunExported(Event):
    """A recorded run was written to one file; `what`: 'runs.csv: 12 scores.'"""

    what: str


@dataclass(frozen=True)
class ReadCurves(Command):
    """Read the curves of these recorded runs; `CurvesRead` follows."""

    title = "read curves"

    folders: tuple[str, ...]


def scores_of(event: Measured) -> dict[str, float]:
    """Return the measured scores, by the names of their curves."""
    fields = vars(event)
    return {name: fields[name] for name in _SCORES if fields[name] is not None}


@dataclass(frozen=True)
class RunCurves:
    """The curves of one recorded run, to be drawn together with another run.

    `scalars[(source, name)]` are steps and values, the source 'training' or a probe;
    `examples[probe]` is the number of probe examples used. `spectrum` has the eigenvalues of the
    neural path kernel and their cumulative energy, last recorded at `spectrum_step`;
    `spectrum_remark` says on how many examples and how exactly. Empty if not recorded.
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
    """The curves of all requested runs, in that order; they replace earlier ones.

    `requested` are the folders of the `ReadCurves` that is answered: a run that could not be read
    is only there.
    """

    runs: tuple[RunCurves, ...]
    requested: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShowRun(Command):
    """Show the run recorded in this folder; the current run ends, and is recorded itself.

    `discard`: even if it is not recorded and would be lost.
    """

    title = "show {folder}"

    folder: str
    discard: bool = False


@dataclass(frozen=True)
class RunShown(Event):
    """A recorded run is shown at this step; nothing is trained. `Resume` continues it."""

    name: str
    status: str
    step: int
    file_name: str = ""  # of its session file, if any
    saved: str = ""
    window: str = "null"  # the saved window layout, as JSON
    replaced: str = ""  # the folder of the run that it replaced

    @property
    def is_live(self) -> bool:
        """True if another process is writing it, so that it is followed."""
        return self.status == "running" and not self.file_name


@dataclass(frozen=True)
class OpenSession(Command):
    """Show the run in a session file, as `ShowRun` does."""

    title = "open {path}"

    path: str
    discard: bool = False


@dataclass(frozen=True)
class SaveSession(Command):
    """Write the run in its present state to a session file, while training continues.

    `window` is the layout of the window as JSON, returned when the file is opened.
    """

    title = "save {path}"

    path: str
    window: str = "null"


@dataclass(frozen=True)
class SessionSaved(Event):
    """The run, as of this step, was written to this file."""

    step: int
    path: str


RunEnding = ShowRun | OpenSession | ContinueRun  # with the field `discard`


@dataclass(frozen=True)
class DiscardConfirmation(Event):
    """Not carried out yet: the current run is not recorded, and would be lost at this step.

    `name` is that of the run to be shown, or (not `shown`) resumed; `anyway` is the command that
    proceeds.
    """

    step: int
    name: str
    shown: bool
    anyway: RunEnding


@dataclass(frozen=True)
class RecordingPaused(Event):
    """The run's folder cannot be written; training continues and writing is retried."""

    reason: str  # one sentence
    step: int = 0


@dataclass(frozen=True)
class RecordingResumed(Event):
    """The folder is written again: measurements from the gap are written now, frames are not."""

    step: int
    lost: int = 0  # lines of the log that no longer fitted in memory


@dataclass(frozen=True)
class RecordingMended(Event):
    """Someone else changed or moved the run's folder; recording continues."""

    remark: str  # a sentence or two: what had changed, and what was done
    step: int = 0
    folder: str = ""  # where the run is now


@dataclass(frozen=True)
class RecordThinned(Event):
    """The run's folder reached its limit, so old frames and checkpoints before changes were
    removed.

    `frames` are the first and last serial numbers of each removed range, `checkpoints` their names.
    `limit`: bytes of the folder.
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
            f"The run's folder reached its limit of {binary_size_in_words(self.limit)} at step "
            f"{self.step:,}: old {what} are thinned out from now on, the log stays complete. "
            "To change the limit, use 'dgn runs limits' or the window's settings."
        )
