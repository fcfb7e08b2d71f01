"""Connects to Dask clusters: a running one, one on this machine, or jobs of Slurm."""

from __future__ import annotations

import logging
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dgn_engine.confinement.child import python_command, python_environment, usable_cores
from dgn_engine.confinement.spawn_context import METHOD, start_resource_tracker
from dgn_engine.confinement.start_folder import find_program, safe_environment
from dgn_engine.errors import UserError
from dgn_engine.sweep.cluster_tls import (
    INSTALL,
    SCHEMES,
    ClusterTls,
    check_tls,
    for_jobs,
    given_security,
    temporary_security,
)
from dgn_engine.sweep.workers.processes import ONE_THREAD

CONNECT = 15.0  # seconds
HERE = "127.0.0.1:0"  # where Dask's HTTP servers listen, which cannot be left out
# and nothing is to be had from them: they have no TLS, and every user of the machine reaches them
NO_PAGES: Mapping[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
NO_PAGES_THERE = "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'"  # in the script of a job
PRELOAD = "dgn_engine.sweep.workers.dask_task"
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
        raise UserError(f"The executor 'dask' needs Dask; {INSTALL}") from None
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
            raise UserError(f"No Dask scheduler answers at {cluster}: {error}.") from None
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
        raise UserError(f"--cluster is '{address}'; it must be of the form tls://HOST:PORT.")
    try:
        socket.create_connection((host, port), CONNECT).close()
    except OSError as error:
        raise UserError(f"No Dask scheduler answers at {address}: {error}.") from None


def check_cluster(cluster: str, tls: ClusterTls) -> None:
    """Raise `UserError` for a text that names none, and where it needs TLS and has none."""
    kind = cluster.partition(":")[0]
    if cluster != "local" and kind != "slurm" and not cluster.startswith(tuple(SCHEMES)):
        raise UserError(
            f"--cluster is '{cluster}'; it must be tls://HOST:PORT, local, or slurm, "
            "as in slurm:jobs=8,cores=4,memory=8GB."
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
            raise UserError(f"--cluster slurm knows no '{text}'; give NAME=VALUE of {known}.")
        try:
            options[name] = _SLURM[name](value)
        except ValueError:
            raise UserError(f"--cluster slurm: {name} is '{value}', not a number.") from None
    return options


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Yield a cluster of this machine, which listens on the loopback alone and speaks TLS."""
    import dask
    from distributed import LocalCluster

    start_resource_tracker()
    with (
        dask.config.set({**NO_PAGES, "distributed.worker.multiprocessing-method": METHOD}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=temporary_security(),
            scheduler_kwargs={"dashboard": False, "dashboard_address": HERE},
            dashboard_address=HERE,
            silence_logs=logging.CRITICAL,
            env=ONE_THREAD,
            memory_limit=0,  # Dask would kill what it holds too large
            preload=[PRELOAD],
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _slurm(text: str, workers: int, tls: ClusterTls, root: Path) -> Iterator[Any]:
    """Yield a cluster whose workers are jobs.

    Slurm signals a job's first process before its time is up: that is the worker itself (`exec`),
    which then lets its run save itself.
    """
    try:
        import dask
        from dask_jobqueue import SLURMCluster
        from dask_jobqueue.slurm import SLURMJob
    except ImportError:
        raise UserError(f"--cluster slurm needs dask-jobqueue; {INSTALL}") from None
    submit, cancel = find_program("sbatch"), find_program("scancel")
    if submit is None:
        raise UserError(
            "--cluster slurm: there is no 'sbatch' here; run this where jobs are begun."
        )
    arguments, jobs = job_arguments(text, workers)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(NO_PAGES))
        if not tls.off:
            security = given_security(text, tls) if tls.files else temporary_security()
            arguments["security"] = stack.enter_context(for_jobs(security, root))
        programs = {"submit_command": submit, "cancel_command": cancel or "scancel"}
        commands = {name: shlex.quote(program) for name, program in programs.items()}
        job = type("Job", (SLURMJob,), commands)
        cluster = stack.enter_context(SLURMCluster(job_cls=job, **arguments))
        cluster.scale(jobs=jobs)
        yield cluster


def job_arguments(text: str, workers: int) -> tuple[dict[str, Any], int]:
    """Return the arguments of a `SLURMCluster`, and how many jobs are wanted."""
    options = slurm_options(text)
    jobs = int(options.pop("jobs", workers or 1))
    arguments: dict[str, Any] = {"cores": 1, "memory": "4GB", "processes": 1, **options}
    prologue = arguments.pop("prologue", "")
    named = "python" in arguments
    arguments["job_script_prologue"] = [
        NO_PAGES_THERE, *_modules_there(named), *([prologue] if prologue else []),
    ]  # fmt: skip
    directive = arguments.pop("directive", "")
    warned = f"--signal=B:USR1@{WARNING}"
    own = directive.startswith("--signal")
    arguments["job_extra_directives"] = [one for one in ("" if own else warned, directive) if one]
    # Another Python keeps its user site: nobody knows what is installed only there.
    python = f"{arguments['python']} -P" if named else shlex.join(python_command())
    arguments["python"] = f"exec {python}"
    arguments["worker_extra_args"] = [
        "--dashboard-address", HERE, "--preload", PRELOAD, "--preload-nanny", PRELOAD,
    ]  # fmt: skip
    arguments["scheduler_options"] = {"dashboard": False, "dashboard_address": HERE}
    return arguments, jobs


def _modules_there(named: bool) -> list[str]:
    """Return lines of a job's script: nothing is imported from the folder where it begins.

    `named`: the user named a Python, which is not given the folders of ours.
    """
    environment = safe_environment() if named else python_environment()
    folders = shlex.quote(environment.get("PYTHONPATH", ""))
    return ["export PYTHONSAFEPATH=1", f"export PYTHONPATH={folders}"]


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
