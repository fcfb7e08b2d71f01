"""Clusters: what is started with which options, what is refused, and what ends with the sweep."""

from __future__ import annotations

import logging
import shutil
import socket
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

import pytest

from dgn_engine.errors import UserError
from dgn_engine.sweep import slurm
from dgn_engine.sweep.slurm import check_cluster, connected, slurm_options

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Thing:
    """A cluster or a client that is made up; `open`: those within their block."""

    made: ClassVar[list[Thing]] = []
    open: ClassVar[list[Thing]] = []
    fault: Exception | None = None

    def __init__(self, *given: object, **options: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.given, self.options = given, options
        self.scaled: dict[str, int] = {}
        Thing.made.append(self)

    def __enter__(self) -> Thing:
        Thing.open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Thing.open.remove(self)

    def scale(self, **given: int) -> None:
        self.scaled = given


class Client(Thing):
    pass


class LocalCluster(Thing):
    pass


class SLURMCluster(Thing):
    pass


@pytest.fixture(autouse=True)
def dask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    distributed, jobqueue = ModuleType("distributed"), ModuleType("dask_jobqueue")
    vars(distributed).update(Client=Client, LocalCluster=LocalCluster)
    vars(jobqueue).update(SLURMCluster=SLURMCluster)
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", jobqueue)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(slurm, "cores", lambda: 5)
    Thing.made.clear()
    yield
    assert not Thing.open


@pytest.fixture
def listener() -> Iterator[str]:
    """Somebody who listens on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def start(cluster: str, workers: int = 0) -> list[Thing]:
    """What is made for it; it must all have ended afterwards."""
    with connected(cluster, workers) as client:
        made = list(Thing.made)
        assert Thing.open == made
        assert client is made[-1]
        assert isinstance(client, Client)
        assert logging.getLogger("distributed").level == logging.CRITICAL
        assert logging.getLogger("distributed.client").level == logging.CRITICAL
    return made


def test_a_running_cluster_is_joined_under_a_name_of_our_own(listener: str) -> None:
    (client,) = start(listener)
    assert client.given == (listener,)
    assert client.options == {"timeout": 15.0, "set_as_default": False, "name": "dgn"}


@pytest.mark.parametrize(("workers", "started"), [(0, 5), (2, 2)])
def test_a_cluster_on_this_machine_has_a_process_of_one_thread_for_each_core(
    workers: int, started: int
) -> None:
    cluster, client = start("local", workers)
    assert cluster.options == {
        "n_workers": started, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1",
        "dashboard_address": ":0", "silence_logs": logging.CRITICAL, "env": ONE_THREAD,
        "memory_limit": 0, "preload": ["dgn_engine.sweep.workers.dask_task"],
    }  # fmt: skip
    assert client.given == (cluster,)


NO_PAGE = {"scheduler_options": {"dashboard": False, "dashboard_address": ":0"}}
ONE_JOB = {"cores": 1, "memory": "4GB", "processes": 1, **NO_PAGE}


@pytest.mark.parametrize(
    ("text", "workers", "jobs", "options"),
    [
        ("slurm", 0, 1, ONE_JOB),
        ("slurm", 6, 6, ONE_JOB),
        (
            "slurm:jobs=8,cores=4,memory=8GB,queue=gpu,walltime=02:00:00", 6, 8,
            {**ONE_JOB, "cores": 4, "memory": "8GB", "queue": "gpu", "walltime": "02:00:00"},
        ),
        (
            "slurm:prologue=module load cuda,directive=--gres=gpu:1", 0, 1,
            {
                **ONE_JOB, "job_script_prologue": ["module load cuda"],
                "job_extra_directives": ["--gres=gpu:1"],
            },
        ),
    ],
)  # fmt: skip
def test_jobs_of_slurm_have_the_options_that_were_given(
    text: str, workers: int, jobs: int, options: dict[str, Any]
) -> None:
    cluster, client = start(text, workers)
    assert isinstance(cluster, SLURMCluster)
    assert cluster.options == options
    assert cluster.scaled == {"jobs": jobs}
    assert client.given == (cluster,)


def test_options_of_slurm_are_numbers_and_words() -> None:
    assert slurm_options("slurm") == slurm_options("slurm:") == {}
    assert slurm_options("slurm:jobs=3,account=a=b,interface=ib0,python=/usr/bin/python") == {
        "jobs": 3, "account": "a=b", "interface": "ib0", "python": "/usr/bin/python",
    }  # fmt: skip


KNOWN = "jobs, cores, memory, queue, account, walltime, interface, python, prologue, directive"
FORM = "it must be tcp://HOST:PORT, local, or slurm, as in slurm:jobs=8,cores=4,memory=8GB."


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ("somewhere", f"--cluster is 'somewhere'; {FORM}"),
        ("http://host:1", f"--cluster is 'http://host:1'; {FORM}"),
        ("slurm:cpus=3", f"--cluster slurm knows no 'cpus=3'; give NAME=VALUE of {KNOWN}."),
        ("slurm:jobs", f"--cluster slurm knows no 'jobs'; give NAME=VALUE of {KNOWN}."),
        ("slurm:jobs=all", "--cluster slurm: jobs is 'all', not a number."),
        ("tcp://", "--cluster is 'tcp://'; it must be of the form tcp://HOST:PORT."),
        ("tcp://host", "--cluster is 'tcp://host'; it must be of the form tcp://HOST:PORT."),
        ("tcp://:80", "--cluster is 'tcp://:80'; it must be of the form tcp://HOST:PORT."),
        ("tcp://host:x", "--cluster is 'tcp://host:x'; it must be of the form tcp://HOST:PORT."),
    ],
)
def test_a_text_that_names_no_cluster_is_one_sentence(cluster: str, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        start(cluster)
    assert str(refused.value) == sentence
    assert not Thing.made


@pytest.mark.parametrize(
    "cluster", ["local", "slurm", "tcp://h:1", "tls://h:1", "ws://h:1", "wss://h:1", "ucx://h:1"]
)
def test_every_way_to_reach_a_scheduler_is_taken(cluster: str) -> None:
    check_cluster(cluster)


def test_a_port_where_nobody_listens_is_told_before_a_client_is_made(listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UserError, match=f"No Dask scheduler answers at {address}: .*refused"):
        start(address)
    assert not Thing.made


@pytest.mark.parametrize("fault", [OSError("no handshake"), ValueError("no handshake")])
def test_who_listens_and_is_no_scheduler_is_told(
    listener: str, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(Client, "fault", fault)
    with pytest.raises(UserError, match=f"No Dask scheduler answers at {listener}: no handshake."):
        start(listener)


def test_what_is_not_installed_or_not_here_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="there is no 'sbatch' here; run this where jobs are begun"):
        start("slurm")
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(UserError, match=r"--cluster slurm needs dask-jobqueue; install it with"):
        start("slurm")


def test_the_log_of_dask_is_as_loud_afterwards_as_it_was(listener: str) -> None:
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    try:
        for logger, level in zip(loggers, (logging.INFO, logging.WARNING), strict=True):
            logger.setLevel(level)
        start(listener)
        assert [logger.level for logger in loggers] == [logging.INFO, logging.WARNING]
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
