"""Train a pack to its end, stack after stack, with each network in its own run folder.

Train scores are logged once per epoch, over all its batches, where a single run logs about twenty;
test scores at the end of each epoch, as in a single run.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from dgn_engine.errors import UserError
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.batched.stack_groups import (
    STACK,
    group_into_stacks,
    pack_key,
    reason_not_packed,
)
from dgn_engine.training.batched.stack_member import (
    Job,
    JobProgress,
    JobResult,
    SharedData,
    StackMember,
    failed_result,
    read_finished_result,
    stopped_result,
)
from dgn_engine.training.batched.stacked_gates import MOST_BYTES, table_bytes
from dgn_engine.training.batched.stacked_network import TrainerStack

CHECKPOINT_EVERY = 10.0  # seconds


def train_pack(
    jobs: Sequence[Job],
    on_progress: Callable[[JobProgress], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    most: int = STACK,
) -> list[JobResult]:
    """Train the jobs of a pack; finished jobs are skipped, started ones continued.

    Args:
        jobs: Jobs with equal `pack_key`.
        on_progress: Called about once per second for each network in training.
        interrupted: Returns True to stop: networks in training write a checkpoint, and the others
            are 'stopped' as well.
        checkpoint_every: Seconds between two checkpoints, at least.
        most: Networks per stack, at most.

    Returns:
        One result per job, in order. A job that cannot start fails alone.

    Raises:
        UserError: The jobs do not form a pack, or a disk fails during training.
    """
    _check_jobs(jobs)
    sources = SharedData()
    results: dict[int, JobResult] = {}
    for indices in group_into_stacks([job.config for job in jobs], most):
        for index in indices:
            finished = read_finished_result(jobs[index])
            if finished is not None:
                results[index] = finished
        remaining = [index for index in indices if index not in results]
        if remaining and not interrupted():
            open_jobs = [jobs[index] for index in remaining]
            training = StackTraining(open_jobs, sources, on_progress, checkpoint_every, interrupted)
            results.update(zip(remaining, training.train(), strict=True))
    return [results[p] if p in results else stopped_result(job) for p, job in enumerate(jobs)]


def _check_jobs(jobs: Sequence[Job]) -> None:
    for job in jobs:
        why = reason_not_packed(job.config)
        if why:
            raise UserError(
                f"{job.folder} cannot be stacked: {why}",
                kind="not-packable",
                value=job.config.gating.regime,
            )
        if pack_key(job.config) != pack_key(jobs[0].config):
            raise UserError(
                f"{job.folder} cannot be stacked with {jobs[0].folder}: data source, shape, batch, "
                "loss, optimiser, epochs and device must be the same.",
                kind="wrong-shape",
                value=job.folder,
            )
    if len({job.folder.resolve() for job in jobs}) < len(jobs):
        raise UserError("Two jobs share a folder; give each its own.", kind="in-use")


WRITING_SHARE = 0.05  # of the time, for checkpoints: slow ones are spaced wider, up to
LATEST = 20.0  # seconds
REPORT_EVERY = 1.0  # seconds


class StackTraining:
    """Training of one stack; holds the folders of its jobs until `train` returns."""

    def __init__(
        self,
        jobs: Sequence[Job],
        sources: SharedData,
        on_progress: Callable[[JobProgress], None],
        checkpoint_every: float,
        interrupted: Callable[[], bool],
    ) -> None:
        """Open the folders; a job that cannot start fails alone, in the results of `train`.

        Args:
            jobs: Jobs of one stack.
            sources: Loaded examples.
            on_progress: Called with the progress of each network.
            checkpoint_every: Seconds between two checkpoints, at least.
            interrupted: Returns True to stop; also asked while folders are read.
        """
        self._on_progress = on_progress
        self._every = checkpoint_every
        self._results: dict[Job, JobResult] = {}
        self._jobs = tuple(jobs)
        self._name = uuid.uuid4().hex
        self._interrupted = interrupted
        self._members = self._open_members(sources)

    def train(self) -> list[JobResult]:
        """Train all jobs to their end, or until interrupted.

        Returns:
            One result per job, in order.

        Raises:
            UserError: A folder cannot be written to any more.
        """
        try:
            for steps in sorted({_step_counts(member) for member in self._members}):
                members = [m for m in self._members if _step_counts(m) == steps]
                most = _count_fitting(members)
                for begin in range(0, len(members), most):
                    self._train_members(self._finish_members(members[begin : begin + most]))
        finally:
            for member in self._members:
                member.close()
        return [self._results[job] for job in self._jobs]

    def _train_members(self, members: list[StackMember]) -> None:
        """Train members at one step until all have ended."""
        while members:
            try:
                pack = TrainerStack([member.run.trainer for member in members])
            except UserError as refusal:
                self._results.update({m.job: failed_result(m.job, refusal) for m in members})
                return
            self._train_until_one_ends(members, pack)
            pack.release()
            members = self._finish_members(members)

    def _train_until_one_ends(self, members: list[StackMember], pack: TrainerStack) -> None:
        saved = reported = time.monotonic()
        every = self._every
        while not self._interrupted():
            pack.step()
            epoch_ends = pack.step_count % pack.steps_per_epoch == 0
            diverged = pack.find_diverged(wait=epoch_ends)
            now = time.monotonic()
            due = now - saved >= every
            if not (diverged or epoch_ends or due or now - reported >= REPORT_EVERY):
                continue
            if epoch_ends:
                trains, (tests, right) = pack.train_scores(), pack.test_scores()
            pack.publish()
            for index, member in enumerate(members):
                if index in diverged:
                    member.mark_diverged()
                elif epoch_ends:
                    member.log_epoch(trains[index], tests[index], right[index])
                self._on_progress(member.progress)
            reported = now
            if any(member.is_over for member in members):
                return
            if due:
                for member in members:
                    member.write_checkpoint()
                saved = time.monotonic()
                every = max(self._every, min(LATEST, (saved - now) / WRITING_SHARE))

    def _finish_members(self, members: list[StackMember]) -> list[StackMember]:
        """Finish the members that are over, or all if interrupted; return the others."""
        stop = self._interrupted()
        for member in members:
            if stop or member.is_over:
                self._results[member.job] = member.finish_job()
                self._on_progress(member.progress)
        return [member for member in members if member.job not in self._results]

    def _open_members(self, sources: SharedData) -> list[StackMember]:
        folders: dict[Job, RunFolder] = {}
        members: list[StackMember] = []
        try:
            for job in self._jobs:
                try:
                    folders[job] = _open_folder(job)
                except UserError as refusal:
                    self._results[job] = failed_result(job, refusal)
            if folders:
                align_checkpoints(list(folders.values()))
            for job, folder in folders.items():
                if self._interrupted():
                    _close_or_discard(folder)
                    self._results[job] = stopped_result(job)
                    continue
                try:
                    members.append(StackMember(job, folder, sources, self._name))
                except UserError as refusal:
                    self._results[job] = failed_result(job, refusal)
                    _close_or_discard(folder)
        except BaseException:
            for folder in folders.values():
                folder.close()
            raise
        return members


def _close_or_discard(folder: RunFolder) -> None:
    """Close a folder that was only read; delete it if it has no run."""
    folder.close() if folder.info.was_built else folder.discard_folder()


def _step_counts(member: StackMember) -> tuple[int, int]:
    """Return steps taken and steps undone: a stack needs one order of the data."""
    trainer = member.run.trainer
    return trainer.step_count, trainer.undone_steps


def _count_fitting(members: Sequence[StackMember]) -> int:
    """Return how many members fit into one stack, given the size of frozen gates."""
    trainer = members[0].run.trainer
    regime = trainer.regime
    if regime.own_gates or regime.trains_feature:
        return len(members)
    return max(1, MOST_BYTES // table_bytes(trainer.network, trainer.data))


def _open_folder(job: Job) -> RunFolder:
    if not (job.folder / RUN).exists():
        return RunFolder.create(job.folder, job.config)
    folder = RunFolder(job.folder)
    if not folder.info.config.is_same_run(job.config):
        folder.close()
        raise UserError(
            f"{job.folder} contains a run with another configuration; choose another folder.",
            kind="other-run",
            value=job.folder,
        )
    return folder


def align_checkpoints(folders: Sequence[RunFolder]) -> None:
    """Roll the folders of a stack back to the newest step that all of them can continue from.

    If the process was killed between two checkpoints of a stack, some folders are one ahead. Each
    run keeps its two newest, so there is a common one; if not, the runs were not trained together,
    and continue separately.

    Args:
        folders: Folders of one stack.
    """
    common = set.intersection(*(_resumable_steps(folder) for folder in folders))
    if not common:
        return
    for folder in folders:
        for checkpoint in [
            checkpoint
            for checkpoint in folder.checkpoints
            if checkpoint.is_intact and checkpoint.step > max(common)
        ]:
            folder.drop_checkpoint(checkpoint)


def _resumable_steps(folder: RunFolder) -> set[int]:
    """Return the steps of sound checkpoints, and 0 (the seed) unless checkpoints were deleted."""
    sound = [checkpoint for checkpoint in folder.checkpoints if checkpoint.is_intact]
    steps = {checkpoint.step for checkpoint in sound}
    newest = max((checkpoint.order for checkpoint in sound), default=-1)
    return steps | {0} if newest < run_checkpoints.NEWEST else steps
