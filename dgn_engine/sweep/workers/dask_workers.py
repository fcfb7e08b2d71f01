"""Execute units on the workers of a Dask cluster, one per worker, in a shared folder."""

from __future__ import annotations

import json
import queue
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dgn_engine import __version__
from dgn_engine.errors import UserError
from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.slurm import check_cluster, connect_client, replace_ended_jobs, wanted_jobs
from dgn_engine.sweep.unit import OnUpdate, ProcessId, Stopped, Unit, UnitTask, UnitUpdate
from dgn_engine.sweep.workers.attempt import LOGS

REFRESH = 1.0  # seconds between queries for the workers
SLICE = 0.05  # seconds between checks for finished units
REPLACE = 15.0  # seconds between queries for the Slurm jobs
MOST_LOST = 4  # times in a row that all jobs ended before a worker started
MOST_REFUSED = 2  # the same, if `sbatch` rejected them
PATIENCE = 30.0  # seconds that a running cluster may be without workers


@dataclass(frozen=True)
class DaskExecutor(Executor):
    """An executor on a Dask cluster.

    Attributes:
        cluster: 'tls://HOST:PORT', 'local' or 'slurm[:options]'.
        limit: maximum number of workers to start.
        tls: TLS options.
    """

    cluster: str = "local"
    limit: int = 0
    tls: ClusterTls = field(default_factory=ClusterTls)

    def __post_init__(self) -> None:
        check_cluster(self.cluster, self.tls)

    def workers_in(self, root: Path) -> DaskWorkers:
        """Return the cluster's workers, all of which must see the same folder."""
        return DaskWorkers(self.cluster, self.limit, self.tls, root)


@dataclass
class _DaskJob:
    task: UnitTask
    address: str
    future: Any  # distributed.Future


