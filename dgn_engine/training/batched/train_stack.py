"""A pack trained to its end: stack after stack, each network in a run folder of its own.

Train scores are logged once an epoch, over all of its batches, where a run by itself logs about
twenty; test scores at each epoch's end, as there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from dgn_engine.errors import UserError
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.batched.stack_groups import STACK, pack_key, stacks_of, why_not
from dgn_engine.training.batched.stack_member import (
    Job,
    JobProgress,
    JobResult,
    SharedData,
    StackMember,
    failed,
    not_begun,
    over_before,
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
    """The result of each job, in order; jobs that are done are skipped, begun ones go on.

    `most`: networks in one stack. `on_progress` is called for each network in training about once a
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
            training = StackTraining(mine, sources, on_progress, checkpoint_every, interrupted)
            found.update(zip(left, training.train(), strict=True))
    return [found[p] if p in found else not_begun(job) for p, job in enumerate(jobs)]


def _check(jobs: Sequence[Job]) -> None:
    for job in jobs:
        why = why_not(job.config)
        if why:
            raise UserError(
                f"{job.folder} cannot be packed: {why}",
                kind="not-packable",
                value=job.config.gating.regime,
            )
        if pack_key(job.config) != pack_key(jobs[0].config):
            raise UserError(
                f"{job.folder} cannot be packed with {jobs[0].folder}: data source, shape, batch, "
                "loss, optimiser, epochs and device must be the same.",
                kind="wrong-shape",
                value=job.folder,
            )
    if len({job.folder.resolve() for job in jobs}) < len(jobs):
        raise UserError(
            "Two jobs of one pack name the same folder; each needs its own.", kind="in-use"
        )


WRITING_SHARE = 0.05  # of the time that checkpoints may take: else they come later, but by
LATEST = 20.0  # seconds
REPORT_EVERY = 1.0  # seconds


class StackTraining:
    """The networks of one stack; it holds the folders of its jobs until the end of `train`."""

    def __init__(
        self,
        jobs: Sequence[Job],
        sources: SharedData,
        on_progress: Callable[[JobProgress], None],
        checkpoint_every: float,
        interrupted: Callable[[], bool],
    ) -> None:
        """A job that cannot begin fails alone, in the results of `train`.

        Reading the folders of many runs takes a while: `interrupted` is asked in between.
        """
        self._on_progress = on_progress
        self._every = checkpoint_every
        self._results: dict[Job, JobResult] = {}
        self._jobs = tuple(jobs)
        self._name = uuid.uuid4().hex
        self._interrupted = interrupted
        self._members = self._open(sources)

    def train(self) -> list[JobResult]:
        """The result of each job; raises `UserError` where a folder cannot be written any more."""
        try:
            for steps in sorted({_steps(member) for member in self._members}):
                some = [m for m in self._members if _steps(m) == steps]
                few = _fitting(some)
                for begin in range(0, len(some), few):
                    self._train(self._ended(some[begin : begin + few]))
        finally:
            for member in self._members:
                member.close()
        return [self._results[job] for job in self._jobs]

    def _train(self, members: list[StackMember]) -> None:
        """Train members that are at one step to the end of the last of them."""
        while members:
            try:
                pack = TrainerStack([member.run.trainer for member in members])
            except UserError as refusal:
                self._results.update({m.job: failed(m.job, refusal) for m in members})
                return
            self._until_one_ends(members, pack)
            pack.release()
            members = self._ended(members)

    def _until_one_ends(self, members: list[StackMember], pack: TrainerStack) -> None:
        saved = reported = time.monotonic()
        every = self._every
        while not self._interrupted():
            pack.step()
            epoch_ends = pack.step_count % pack.steps_per_epoch == 0
            diverged = pack.diverged(wait=epoch_ends)
            now = time.monotonic()
            due = now - saved >= every
            if not (diverged or epoch_ends or due or now - reported >= REPORT_EVERY):
                continue
            if epoch_ends:
                trains, (tests, right) = pack.train_scores(), pack.test_scores()
            pack.publish()
            for place, member in enumerate(members):
                if place in diverged:
                    member.diverged()
                elif epoch_ends:
                    member.epoch_ended(trains[place], tests[place], right[place])
                self._on_progress(member.progress)
            reported = now
            if any(member.over for member in members):
                return
            if due:
                for member in members:
                    member.checkpoint()
                saved = time.monotonic()
                every = max(self._every, min(LATEST, (saved - now) / WRITING_SHARE))

    def _ended(self, members: list[StackMember]) -> list[StackMember]:
        """Finish the members that are over (all, where interrupted); return the others."""
        stop = self._interrupted()
        for member in members:
            if stop or member.over:
                self._results[member.job] = member.end()
                self._on_progress(member.progress)
        return [member for member in members if member.job not in self._results]

    def _open(self, sources: SharedData) -> list[StackMember]:
        folders: dict[Job, RunFolder] = {}
        members: list[StackMember] = []
        try:
            for job in self._jobs:
                try:
                    folders[job] = _folder(job)
                except UserError as refusal:
                    self._results[job] = failed(job, refusal)
            if folders:
                align_checkpoints(list(folders.values()))
            for job, folder in folders.items():
                if self._interrupted():
                    _release(folder)
                    self._results[job] = not_begun(job)
                    continue
                try:
                    members.append(StackMember(job, folder, sources, self._name))
                except UserError as refusal:
                    self._results[job] = failed(job, refusal)
                    _release(folder)
        except BaseException:
            for folder in folders.values():
                folder.close()
            raise
        return members


def _release(folder: RunFolder) -> None:
    """Close a folder that was only read; delete one without a run."""
    folder.close() if folder.info.begun else folder.discard()


def _steps(member: StackMember) -> tuple[int, int]:
    """How many were taken, and how many of these undone: one order of the data for a stack."""
    trainer = member.run.trainer
    return trainer.step_count, trainer.undone_steps


def _fitting(members: Sequence[StackMember]) -> int:
    """How many of them may be one stack, so that their frozen gates fit into memory."""
    trainer = members[0].run.trainer
    regime = trainer.regime
    if regime.own_gates or regime.trains_feature:
        return len(members)
    return max(1, MOST_BYTES // table_bytes(trainer.network, trainer.data))


def _folder(job: Job) -> RunFolder:
    if not (job.folder / RUN).exists():
        return RunFolder.create(job.folder, job.config)
    folder = RunFolder(job.folder)
    if not folder.info.config.same_run(job.config):
        folder.close()
        raise UserError(
            f"{job.folder} holds a run with another configuration; choose another one.",
            kind="other-run",
            value=job.folder,
        )
    return folder


def align_checkpoints(folders: Sequence[RunFolder]) -> None:
    """Put the folders of one stack back to the newest step that all of them can go on from.

    After a kill between two of the stack's checkpoints some folders have one that others lack.
    Each run keeps its two newest, so that there is a common one; where there is none, some were
    not trained together with the others, and they go on by themselves.
    """
    common = set.intersection(*(_resumable_steps(folder) for folder in folders))
    if not common:
        return
    for folder in folders:
        for one in [one for one in folder.checkpoints if one.sound and one.step > max(common)]:
            folder.drop(one)


def _resumable_steps(folder: RunFolder) -> set[int]:
    """Steps of its sound checkpoints, and 0 (its seed) while no checkpoint was deleted."""
    sound = [one for one in folder.checkpoints if one.sound]
    steps = {one.step for one in sound}
    newest = max((one.order for one in sound), default=-1)
    return steps | {0} if newest < run_checkpoints.NEWEST else steps
