"""A pack trained to its end: stack after stack, each network in a run folder of its own.

Train scores are logged once an epoch, over all of its batches, where a run by itself logs about
twenty; test scores at each epoch's end, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dgn_engine.errors import UserError
from dgn_engine.training.batched.grouping import STACK, pack_key, stacks_of, why_not
from dgn_engine.training.batched.jobs import Job, JobProgress, JobResult
from dgn_engine.training.batched.shared_data import SharedData
from dgn_engine.training.batched.stack_member import not_begun, over_before
from dgn_engine.training.batched.train_stack import StackTraining

CHECKPOINT_EVERY = 10.0  # seconds


def train_pack(
    jobs: Sequence[Job],
    on_progress: Callable[[JobProgress], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    most: int = STACK,
) -> list[JobResult]:
    """What came of each job, in order; jobs that are done are skipped, begun ones go on.

    `most`: networks in one stack. `on_progress` is told of each network in training about once a
    second. Where `interrupted`, the networks in training are left with a checkpoint, and those
    that have not begun are 'stopped' as well. A job that cannot begin fails alone; raises
    `UserError` where the jobs are no pack, or a disk fails while they train.
    """
    _check(jobs)
    sources = SharedData()
    found: dict[int, JobResult] = {}
    for places in stacks_of([job.config for job in jobs], most):
        for place in places:
            over = over_before(jobs[place])
            if over is not None:
                found[place] = over
        left = [place for place in places if place not in found]
        if left and not interrupted():
            mine = [jobs[place] for place in left]
            together = StackTraining(mine, sources, on_progress, checkpoint_every, interrupted)
            found.update(zip(left, together.train(interrupted), strict=True))
    return [found[p] if p in found else not_begun(job) for p, job in enumerate(jobs)]


def _check(jobs: Sequence[Job]) -> None:
    for job in jobs:
        why = why_not(job.config)
        if why:
            raise UserError(f"{job.folder} cannot be packed: {why}")
        if pack_key(job.config) != pack_key(jobs[0].config):
            raise UserError(
                f"{job.folder} cannot be packed with {jobs[0].folder}: data source, shape, batch, "
                "loss, optimiser, epochs and device must be the same."
            )
    if len({job.folder.resolve() for job in jobs}) < len(jobs):
        raise UserError("Two jobs of one pack name the same folder; each needs its own.")
