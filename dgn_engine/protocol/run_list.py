"""What is told of recorded runs: the rows of their table, and curves drawn beside another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dgn_engine.protocol.events import Event
from dgn_engine.protocol.frames import Array


@dataclass(frozen=True)
class RecordedRun:
    """One folder among the user's runs. `best`: test accuracy, NaN where none is known, first
    reached at `best_step`. `given_name`, `notes`: the user's words, empty where there are none.
    `seconds` it was written to; `created`: ISO 8601, UTC.

    `status`: 'running', 'finished', 'stopped', 'diverged', 'failed', 'interrupted', 'damaged'.
    `touched`: when it was last written to, seconds since 1970. `resumable`: it has a checkpoint.
    `trouble`: why a damaged run cannot be read, in a sentence.
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
    created: str = ""
    best_step: int = 0
    seconds: float = 0.0
    bytes: int = 0
    given_name: str = ""
    notes: str = ""
    trouble: str = ""

    @property
    def shown_name(self) -> str:
        """What the user calls it, else the name of its folder."""
        return self.given_name or self.name


@dataclass(frozen=True)
class RunsListed(Event):
    """Every run among the user's, newest first."""

    root: str
    runs: tuple[RecordedRun, ...]


@dataclass(frozen=True)
class RunExported(Event):
    """A recorded run was written into one file; `what`: 'runs.csv: 12 scores.'"""

    what: str


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
