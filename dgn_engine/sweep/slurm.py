"""Connect to a Dask cluster: a running one, a local one, or Slurm jobs."""

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
from dgn_engine.errors import UserError, how_to_install
from dgn_engine.storage.atomic_write import make_folder
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.sweep.cluster_tls import (
    PACKAGES,
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
ANSWER = 30.0  # timeout of squeue in seconds
WARNING = 120  # seconds before the time limit at which Slurm signals a job
# Options of slurm:NAME=VALUE,…; defaults are taken from Dask's jobqueue configuration.
_SLURM: Mapping[str, type] = {
    "jobs": int,
    "cores": int,
    "memory": str,
    "queue": str,
    "account": str,
    "walltime": str,
    "interface": str,
    "python": str,
    "prologue": str,  # a line of the job script, such as 'module load cuda'
    "directive": str,  # an #SBATCH line, such as '--gres=gpu:1'
}


@contextmanager
def connect_client(cluster: str, workers: int, tls: ClusterTls, root: Path) -> Iterator[Any]:
    """Yield a client of the cluster; a cluster started here ends with the block.

    Args:
        cluster: 'tls://HOST:PORT', 'local' or 'slurm[:options]'.
        workers: number of workers to start; 0: default.
        tls: TLS options.
        root: the sweep's folder, shared by all machines.

    Raises:
        UserError: Dask is not installed, or the cluster cannot be reached.
    """
    check_cluster(cluster, tls)
    try:
        from distributed import Client
    except ImportError:
        raise UserError(
            f"The executor 'dask' needs Dask. {how_to_install(*PACKAGES)}",
            kind="not-installed",
            value="dask",
        ) from None
    with ExitStack() as stack:
        stack.enter_context(_quiet_dask_logs())
        address: Any = cluster
        options: dict[str, Any] = {}
        if cluster == "local":
            address = stack.enter_context(local_cluster(workers or usable_cores()))
        elif cluster.startswith("slurm"):
            address = stack.enter_context(_slurm_cluster(cluster, workers, tls, root))
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
    """Raise `UserError` if nothing listens; a `Client` that cannot connect would leak a thread."""
    url = urlsplit(address)
    try:
        host, port = url.hostname, url.port
    except ValueError:  # the port is not a number
        host = port = None
    if not host or not port:
        raise UserError(
            f"--cluster is '{address}'; it must have the form tls://HOST:PORT.",
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
    """Raise `UserError` for an invalid cluster, or one without the TLS it needs."""
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
                f"--cluster slurm has no option '{text}'; use NAME=VALUE with {known}.",
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
    """Yield a cluster on this machine that listens on the loopback interface only, with TLS."""
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
            memory_limit=0,  # otherwise Dask kills workers that it considers too large
            preload=[PRELOAD],
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _scratch_folder(parent: str | None = None) -> Iterator[str]:
    """Yield a new private folder that serves as Dask's temporary folder.

    By default, Dask uses `dask-scratch-space` in the system's temporary folder whoever created it,
    puts it first in `sys.path`, and truncates the targets of links in it.
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
        finally:  # Dask may leave it in the path, though anybody could then create it
            sys.path[:] = [entry for entry in sys.path if not entry.startswith(folder)]


@contextmanager
def _slurm_cluster(text: str, workers: int, tls: ClusterTls, root: Path) -> Iterator[Any]:
    """Yield a cluster whose workers are Slurm jobs.

    Slurm signals the first process of a job before its time is up. With `exec` that is the worker,
    which then saves its run.
    """
    try:
        from dask_jobqueue import SLURMCluster
        from dask_jobqueue.slurm import SLURMJob
    except ImportError:
        raise UserError(
            f"--cluster slurm needs dask-jobqueue. {how_to_install(*PACKAGES)}",
            kind="not-installed",
            value="dask-jobqueue",
        ) from None
    from dgn_engine.sweep.workers.dask_ports import guarded_ports

    submit, cancel = find_program("sbatch"), find_program("scancel")
    if submit is None:
        raise UserError(
            "--cluster slurm: 'sbatch' was not found; run this on a machine that submits jobs.",
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
    """Return a job class for `SLURMCluster` that uses these submit and cancel programs."""

    class SlurmJob(base):  # type: ignore[misc]
        submit_command = submit
        cancel_command = cancel
        refusal = ""  # the last error of `sbatch`

        @staticmethod
        async def _call(command: list[str], **options: Any) -> str:
            """Run one of the programs in an environment without relative paths."""
            answer: str = await base._call(command, env=safe_environment(), **options)
            return answer

        async def _submit_job(self, script: str) -> str:
            """Submit the script; keep an error in `refusal` instead of printing a traceback."""
            try:
                answer: str = await super()._submit_job(script)
            except (OSError, RuntimeError) as error:
                messages = [line for line in str(error).splitlines() if line.startswith("sbatch:")]
                type(self).refusal = messages[-1] if messages else str(error)
                return ""
            return answer

        def _job_id_from_submit_output(self, answer: str) -> Any:
            return super()._job_id_from_submit_output(answer) if answer else None

    return SlurmJob


def _make_job_folder(root: Path) -> str:
    """Create the folder in which jobs start and write their logs.

    It is new so that it has no links: in the current folder, Slurm's default, it would follow
    links that have the name of a log.
    """
    require_plain(str(root))
    try:
        make_folder(inner_folder(root) / LOGS)
        return tempfile.mkdtemp(prefix="slurm-", dir=root / LOGS)
    except OSError as error:
        raise UserError(
            f"Cannot write to {root}: {error.strerror}.", kind="not-writable", value=str(root)
        ) from None


def wanted_jobs(text: str, workers: int) -> int:
    """Return the number of jobs of 'slurm:jobs=8', or `workers` if it is not given."""
    return int(slurm_options(text).get("jobs", workers or 1))


def job_arguments(text: str, workers: int, folder: str, scratch: str) -> tuple[dict[str, Any], int]:
    """Return the arguments of a `SLURMCluster` and the number of jobs.

    Args:
        text: 'slurm[:options]'.
        workers: number of jobs unless the options set it.
        folder: working and log folder of the jobs.
        scratch: Dask's temporary folder.
    """
    options = slurm_options(text)
    options.pop("jobs", None)
    prologue, directive = str(options.pop("prologue", "")), str(options.pop("directive", ""))
    own_python = "python" in options
    # Another Python keeps its user site, since packages may be installed only there.
    python = f"{options['python']} -P" if own_python else shlex.join(python_command())
    warned = "" if directive.startswith("--signal") else f"--signal=B:USR1@{WARNING}"
    directives = (f"--chdir={folder}", warned, directive)
    arguments: dict[str, Any] = {
        **{"cores": 1, "memory": "4GB", "processes": 1, **options},
        "job_script_prologue": [*_export_lines(own_python), *([prologue] if prologue else [])],
        "log_directory": folder,
        "local_directory": scratch,
        "job_extra_directives": [line for line in directives if line],
        "python": f"exec {python}",
        "worker_extra_args": ["--no-dashboard", "--preload", PRELOAD, "--preload-nanny", PRELOAD],
        "scheduler_options": {"dashboard": False, "dashboard_address": None},
    }
    return arguments, wanted_jobs(text, workers)


def replace_ended_jobs(cluster: Any, wanted: int) -> int | None:
    """Submit jobs until `wanted` are queued or running; Dask does not replace ended jobs.

    Returns:
        How many were queued or running before; None if Slurm does not answer.
    """
    queued = _queued_jobs()

    async def forget_ended() -> int:
        jobs = cluster.workers
        for name in [name for name, job in jobs.items() if job.job_id not in (queued or ())]:
            del jobs[name]
            cluster.worker_spec.pop(name, None)
            # A new job needs a new name, because Dask cancels jobs of lost workers by name. `_i` is
            # the number in the newest name, which would otherwise be reused.
            cluster._i += 1
        return len(jobs)

    running: int | None = None if queued is None else cluster.sync(forget_ended)
    if running is None or running < wanted:
        cluster.scale(jobs=max(wanted, len(cluster.worker_spec)))
    return running


def _queued_jobs() -> set[str] | None:
    """Return the ids of this user's queued and running jobs; None if Slurm does not answer."""
    program = find_program("squeue")
    if program is None:
        return None
    command = [program, "--noheader", "--format=%i", f"--user={os.getuid()}"]
    try:
        with ChildProcess(command, environment=safe_environment()) as child:
            listed = child.read_all(ANSWER)
            return None if child.exit_code else set(listed.decode("utf-8", "replace").split())
    except OSError:
        return None


def _export_lines(own_python: bool) -> list[str]:
    """Return lines of the job script that set the import path and disable Dask's file locks.

    Args:
        own_python: whether the user chose another Python, which does not get our import path.
    """
    environment = safe_environment() if own_python else python_environment()
    folders = shlex.quote(environment.get("PYTHONPATH", ""))
    # Shared file systems may not support locks.
    locks = "export DASK_DISTRIBUTED__WORKER__USE_FILE_LOCKING=False"
    return ["export PYTHONSAFEPATH=1", f"export PYTHONPATH={folders}", locks]


@contextmanager
def _quiet_dask_logs() -> Iterator[None]:
    """Silence Dask's log, which would break the progress bar; errors are reported as updates."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
