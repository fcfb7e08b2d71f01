"""What a pack is given, and what comes of each network in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.run_reader import Status
from dgn_engine.training.headless_run import Outcome


@dataclass(frozen=True)
class Job:
    """A configuration and the folder of its run, which may be new, begun or done."""

    config: RunConfig
    folder: Path


@dataclass(frozen=True)
class JobResult:
    """What came of one job. `status`: 'finished', 'diverged', 'stopped' where it was interrupted
    and can go on, or 'failed' where it could not begin: then `refusal` says why.
    """

    job: Job
    status: Status
    outcome: Outcome
    refusal: UserError | None = None


@dataclass(frozen=True)
class JobProgress:
    """How far one job is; `outcome` says its scores so far."""

    job: Job
    step: int
    total_steps: int
    outcome: Outcome