class DaskWorkers:
    """Dask workers; each unit is pinned to one, to know which unit is lost with a worker."""

    def __init__(self, cluster: str, limit: int, tls: ClusterTls, root: Path) -> None:
        self._cluster, self._limit, self._tls, self._root = cluster, limit, tls, root
        self._topic = f"dgn-{uuid.uuid4().hex}"
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._jobs: list[_DaskJob] = []
        self._present: set[str] = set()  # addresses of the usable workers
        self._known: dict[str, ProcessId] = {}  # processes by address
        self._gone: set[ProcessId] = set()
        self._unfit: dict[str, str] = {}  # reasons by address
        self._refreshed = 0.0
        self._replaced = 0.0
        self._lost = 0  # times in a row; see MOST_LOST
        self._alone_since = time.monotonic()
        self._client: Any  # distributed.Client
        self._on_update: OnUpdate

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        self._on_update = on_update
        with connect_client(self._cluster, self._limit, self._tls, self._root) as self._client:
            self._client.subscribe_topic(self._topic, lambda event: self._events.put(event[1]))
            self._alone_since = self._replaced = time.monotonic()
            try:
                yield
            finally:
                self.interrupt()
                self._client.unsubscribe_topic(self._topic)

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        self._refresh_workers()
        free = sorted(self._present - {job.address for job in self._jobs})
        begun = list(ready[: len(free)])
        for task, address in zip(begun, free, strict=False):
            self._submit_task(replace(task, ended=(*task.ended, *self._gone)), address)
        if self._cluster.startswith("slurm"):
            self._replace_jobs(len(ready) - len(begun))
        return begun

    def poll(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(queue.Empty):
                self._apply_event(self._events.get(timeout=SLICE))
            if self._collect_finished():
                break
        self._refresh_workers()

    def interrupt(self) -> None:
        """Cancel all tasks; each unit reports it in its last event."""
        for job in self._jobs:
            if not job.future.cancelled():
                job.future.cancel()

    def _submit_task(self, task: UnitTask, address: str) -> None:
        from dgn_engine.sweep.workers.dask_task import carry_out_here

        future = self._client.submit(
            carry_out_here,
            task.to_text(),
            self._topic,
            key=f"dgn-{task.unit.id}-{uuid.uuid4().hex}",
            workers=[address],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )
        self._jobs.append(_DaskJob(task, address, future))

    def _apply_event(self, text: str) -> None:
        update = UnitUpdate.from_text(text)
        job = next((job for job in self._jobs if job.task.unit.id == update.unit), None)
        if job is None:
            return
        if not update.is_over:
            self._on_update(update)
        elif job.future.cancelled():
            self._finish_job(job, update)

    def _collect_finished(self) -> bool:
        """Finish jobs that are over; return whether there were any."""
        over = [job for job in self._jobs if job.future.status in ("finished", "error", "lost")]
        for job in over:
            if job.future.status == "finished":
                self._finish_job(job, UnitUpdate.from_text(str(job.future.result())))
            else:
                why = str(job.future.exception()) if job.future.status == "error" else "lost"
                self._finish_job(
                    job, UnitUpdate(job.task.unit.id, "lost", trouble=f"{job.address}: {why}")
                )
        return bool(over)

    def _refresh_workers(self) -> None:
        """Update the list of workers; units of missing workers are lost.

        Raises:
            UserError: the scheduler or all workers are gone.
        """
        now = time.monotonic()
        if now - self._refreshed < REFRESH:
            return
        self._refreshed = now
        try:
            addresses = set(self._client.nthreads())
        except (OSError, RuntimeError, TypeError) as error:
            raise UserError(
                f"The Dask scheduler of {self._cluster} is gone ({error}); restart it and run the "
                "same command to resume.",
                kind="no-answer",
                value=self._cluster,
            ) from None
        for address in set(self._known) - addresses:
            self._gone.add(self._known.pop(address))
        for address in set(self._unfit) - addresses:
            del self._unfit[address]  # a new worker at this address is checked again
        self._introduce_workers(addresses - set(self._known) - set(self._unfit))
        self._present = addresses & set(self._known)
        for job in [job for job in self._jobs if job.address not in addresses]:
            sentence = f"Its Dask worker {job.address} is gone."
            job.future.cancel()
            self._finish_job(job, UnitUpdate(job.task.unit.id, "lost", trouble=sentence))
        self._require_workers(addresses)

    def _replace_jobs(self, waiting: int) -> None:
        """Replace Slurm jobs that ended while units are waiting.

        Raises:
            UserError: job after job ends before its worker starts.
        """
        now = time.monotonic()
        if self._present:
            self._lost = 0
        if not waiting or now - self._replaced < REPLACE:
            return
        self._replaced = now
        wanted = min(wanted_jobs(self._cluster, self._limit), len(self._jobs) + waiting)
        cluster = self._client.cluster
        if replace_ended_jobs(cluster, wanted) != 0 or self._present:
            return
        self._lost += 1
        refusal = cluster.job_cls.refusal
        if self._lost >= (MOST_REFUSED if refusal else MOST_LOST):
            why = (
                f"sbatch rejects the jobs: {refusal.rstrip('.')}"
                if refusal
                else f"the jobs end before a worker starts; see the logs in {self._root / LOGS}"
            )
            raise UserError(f"No Slurm job is running: {why}.", kind="no-workers", value=why)

    def _introduce_workers(self, addresses: set[str]) -> None:
        if not addresses:
            return
        from dgn_engine.sweep.workers.dask_task import describe_worker

        answers = self._client.run(
            describe_worker, str(self._root), workers=sorted(addresses), on_error="return"
        )
        for address, answer in answers.items():
            if isinstance(answer, str) and not (why := self._reason_unfit(json.loads(answer))):
                info = json.loads(answer)
                self._known[address] = ProcessId(info["pid"], info["host"])
                self._gone.discard(self._known[address])  # process ids are reused
            elif isinstance(answer, str):
                self._unfit[address] = f"The Dask worker {address} {why}."
            else:
                self._unfit[address] = f"The Dask worker {address} cannot run dgn: {answer}."

    def _reason_unfit(self, answer: dict[str, Any]) -> str:
        if answer["version"] != __version__:
            theirs = answer["version"]
            return f"has dgn-viewer {theirs}, but this is {__version__}; use the same version"
        if not answer["sees"]:
            return f"cannot see {self._root}; choose a folder shared by all machines"
        return ""

    def _require_workers(self, listed: set[str]) -> None:
        """Raise `UserError` if a cluster has no usable worker; Slurm jobs may still be queued."""
        now = time.monotonic()
        if self._present:
            self._alone_since = now
        elif listed:
            raise UserError(
                next(self._unfit[address] for address in listed & set(self._unfit)), kind="unfit"
            )
        elif now - self._alone_since > PATIENCE and not self._cluster.startswith("slurm"):
            raise UserError(
                f"The Dask cluster {self._cluster} has no workers; start some.",
                kind="no-workers",
                value=self._cluster,
            )

    def _finish_job(self, job: _DaskJob, update: UnitUpdate) -> None:
        self._jobs.remove(job)
        job.future.release()
        self._on_update(update)
