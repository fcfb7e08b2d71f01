"""What is told of recorded runs: the rows of their table."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.events import Event


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
class RunsThinned(Event):
    """The oldest runs were thinned out, or why not: `what` as sentences, `trouble` a line about
    each of the runs.
    """

    what: str
    trouble: str = ""


@dataclass(frozen=True)
class RunExported(Event):
    """A recorded run was written into one file; `what`: 'runs.csv: 12 scores.'"""

    what: str
