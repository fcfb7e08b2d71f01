"""The networks of one stack, trained together until each has ended or all are interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.batched.jobs import Job, JobProgress, JobResult
from dgn_engine.training.batched.rollback import align
from dgn_engine.training.batched.shared_data import SharedData
from dgn_engine.training.batched.stack_member import StackMember, failed, not_begun
from dgn_engine.training.batched.stacked_gates import MOST_BYTES, table_bytes
from dgn_engine.training.batched.stacked_network import TrainerStack

WRITING_SHARE = 0.05  # of the time that checkpoints may take: else they come later, but by
LATEST = 20.0  # seconds
TELL_EVERY = 1.0  # seconds


class StackTraining:
    """Holds the folders of its jobs from its making to the end of `train`."""

    def __init__(
        self,
        jobs: Sequence[Job],
        sources: SharedData,
        on_progress: Callable[[JobProgress], None],
        checkpoint_every: float,
        interrupted: Callable[[], bool],
    ) -> None:
        """A job that cannot begin is told by `train`; it does not keep the others from it.

        Reading what many runs were left with takes a while: `interrupted` is asked in between.
        """
        self._told = on_progress
        self._every = checkpoint_every
        self._results: dict[Job, JobResult] = {}
        self._jobs = tuple(jobs)
        self._members = self._open(sources, interrupted)

    def train(self, interrupted: Callable[[], bool]) -> list[JobResult]:
        """What came of each job. Raises `UserError` where a folder cannot be written any more."""
        try:
            for step in sorted({member.run.step_count for member in self._members}):
                some = [m for m in self._members if m.run.step_count == step]
                few = _fitting(some)
                for begin in range(0, len(some), few):
                    self._train(self._ended(some[begin : begin + few], interrupted), interrupted)
        finally:
            for member in self._members:
                member.close()
        return [self._results[job] for job in self._jobs]

    def _train(self, members: list[StackMember], interrupted: Callable[[], bool]) -> None:
        """Members that stand at one step, to the end of the last of them."""
        while members:
            try:
                pack = TrainerStack([member.run.trainer for member in members])
            except UserError as refusal:
                self._results.update({m.job: failed(m.job, refusal) for m in members})
                return
            self._until_one_ends(members, pack, interrupted)
            pack.release()
            members = self._ended(members, interrupted)

    def _until_one_ends(
        self, members: list[StackMember], pack: TrainerStack, interrupted: Callable[[], bool]
    ) -> None:
        saved = told = time.monotonic()
        every = self._every
        while not interrupted():
            pack.step()
            lost = pack.diverged()
            epoch_ends = pack.step_count % pack.steps_per_epoch == 0
            now = time.monotonic()
            due = now - saved >= every
            if not (lost or epoch_ends or due or now - told >= TELL_EVERY):
                continue
            if epoch_ends:
                trains, tests = pack.train_scores(), pack.test_scores()
            pack.publish()
            for place, member in enumerate(members):
                if place in lost:
                    member.diverged()
                elif epoch_ends:
                    member.epoch_ended(trains[place], tests[place])
                self._told(member.progress)
            told = now
            if any(member.over for member in members):
                return
            if due:
                for member in members:
                    member.checkpoint()
                saved = time.monotonic()
                every = max(self._every, min(LATEST, (saved - now) / WRITING_SHARE))

    def _ended(
        self, members: list[StackMember], interrupted: Callable[[], bool]
    ) -> list[StackMember]:
        """Write the end of those that are over, of all where interrupted; the others are left."""
        stop = interrupted()
        for member in members:
            if stop or member.over:
                self._results[member.job] = member.end()
                self._told(member.progress)
        return [member for member in members if member.job not in self._results]

    def _open(self, sources: SharedData, interrupted: Callable[[], bool]) -> list[StackMember]:
        folders: dict[Job, RunFolder] = {}
        members: list[StackMember] = []
        try:
            for job in self._jobs:
                try:
                    folders[job] = _folder(job)
                except UserError as refusal:
                    self._results[job] = failed(job, refusal)
            if folders:
                align(list(folders.values()))
            for job, folder in folders.items():
                if interrupted():
                    _leave(folder)
                    self._results[job] = not_begun(job)
                    continue
                try:
                    members.append(StackMember(job, folder, sources))
                except UserError as refusal:
                    self._results[job] = failed(job, refusal)
                    _leave(folder)
        except BaseException:
            for folder in folders.values():
                folder.close()
            raise
        return members


def _leave(folder: RunFolder) -> None:
    """A folder that was only looked at; one without a run goes away."""
    folder.close() if folder.begun else folder.discard()


def _fitting(members: Sequence[StackMember]) -> int:
    """How many of them may be one stack, so that their frozen gates fit into memory."""
    trainer = members[0].run.trainer
    regime = trainer.regime
    if regime.own_gates or regime.trains_feature:
        return len(members)
    return max(1, MOST_BYTES // table_bytes(trainer.network, trainer.data))


def _folder(job: Job) -> RunFolder:
    """Of a run that was begun, or a new one."""
    if not (job.folder / RUN).exists():
        return RunFolder.create(job.folder, job.config)
    folder = RunFolder(job.folder)
    if not folder.config.same_run(job.config):
        folder.close()
        raise UserError(f"{job.folder} holds a run with another configuration; choose another one.")
    return folder
