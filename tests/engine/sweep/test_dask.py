"""A real scheduler and two worker processes on the loopback: who reaches them, one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.slurm import local_cluster
from dgn_engine.sweep.workers import find_executor
from dgn_engine.sweep.workers.dask_workers import DaskExecutor
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.listeners import Listener, find_descendants, find_listeners, read_reply
from tests.engine.sweep.small import LONG, ProgressLog, mixed_units, read_results, run_units
from tests.refusals import refused

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed (it comes with the extra 'cluster')"
)
pytest.importorskip("cryptography", reason="TLS within a cluster needs cryptography")
dask_ports = pytest.importorskip("dgn_engine.sweep.workers.dask_ports")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes; one that is killed is replaced by its nanny under another address."""
    before = set(threading.enumerate())
    with local_cluster(2) as cluster:
        yield cluster
    gc.collect()
    until = time.monotonic() + 120.0  # the loop's thread ends a moment after its cluster
    while (left := _left(before)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert not multiprocessing.active_children()


def _left(before: set[threading.Thread]) -> set[str]:
    """Threads that are new, but for those that Dask keeps as long as the process lives."""
    names = {thread.name for thread in set(threading.enumerate()) - before}
    return {name for name in names if not name.startswith(("Profile", "Dask-Offload"))}


def written(security: Any, folder: Path) -> ClusterTls:
    """The cluster's certificates as files, as a user has them."""
    for name in ("ca_file", "client_cert", "client_key"):
        (folder / name).write_text(getattr(security, f"tls_{name}"))
    return ClusterTls(*(str(folder / name) for name in ("ca_file", "client_cert", "client_key")))


@pytest.fixture
def ports(cluster: Any) -> list[Listener]:
    """Where this process (the scheduler lives in it) and the workers listen."""
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
    found = find_listeners([os.getpid(), *find_descendants(os.getpid())])
    assert len(found) == 5  # of the scheduler, two nannies, two workers; no HTTP server
    return found


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who listens")


@needs_proc
@pytest.mark.slow
def test_nothing_listens_but_on_the_loopback(ports: list[Listener]) -> None:
    assert {one.address for one in ports} == {"127.0.0.1"}


@needs_proc
@pytest.mark.slow
def test_who_has_no_certificate_of_the_cluster_is_answered_nothing(
    cluster: Any, ports: list[Listener]
) -> None:
    """On every port: plain Dask, TLS without and with a foreign certificate, and HTTP."""

    def answers(one: Listener) -> list[bytes]:
        contexts = (stranger(), stranger(distributed.Security.temporary()))
        plain = (b"GET / HTTP/1.0\r\n\r\n", b"")  # to nothing Dask would greet
        return [read_reply(one, words) for words in plain] + [
            read_reply(one, b"x", context) for context in contexts
        ]

    with ThreadPoolExecutor() as several:
        assert [*several.map(answers, ports)] == [[b""] * 4] * len(ports)
    address = cluster.scheduler_address
    asyncio.run(reach(address, cluster.security))  # so would its own client
    for place, security in (
        (address.replace("tls", "tcp"), distributed.Security()),
        (address, distributed.Security.temporary()),
    ):
        with pytest.raises(OSError):  # noqa: PT011 - Dask has several words for it
            asyncio.run(reach(place, security, 0.5))


@needs_proc
@pytest.mark.slow
def test_connections_without_a_certificate_are_few_and_end(
    cluster: Any, ports: list[Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the scheduler, in this process: a real client is let in beside them."""
    monkeypatch.setattr(dask_ports, "HANDSHAKE", 2.0)
    monkeypatch.setattr(dask_ports, "MOST", 16)
    address = cluster.scheduler_address
    (one,) = (each for each in ports if address.endswith(f":{each.port}"))
    with contextlib.ExitStack() as stack:
        lines = [
            stack.enter_context(socket.create_connection((one.address, one.port), 60.0))
            for _ in range(48)
        ]
        for line in lines[:32]:  # in the order in which they came
            assert line.recv(1) == b""
        asyncio.run(reach(address, cluster.security))
        for line in lines[32:]:
            assert line.recv(1) == b""


@needs_proc
@pytest.mark.slow
def test_a_connection_that_has_shown_its_certificate_is_not_ended_by_later_ones(
    cluster: Any, ports: list[Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_ports, "MOST", 4)
    address, security = cluster.scheduler_address, cluster.security

    async def talk() -> Any:
        from distributed.comm import connect

        first = await connect(address, timeout=60.0, **security.get_connection_args("client"))
        for _ in range(6):
            await reach(address, security)
        await first.write({"op": "identity", "reply": True})
        answer = await first.read()
        first.abort()
        return answer

    assert asyncio.run(talk())["type"] == "Scheduler"


async def reach(address: str, security: Any, seconds: float = 2.0) -> None:
    """Connect as a client of Dask does; raises `OSError`."""
    from distributed.comm import connect

    options = security.get_connection_args("client")
    (await connect(address, timeout=seconds, **options)).abort()


def stranger(security: Any = None) -> ssl.SSLContext:
    """TLS that trusts everybody, without a certificate or with one of another cluster."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if security is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(security.tls_client_key + security.tls_client_cert)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@pytest.mark.faults
@pytest.mark.timeout(600)  # three processes import torch: seconds, minutes on a crowded machine
def test_a_killed_worker_changes_no_bit_and_a_stopped_sweep_goes_on(
    cluster: Any, tmp_path: Path, progress_log: ProgressLog
) -> None:
    units, root = mixed_units(), tmp_path / "sweep"
    run_units(SerialExecutor(), units, tmp_path / "serial")
    assert cluster.scheduler_address.startswith("tls://")
    tls = written(cluster.security, tmp_path)
    executor = find_executor("dask", units, cluster.scheduler_address, tls=tls)
    far: dict[str, float] = {}

    def watch(progress: UnitProgress) -> None:
        far[progress.unit] = progress.fraction

    states = run_units(executor, units, root, watch, lambda: far.get(LONG.id, 0.0) > 0.1)
    assert states[LONG.id] == "interrupted"

    killed: list[int] = []

    def kill(progress: UnitProgress) -> None:
        progress_log(progress)
        if progress.unit == LONG.id and progress.fraction > 0.3 and not killed:
            holder = (root / "units" / LONG.id / "lock").read_text()
            killed.append(int(holder.split('"pid": ')[1].split(",")[0]))
            os.kill(killed[0], signal.SIGKILL)

    states = run_units(executor, units, root, kill)
    assert killed
    assert any("is gone" in progress.trouble for progress in progress_log.of(LONG.id))
    assert set(states.values()) <= {"done", "skipped"}
    assert read_results(units, root) == read_results(units, tmp_path / "serial")


def test_a_cluster_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn_engine.sweep.slurm.CONNECT", 0.5)
    with refused("no-answer"):
        run_units(DaskExecutor("tcp://127.0.0.1:9", tls=ClusterTls(off=True)), [LONG], tmp_path)


def test_slurm_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("not-installed", value="sbatch"):
        run_units(DaskExecutor("slurm:jobs=1"), [LONG], tmp_path)
