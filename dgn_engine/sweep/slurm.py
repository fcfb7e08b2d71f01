"""Connects to Dask clusters: a running one, one on this machine, or jobs of Slurm."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dgn_engine.confinement.child_process import (
    ChildProcess,
    python_command,
    python_environment,
    usable_cores,
)
from dgn_engine.confinement.spawn_context import METHOD, start_resource_tracker
from dgn_engine.confinement.start_folder import find_program, safe_environment
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder
from dgn_engine.storage.inner_path import inside
from dgn_engine.sweep.cluster_tls import (
    INSTALL,
    SCHEMES,
    ClusterTls,
    check_tls,
    for_jobs,
    given_security,
    require_plain,
    temporary_security,
)
from dgn_engine.sweep.workers.attempt import LOGS
from dgn_engine.sweep.workers.processes import ONE_THREAD

CONNECT = 15.0  # seconds
PRELOAD = "dgn_engine.sweep.workers.dask_preload"
ANSWER = 30.0  # seconds in which squeue says which jobs there are
WARNING = 120  # seconds before its time is up that Slurm tells a job of ours
# of slurm:NAME=VALUE,…; what is not said is taken from Dask's own configuration of jobqueue
_SLURM: Mapping[str, type] = {
    "jobs": int,
    "cores": int,
    "memory": str,
    "queue": str,
    "account": str,
    "walltime": str,
    "interface": str,
    "python": str,
    "prologue": str,  # a line of the job's script, such as 'module load cuda'
    "directive": str,  # an #SBATCH line, such as '--gres=gpu:1'
}


@contextmanager
def connected(cluster: str, workers: int, tls: ClusterTls, root: Path) -> Iterator[Any]:
    """Yield a client of the cluster; a cluster that was started here ends with it.

    `root`: a folder that all machines see, of this sweep alone.
    """
    check_cluster(cluster, tls)
    try:
        from distributed import Client
    except ImportError:
        raise UserError(
            f"The executor 'dask' needs Dask; {INSTALL}", kind="not-installed", value="dask"
        ) from None
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        address: Any = cluster
        options: dict[str, Any] = {}
        if cluster == "local":
            address = stack.enter_context(local_cluster(workers or usable_cores()))
        elif cluster.startswith("slurm"):
            address = stack.enter_context(_slurm(cluster, workers, tls, root))
        else:
            if not tls.off:
                options["security"] = given_security(cluster, tls)
            _require_listener(address)
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False, name="dgn", **options)
        except (OSError, ValueError) as error:
            raise UserError(
                f"No Dask scheduler answers at {cluster}: {error}.", kind="no-answer", value=cluster
            ) from None
        with client:
            yield client


def _require_listener(address: str) -> None:
    """Raise `UserError` where nobody listens: a `Client` that cannot connect leaves a thread."""
    place = urlsplit(address)
    try:
        host, port = place.hostname, place.port
    except ValueError:  # the port is no number
        host = port = None
    if not host or not port:
        raise UserError(
            f"--cluster is '{address}'; it must be of the form tls://HOST:PORT.",
            kind="no-choice",
            value=address,
        )
    try:
        socket.create_connection((host, port), CONNECT).close()
    except OSError as error:
        raise UserError(
            f"No Dask scheduler answers at {address}: {error}.", kind="no-answer", value=address
        ) from None


def check_cluster(cluster: str, tls: ClusterTls) -> None:
    """Raise `UserError` for a text that names none, and where it needs TLS and has none."""
    kind = cluster.partition(":")[0]
    if cluster != "local" and kind != "slurm" and not cluster.startswith(tuple(SCHEMES)):
        raise UserError(
            f"--cluster is '{cluster}'; it must be tls://HOST:PORT, local, or slurm, "
            "as in slurm:jobs=8,cores=4,memory=8GB.",
            kind="no-choice",
            value=cluster,
        )
    if kind == "slurm":
        slurm_options(cluster)
    check_tls(cluster, tls)


def slurm_options(cluster: str) -> dict[str, int | str]:
    """Parse the options of 'slurm:jobs=8,memory=8GB'; raises `UserError`."""
    options: dict[str, int | str] = {}
    for text in filter(None, cluster.partition(":")[2].split(",")):
        name, equals, value = text.partition("=")
        if name not in _SLURM or not equals:
            known = ", ".join(_SLURM)
            raise UserError(
                f"--cluster slurm knows no '{text}'; give NAME=VALUE of {known}.",
                kind="unknown-key",
                value=text,
            )
        try:
            options[name] = _SLURM[name](value)
        except ValueError:
            raise UserError(
                f"--cluster slurm: {name} is '{value}', not a number.",
                kind="not-a-number",
                value=value,
            ) from None
    return options


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Yield a cluster of this machine, which listens on the loopback alone and speaks TLS."""
    import dask
    from distributed import LocalCluster

    from dgn_engine.sweep.workers.dask_ports import guarded_ports

    start_resource_tracker()
    with (
        _scratch_folder(),
        guarded_ports(),
        dask.config.set({"distributed.worker.multiprocessing-method": METHOD}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=temporary_security(),
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            env=ONE_THREAD,
            memory_limit=0,  # Dask would kill what it holds too large
            preload=[PRELOAD],
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _scratch_folder(parent: str | None = None) -> Iterator[str]:
    """Yield a new folder, the user's alone, that is Dask's temporary folder while it lasts.

    Dask takes `dask-scratch-space` in the system's temporary folder as it finds it, whoever made
    it, puts it first in `sys.path`, and truncates the files to which the links in it lead.
    """
    import dask

    with tempfile.TemporaryDirectory(
        prefix="dask-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        try:
            with dask.config.set(
                {"temporary-directory": folder, "distributed.worker.use-file-locking": False}
            ):
                yield folder
        finally:  # Dask may leave it there; the name would be free for anybody
            sys.path[:] = [one for one in sys.path if not one.startswith(folder)]


@contextmanager
def _slurm(text: str, workers: int, tls: ClusterTls, root: Path) -> Iterator[Any]:
    """Yield a cluster whose workers are jobs.

    Slurm signals a job's first process before its time is up: that is the worker itself (`exec`),
    which then lets its run save itself.
    """
    try:
        from dask_jobqueue import SLURMCluster
        from dask_jobqueue.slurm import SLURMJob
    except ImportError:
        raise UserError(
            f"--cluster slurm needs dask-jobqueue; {INSTALL}",
            kind="not-installed",
            value="dask-jobqueue",
        ) from None
    from dgn_engine.sweep.workers.dask_ports import guarded_ports

    submit, cancel = find_program("sbatch"), find_program("scancel")
    if submit is None:
        raise UserError(
            "--cluster slurm: there is no 'sbatch' here; run this where jobs are begun.",
            kind="not-installed",
            value="sbatch",
        )
    with ExitStack() as stack:
        stack.enter_context(guarded_ports())
        security = None
        if not tls.off:
            security = given_security(text, tls) if tls.files else temporary_security()
            security = stack.enter_context(for_jobs(security, root))
        folder = _make_job_folder(root)
        scratch = stack.enter_context(_scratch_folder(folder))
        arguments, jobs = job_arguments(text, workers, folder, scratch)
        if security is not None:
            arguments["security"] = security
        job_class = _job_class(SLURMJob, shlex.quote(submit), shlex.quote(cancel or "scancel"))
        cluster = stack.enter_context(SLURMCluster(job_cls=job_class, **arguments))
        cluster.scale(jobs=jobs)
        yield cluster


def _job_class(base: Any, submit: str, cancel: str) -> Any:
    """Return a class of jobs for `SLURMCluster`, which are submitted by these programs."""

    class SlurmJob(base):  # type: ignore[misc]
        submit_command = submit
        cancel_command = cancel
        refusal = ""  # the last answer of `sbatch` that was one

        @staticmethod
        async def _call(command: list[str], **options: Any) -> str:
            """Run one of them, in an environment that names no relative file."""
            answer: str = await base._call(command, env=safe_environment(), **options)
            return answer

        async def _submit_job(self, script: str) -> str:
            """Submit the script; Dask would print a refusal with its traceback, and wait."""
            try:
                answer: str = await super()._submit_job(script)
            except (OSError, RuntimeError) as error:
                said = [line for line in str(error).splitlines() if line.startswith("sbatch:")]
                type(self).refusal = said[-1] if said else str(error)
                return ""
            return answer

        def _job_id_from_submit_output(self, answer: str) -> Any:
            return super()._job_id_from_submit_output(answer) if answer else None

    return SlurmJob


def _make_job_folder(root: Path) -> str:
    """Make a folder in which jobs begin and to which they print; a new one holds no links.

    Slurm's default is the current folder, in which it follows whatever links have the right name.
    """
    require_plain(str(root))
    try:
        make_folder(inside(root) / LOGS)
        return tempfile.mkdtemp(prefix="slurm-", dir=root / LOGS)
    except OSError as error:
        raise UserError(
            f"Cannot write to {root}: {error.strerror}.", kind="not-writable", value=str(root)
        ) from None


def wanted_jobs(text: str, workers: int) -> int:
    """Return how many jobs 'slurm:jobs=8' asks for; `workers` where it does not say."""
    return int(slurm_options(text).get("jobs", workers or 1))


def job_arguments(text: str, workers: int, folder: str, scratch: str) -> tuple[dict[str, Any], int]:
    """Return the arguments of a `SLURMCluster`, and how many jobs are wanted.

    `folder`: where they begin and print; `scratch`: where Dask keeps its temporary files.
    """
    options = slurm_options(text)
    options.pop("jobs", None)
    prologue, directive = str(options.pop("prologue", "")), str(options.pop("directive", ""))
    named = "python" in options
    # Another Python keeps its user site: nobody knows what is installed only there.
    python = f"{options['python']} -P" if named else shlex.join(python_command())
    warned = "" if directive.startswith("--signal") else f"--signal=B:USR1@{WARNING}"
    directives = (f"--chdir={folder}", warned, directive)
    arguments: dict[str, Any] = {
        **{"cores": 1, "memory": "4GB", "processes": 1, **options},
        "job_script_prologue": [*_exports(named), *([prologue] if prologue else [])],
        "log_directory": folder,
        "local_directory": scratch,
        "job_extra_directives": [one for one in directives if one],
        "python": f"exec {python}",
        "worker_extra_args": ["--no-dashboard", "--preload", PRELOAD, "--preload-nanny", PRELOAD],
        "scheduler_options": {"dashboard": False, "dashboard_address": None},
    }
    return arguments, wanted_jobs(text, workers)


def replace_ended_jobs(cluster: Any, wanted: int) -> int | None:
    """Submit jobs until `wanted` are queued or running, and return how many were before.

    None where Slurm does not say. Dask itself submits no other job for one that has ended.
    """
    queued = _queued_jobs()

    async def forget_ended() -> int:
        jobs = cluster.workers
        for name in [name for name, job in jobs.items() if job.job_id not in (queued or ())]:
            del jobs[name]
            cluster.worker_spec.pop(name, None)
            # A new job must have a new name: Dask cancels the one whose worker left, by its name.
            # `_i` is the number in the newest name, which would be free again.
            cluster._i += 1
        return len(jobs)

    there: int | None = None if queued is None else cluster.sync(forget_ended)
    if there is None or there < wanted:
        cluster.scale(jobs=max(wanted, len(cluster.worker_spec)))
    return there


def _queued_jobs() -> set[str] | None:
    """Return the ids of all jobs of this user that wait or run; None where Slurm does not say."""
    program = find_program("squeue")
    if program is None:
        return None
    command = [program, "--noheader", "--format=%i", f"--user={os.getuid()}"]
    try:
        with ChildProcess(command, environment=safe_environment()) as child:
            listed = child.read_all(ANSWER)
            return None if child.code else set(listed.decode("utf-8", "replace").split())
    except OSError:
        return None


def _exports(named: bool) -> list[str]:
    """Return lines of a job's script: nothing is imported from the folder where it begins, and
    Dask takes no locks in its scratch folder.

    `named`: the user named a Python, which is not given the folders of ours.
    """
    environment = safe_environment() if named else python_environment()
    folders = shlex.quote(environment.get("PYTHONPATH", ""))
    # Not every file system that machines share has locks.
    locks = "export DASK_DISTRIBUTED__WORKER__USE_FILE_LOCKING=False"
    return ["export PYTHONSAFEPATH=1", f"export PYTHONPATH={folders}", locks]


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own log lines would break the progress bar; trouble comes back as updates."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
