"""Recorded runs and session files: what is asked about them, and the answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ListRuns:
    """List the user's recorded runs; `RunsListed` follows. Training goes on meanwhile."""


@dataclass(frozen=True)
class ShowRun:
    """Show what this folder recorded; the run in progress ends, and is recorded itself.

    `discard`: also where it is not, and is lost.
    """

    folder: str
    discard: bool = False


@dataclass(frozen=True)
class OpenSession:
    """Show what a session file holds, in the same way."""

    path: str
    discard: bool = False


@dataclass(frozen=True)
class SaveSession:
    """Write the run as it stands now into a session file; training goes on meanwhile.

    `look`: how the window looks, as JSON, to be handed back when the file is opened.
    """

    path: str
    look: str = "null"


@dataclass(frozen=True)
class RecordedRun:
    """One folder among the user's runs. `best`: test accuracy, NaN where none is known.

    `status`: 'running', 'finished', 'stopped', 'diverged', 'failed', 'interrupted', 'damaged'.
    `touched`: when it was last written to, seconds since 1970. `resumable`: it has a checkpoint.
    """

    folder: str
    name: str
    status: str
    step: int
    total_steps: int
    regime: str
    net: str
    data: str
    seed: int
    best: float
    touched: float
    resumable: bool


@dataclass(frozen=True)
class RunsListed:
    """Every run among the user's, newest first."""

    root: str
    runs: tuple[RecordedRun, ...]


@dataclass(frozen=True)
class RunShown:
    """A recorded run is on show, as it was at this step; nothing is trained. `Resume` goes on.

    `file_name`: of the session file it comes from, or empty; `look`: the window then, as JSON.
    `aside`: the folder of the run that ended for it, or empty.
    """

    name: str
    status: str
    step: int
    file_name: str = ""
    saved: str = ""
    look: str = "null"
    aside: str = ""


@dataclass(frozen=True)
class SessionSaved:
    """The run as it stood at this step is in this file."""

    step: int
    path: str
