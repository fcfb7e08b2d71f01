"""Connects to Dask clusters: a running one, one on this machine, or jobs of Slurm."""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from dgn_engine.errors import UserError
from dgn_engine.sweep.workers.processes import ONE_THREAD, cores

INSTALL = "install it with: pip install 'dgn-viewer[cluster]'"
CONNECT = 15.0  # seconds
ANY_PORT = ":0"  # for Dask's own page, so that a second cluster does not meet the first
SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "ucx://")
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
def connected(cluster: str, workers: int) -> Iterator[Any]:
    """Yield a client of the cluster; a cluster that was started here ends with it."""
    check_cluster(cluster)
    try:
        from distributed import Client
    except ImportError:
        raise UserError(f"The executor 'dask' needs Dask; {INSTALL}") from None
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        address: Any = cluster
        if cluster == "local":
            address = stack.enter_context(_local(workers or cores()))
        elif cluster.startswith("slurm"):
            address = stack.enter_context(_slurm(cluster, workers))
        if isinstance(address, str):
            _require_listener(address)
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False, name="dgn")
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
        raise UserError(f"--cluster is '{address}'; it must be of the form tcp://HOST:PORT.")
    try:
        socket.create_connection((host, port), CONNECT).close()
    except OSError as error:
        raise UserError(f"No Dask scheduler answers at {address}: {error}.") from None


def check_cluster(cluster: str) -> None:
    """Raise `UserError` for a text that names none."""
    kind = cluster.partition(":")[0]
    if cluster != "local" and kind != "slurm" and not cluster.startswith(SCHEMES):
        raise UserError(
            f"--cluster is '{cluster}'; it must be tcp://HOST:PORT, local, or slurm, "
            "as in slurm:jobs=8,cores=4,memory=8GB."
        )
    if kind == "slurm":
        slurm_options(cluster)


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
def _local(workers: int) -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=ANY_PORT,
        silence_logs=logging.CRITICAL,
        env=ONE_THREAD,
        memory_limit=0,  # Dask would kill what it holds too large
        preload=["dgn_engine.sweep.workers.dask_task"],
    ) as cluster:
        yield cluster


@contextmanager
def _slurm(text: str, workers: int) -> Iterator[Any]:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise UserError(f"--cluster slurm needs dask-jobqueue; {INSTALL}") from None
    if shutil.which("sbatch") is None:
        raise UserError(
            "--cluster slurm: there is no 'sbatch' here; run this where jobs are begun."
        )
    options = slurm_options(text)
    jobs = int(options.pop("jobs", workers or 1))
    arguments: dict[str, Any] = {"cores": 1, "memory": "4GB", "processes": 1, **options}
    if prologue := arguments.pop("prologue", ""):
        arguments["job_script_prologue"] = [prologue]
    if directive := arguments.pop("directive", ""):
        arguments["job_extra_directives"] = [directive]
    with SLURMCluster(
        scheduler_options={"dashboard": False, "dashboard_address": ANY_PORT}, **arguments
    ) as cluster:
        cluster.scale(jobs=jobs)
        yield cluster


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
