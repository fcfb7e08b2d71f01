"""Clusters: what is started with which options, what is refused, and what ends with the sweep."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shlex
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from dgn_engine.confinement.start_folder import import_folders
from dgn_engine.errors import UserError
from dgn_engine.sweep import cluster_tls, slurm
from dgn_engine.sweep.cluster_tls import ClusterTls, tls_warning
from dgn_engine.sweep.slurm import check_cluster, connect_client, slurm_options
from tests.refusals import refused

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
        self.workers: dict[str, Any] = {}
        self.worker_spec: dict[str, object] = {}
        self._i = 0  # as of Dask's: the number in the name of the newest worker
        Thing.made.append(self)

    def __enter__(self) -> Thing:
        Thing.open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Thing.open.remove(self)

    def scale(self, **given: int) -> None:
        self.scaled = given

    def sync(self, function: Callable[[], Coroutine[Any, Any, int]]) -> int:
        return asyncio.run(function())


class Client(Thing):
    pass


class LocalCluster(Thing):
    pass


class SLURMCluster(Thing):
    pass


class SLURMJob:
    submit_command = "sbatch"
    cancel_command = "scancel"
    fault: Exception | None = None  # of the program that submits it

    async def _submit_job(self, script: str) -> str:
        if self.fault is not None:
            raise self.fault
        return f"Submitted {script}"

    def _job_id_from_submit_output(self, answer: str) -> str:
        return answer.split()[-1]

    def submitted(self) -> str | None:
        job_id: str | None = self._job_id_from_submit_output(asyncio.run(self._submit_job("7")))
        return job_id


class Security:
    """Dask's, as far as it is asked; `configured`: what Dask's own configuration says."""

    configured: ClassVar[dict[str, str]] = {}

    def __init__(self, require_encryption: bool = False, **given: str) -> None:
        assert require_encryption
        names = [
            "ca_file",
            *(
                f"{role}_{what}"
                for role in ("client", "scheduler", "worker")
                for what in ("cert", "key")
            ),
        ]
        for name in names:
            known = self.configured.get(f"tls_{name}")
            setattr(self, f"tls_{name}", given.pop(f"tls_{name}", known))
        assert not given

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @classmethod
    def temporary(cls) -> Security:
        return cls(
            require_encryption=True,
            tls_ca_file="a\nca",
            tls_worker_cert="a\ncert",
            tls_worker_key="a\nkey",
        )


SETTINGS: dict[str, object] = {}  # of Dask, while they hold


@contextmanager
def configured(settings: dict[str, object]) -> Iterator[None]:
    SETTINGS.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del SETTINGS[name]


PORTS = "dgn_engine.sweep.workers.dask_ports"


@contextmanager
def guarded_ports() -> Iterator[None]:
    SETTINGS["ports"] = "guarded"
    try:
        yield
    finally:
        SETTINGS.pop("ports", None)


@pytest.fixture(autouse=True)
def dask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = (
        "distributed",
        "dask_jobqueue",
        "dask_jobqueue.slurm",
        "cryptography",
        "dask",
        "dask.config",
        PORTS,
    )
    modules = {name: ModuleType(name) for name in names}
    vars(modules["distributed"]).update(Client=Client, LocalCluster=LocalCluster, Security=Security)
    vars(modules["dask_jobqueue"]).update(SLURMCluster=SLURMCluster)
    vars(modules["dask_jobqueue.slurm"]).update(SLURMJob=SLURMJob)
    vars(modules["dask"]).update(config=modules["dask.config"])
    vars(modules["dask.config"]).update(set=configured)
    vars(modules[PORTS]).update(guarded_ports=guarded_ports)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Security, "configured", {})
    monkeypatch.setattr(slurm, "find_program", lambda name: f"/opt/the slurm/{name}")
    monkeypatch.setattr(slurm, "start_resource_tracker", lambda: None)
    monkeypatch.setattr(slurm, "usable_cores", lambda: 5)
    Thing.made.clear()
    SETTINGS.clear()
    yield
    assert not Thing.open
    assert not SETTINGS


@pytest.fixture
def listener() -> Iterator[str]:
    """Somebody who listens on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


OFF = ClusterTls(off=True)
ON = ClusterTls()
STARTED_BY = "distributed.worker.multiprocessing-method"


def start(
    cluster: str, workers: int = 0, tls: ClusterTls = ON, root: Path = Path("/nowhere/sweep")
) -> list[Thing]:
    """What is made for it; it must all have ended afterwards."""
    with connect_client(cluster, workers, tls, root) as client:
        ours = not cluster.startswith(("tcp", "tls"))
        assert ("ports" in SETTINGS) == ours
        # nannies start their workers as we start ours
        assert SETTINGS.get(STARTED_BY) == ("dgn_spawn" if cluster == "local" else None)
        assert ("temporary-directory" in SETTINGS) == ours  # another's cluster keeps its own
        scratch = Path(str(SETTINGS.get("temporary-directory", "/nowhere")))
        if ours:
            assert scratch.stat().st_mode & 0o777 == 0o700
            sys.path.insert(0, str(scratch / "dask-scratch-space"))  # as Dask does
        made = list(Thing.made)
        assert Thing.open == made
        assert client is made[-1]
        assert isinstance(client, Client)
        assert logging.getLogger("distributed").level == logging.CRITICAL
        assert logging.getLogger("distributed.client").level == logging.CRITICAL
    assert not scratch.exists()
    assert not [one for one in sys.path if one.startswith(str(scratch))]
    return made


def test_dask_keeps_its_scratch_space_to_itself_also_where_the_sweep_fails() -> None:
    made: list[Path] = []

    def fail() -> None:
        with connect_client("local", 1, ON, Path("/nowhere")):
            made.append(Path(str(SETTINGS["temporary-directory"])))
            (made[0] / "left").touch()
            raise UserError("It was stopped.")

    with pytest.raises(UserError, match="stopped"):
        fail()
    assert not made[0].exists()


def test_a_scratch_space_that_is_still_written_to_at_the_end_fails_no_sweep() -> None:
    def in_use(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, "a worker wrote a file meanwhile")

    with pytest.MonkeyPatch.context() as patch:
        with connect_client("local", 1, ON, Path("/nowhere")):
            scratch = Path(str(SETTINGS["temporary-directory"]))
            patch.setattr(os, "rmdir", in_use)
        assert scratch.exists()
    scratch.rmdir()


def test_a_running_cluster_is_joined_under_a_name_of_our_own(listener: str) -> None:
    (client,) = start(listener, tls=OFF)
    assert client.given == (listener,)
    assert client.options == {"timeout": 15.0, "set_as_default": False, "name": "dgn"}


@pytest.mark.parametrize(("workers", "started"), [(0, 5), (2, 2)])
def test_a_cluster_on_this_machine_has_a_process_of_one_thread_for_each_core(
    workers: int, started: int
) -> None:
    cluster, client = start("local", workers)
    security = cluster.options.pop("security")
    assert security.tls_worker_key == "a\nkey"
    assert cluster.options == {
        "n_workers": started,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        "env": ONE_THREAD,
        "memory_limit": 0,
        "preload": [PRELOAD],
    }
    assert client.given == (cluster,)


PRELOAD = "dgn_engine.sweep.workers.dask_preload"
MODULES_THERE = [
    "export PYTHONSAFEPATH=1",
    f"export PYTHONPATH={shlex.quote(os.pathsep.join(import_folders()))}",
    "export DASK_DISTRIBUTED__WORKER__USE_FILE_LOCKING=False",
]
WARNED = "--signal=B:USR1@120"  # Slurm tells the worker that its time is nearly up
ONE_JOB = {
    "cores": 1,
    "memory": "4GB",
    "processes": 1,
    "scheduler_options": {"dashboard": False, "dashboard_address": None},
    "job_script_prologue": MODULES_THERE,
    "job_extra_directives": [WARNED],
    "python": f"exec {sys.executable} -s -P",
    "worker_extra_args": [
        "--no-dashboard",
        "--preload",
        PRELOAD,
        "--preload-nanny",
        PRELOAD,
    ],
}


@pytest.mark.parametrize(
    ("text", "workers", "jobs", "options"),
    [
        ("slurm", 0, 1, ONE_JOB),
        ("slurm", 6, 6, ONE_JOB),
        (
            "slurm:jobs=8,cores=4,memory=8GB,queue=gpu,walltime=02:00:00",
            6,
            8,
            {**ONE_JOB, "cores": 4, "memory": "8GB", "queue": "gpu", "walltime": "02:00:00"},
        ),
        (
            "slurm:prologue=module load cuda,directive=--gres=gpu:1",
            0,
            1,
            {
                **ONE_JOB,
                "job_script_prologue": [*MODULES_THERE, "module load cuda"],
                "job_extra_directives": [WARNED, "--gres=gpu:1"],
            },
        ),
        (
            "slurm:python=/opt/python,directive=--signal=B:USR1@600",
            0,
            1,
            {
                **ONE_JOB,
                "python": "exec /opt/python -P",
                "job_script_prologue": [
                    MODULES_THERE[0],
                    "export PYTHONPATH=/opt/modules",
                    MODULES_THERE[2],
                ],
                "job_extra_directives": ["--signal=B:USR1@600"],
            },
        ),
    ],
)
def test_jobs_of_slurm_have_the_options_that_were_given(
    text: str,
    workers: int,
    jobs: int,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "/opt/modules", "relative"]))
    cluster, client = start(text, workers, OFF, tmp_path)
    assert isinstance(cluster, SLURMCluster)
    job = cluster.options.pop("job_cls")
    programs = ["'/opt/the slurm/sbatch'", "'/opt/the slurm/scancel'"]
    assert [job.submit_command, job.cancel_command] == programs
    folder = Path(cluster.options.pop("log_directory"))
    assert Path(cluster.options.pop("local_directory")).parent == folder
    assert folder.parent == tmp_path / "logs"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []
    assert cluster.options["job_extra_directives"].pop(0) == f"--chdir={folder}"
    assert cluster.options == options
    assert cluster.scaled == {"jobs": jobs}
    assert client.given == (cluster,)


def test_options_of_slurm_are_numbers_and_words() -> None:
    assert slurm_options("slurm") == slurm_options("slurm:") == {}
    assert slurm_options("slurm:jobs=3,account=a=b,interface=ib0,python=/usr/bin/python") == {
        "jobs": 3,
        "account": "a=b",
        "interface": "ib0",
        "python": "/usr/bin/python",
    }


@pytest.mark.parametrize(
    ("cluster", "kind", "value"),
    [
        ("somewhere", "no-choice", "somewhere"),
        ("http://host:1", "no-choice", "http://host:1"),
        ("slurm:cpus=3", "unknown-key", "cpus=3"),
        ("slurm:jobs", "unknown-key", "jobs"),
        ("slurm:jobs=all", "not-a-number", "all"),
        ("tcp://", "no-choice", "tcp://"),
        ("tcp://host", "no-choice", "tcp://host"),
        ("tcp://:80", "no-choice", "tcp://:80"),
        ("tcp://host:x", "no-choice", "tcp://host:x"),
    ],
)
def test_a_text_that_names_no_cluster_is_refused(cluster: str, kind: str, value: str) -> None:
    with refused(kind, value=value):
        start(cluster, tls=OFF)
    assert not Thing.made


@pytest.mark.parametrize(
    "cluster", ["local", "slurm", "tcp://h:1", "tls://h:1", "ws://h:1", "wss://h:1", "ucx://h:1"]
)
def test_every_way_to_reach_a_scheduler_is_taken(cluster: str) -> None:
    check_cluster(cluster, ON if cluster[:3] in ("loc", "slu", "tls", "wss") else OFF)


def test_a_port_where_nobody_listens_is_told_before_a_client_is_made(listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with refused("no-answer"):
        start(address, tls=OFF)
    assert not Thing.made


@pytest.mark.parametrize("fault", [OSError("no handshake"), ValueError("no handshake")])
def test_who_listens_and_is_no_scheduler_is_told(
    listener: str, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(Client, "fault", fault)
    with refused("no-answer"):
        start(listener, tls=OFF)


def test_what_is_not_installed_or_not_here_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm, "find_program", lambda _: None)
    with refused("not-installed", value="sbatch"):
        start("slurm")
    monkeypatch.setattr(slurm, "find_program", lambda _: "/usr/bin/sbatch")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for cluster in ("local", "slurm"):
        with refused("not-installed", value="cryptography"):
            start(cluster)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with refused("not-installed", value="dask-jobqueue"):
        start("slurm")


def test_the_log_of_dask_is_as_loud_afterwards_as_it_was(listener: str) -> None:
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    try:
        for logger, level in zip(loggers, (logging.INFO, logging.WARNING), strict=True):
            logger.setLevel(level)
        start(listener, tls=OFF)
        assert [logger.level for logger in loggers] == [logging.INFO, logging.WARNING]
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


# TLS


@pytest.mark.parametrize(
    ("cluster", "tls", "kind", "value"),
    [
        ("tcp://h:1", ON, "no-tls", "tcp://h:1"),
        ("", OFF, "contradiction", "--no-tls"),
        ("", ClusterTls(key="k"), "contradiction", "--tls-key"),
        ("slurm", ClusterTls("a", off=True), "contradiction", "--tls-ca-file"),
        ("local", OFF, "contradiction", "--no-tls"),
        ("local", ClusterTls(cert="c"), "contradiction", "--tls-cert"),
        ("tls://h:1", OFF, "contradiction", "tls://h:1"),
    ],
)
def test_what_contradicts_itself_or_is_left_open_unasked_is_refused(
    cluster: str, tls: ClusterTls, kind: str, value: str
) -> None:
    with refused(kind, value=value):
        cluster_tls.check_tls(cluster, tls)


@pytest.mark.parametrize("cluster", ["ws://h:1", "ucx://h:1"])
def test_no_other_way_without_tls_is_open_unasked(cluster: str) -> None:
    with refused("no-tls"):
        check_cluster(cluster, ON)


def test_a_cluster_without_tls_is_warned_of() -> None:
    assert tls_warning("slurm", ON) == tls_warning("local", ON) == ""
    assert tls_warning("tcp://h:1", OFF).startswith("--no-tls: ")
    assert tls_warning("slurm:jobs=2", OFF) != tls_warning("tcp://h:1", OFF)


def test_jobs_find_temporary_certificates_in_a_folder_of_the_user_alone(tmp_path: Path) -> None:
    left = tmp_path / ".tls-killed12"
    left.mkdir()
    (left / "worker_key.pem").write_text("old")
    with connect_client("slurm", 1, ON, tmp_path):
        security = Thing.made[0].options["security"]
        (folder,) = tmp_path.glob(".tls-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        for name, text in (("ca_file", "ca"), ("worker_cert", "cert"), ("worker_key", "key")):
            path = Path(getattr(security, f"tls_{name}"))
            assert path.parent == folder
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.read_text() == f"a\n{text}"
        assert security.tls_client_key == security.tls_scheduler_key == security.tls_worker_key
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_only_certificates_are_removed_of_what_a_killed_sweep_left(tmp_path: Path) -> None:
    kept = [
        ".tls-x/worker_key.pem",
        ".tls-abcdefgh/note",
        ".tls-abcdefg1/ca_file.pem/file",
        ".tls-abcdefg2",
    ]
    for name in kept:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".tls-abcdefgh" / "worker_key.pem").write_text("old")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "worker_key.pem").write_text("another's")
    (tmp_path / ".tls-abcdefg3").symlink_to(elsewhere)
    cluster_tls.remove_leftovers(tmp_path)
    assert all((tmp_path / name).is_file() for name in kept)
    assert not (tmp_path / ".tls-abcdefgh" / "worker_key.pem").exists()
    assert (elsewhere / "worker_key.pem").exists()


def test_jobs_print_into_no_link_that_lies_in_the_folder_of_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "elsewhere")
    with refused("not-writable"):
        start("slurm", root=tmp_path)
    assert not list((tmp_path / "elsewhere").iterdir())


class Job:
    def __init__(self, job_id: str | None) -> None:
        self.job_id = job_id


@pytest.mark.parametrize(
    ("queued", "wanted", "there", "left", "asked"),
    [
        ("1\n2\n3", 3, 3, {"a", "b", "c"}, None),
        ("2\n9\n", 3, 1, {"b"}, 3),
        ("2\n", 1, 1, {"b"}, None),  # of more there is no need
        ("", 2, 0, set(), 2),
        (None, 2, None, {"a", "b", "c"}, 3),  # Slurm does not answer
    ],
)
def test_jobs_that_ended_are_submitted_again_under_other_names(
    queued: str | None,
    wanted: int,
    there: int | None,
    left: set[str],
    asked: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    squeue = tmp_path / "squeue"
    answer = "exit 1" if queued is None else f"printf '{queued}'"
    squeue.write_text(f'#!/bin/sh\n[ "$1 $2" = "--noheader --format=%i" ] && {answer}\n')
    squeue.chmod(0o755)
    monkeypatch.setattr(slurm, "find_program", lambda name: str(tmp_path / name))
    cluster = SLURMCluster()
    cluster.workers = {"a": Job("1"), "b": Job("2"), "c": Job("3")}
    cluster.worker_spec = dict.fromkeys(cluster.workers, None)
    assert slurm.replace_ended_jobs(cluster, wanted) == there
    assert set(cluster.workers) == set(cluster.worker_spec) == left
    assert cluster._i == 3 - len(left)  # names that Dask has not given away yet
    assert cluster.scaled == ({} if asked is None else {"jobs": asked})


def test_a_refusal_of_sbatch_is_kept_in_its_own_words(tmp_path: Path) -> None:
    cluster, _ = start("slurm", root=tmp_path)
    job_class = cluster.options["job_cls"]
    assert (job_class().submitted(), job_class.refusal) == ("7", "")
    job_class.fault = RuntimeError("Exit code: 1\nstderr:\nsbatch: error: no such queue\n")
    assert job_class().submitted() is None
    assert job_class.refusal == "sbatch: error: no such queue"


def test_a_folder_that_a_job_script_cannot_name_is_refused(tmp_path: Path) -> None:
    odd = tmp_path / "two words; rm"
    odd.mkdir()
    with refused("no-name"):
        start("slurm", root=odd)
    assert not list(odd.iterdir())


@pytest.fixture
def certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ClusterTls:
    """Files that pass for certificates."""
    monkeypatch.setattr(cluster_tls, "check_certificates", lambda security: None)
    return ClusterTls(*(str(tmp_path / name) for name in ("ca", "cert", "key")))


def test_the_users_certificates_are_those_of_client_scheduler_and_jobs(
    certificates: ClusterTls, tmp_path: Path, listener: str
) -> None:
    tls, address = certificates, listener.replace("tcp", "tls")
    (client,) = start(address, tls=tls)
    assert client.given == (address,)
    Thing.made.clear()
    cluster, _ = start("slurm", tls=tls, root=tmp_path)
    assert not list(tmp_path.glob(".tls-*"))
    for security in (client.options["security"], cluster.options["security"]):
        assert security.tls_ca_file == tls.ca_file
        for role in ("client", "scheduler", "worker"):
            assert getattr(security, f"tls_{role}_cert") == tls.cert
            assert getattr(security, f"tls_{role}_key") == tls.key


def test_tls_without_certificates_is_refused_unless_dask_itself_has_some(
    certificates: ClusterTls, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = listener.replace("tcp", "tls")
    with refused("no-certificate", value=("--tls-ca-file", "--tls-cert")):
        start(address)
    with refused("no-certificate", value=("--tls-cert",)):
        start(address, tls=ClusterTls("ca"))
    own = {"tls_ca_file": "/etc/ca", "tls_client_cert": "/etc/cert"}
    monkeypatch.setattr(Security, "configured", own)
    (client,) = start(address)
    assert client.options["security"].tls_client_cert == "/etc/cert"


@pytest.mark.parametrize(
    ("content", "kind"),
    [(None, "no-file"), ("", "wrong-file"), ("no certificate", "damaged")],
)
def test_files_that_are_no_certificates_are_refused(
    content: str | None, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    tls = ClusterTls(str(path), str(path), str(path))
    with refused(kind, value=str(path)):
        start("tls://127.0.0.1:9", tls=tls)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "x")

    class Context:
        def __init__(self, _: int) -> None:
            pass

        def load_verify_locations(self, cafile: str) -> None:
            assert cafile == file

        def load_cert_chain(self, cert: str, key: str, password: Callable[[], str]) -> None:
            assert password() == ""
            raise ssl.SSLError("bad password read")

    monkeypatch.setattr(ssl, "SSLContext", Context)
    (tmp_path / "x").write_text("x")
    security = Security(require_encryption=True, tls_ca_file=file, tls_client_cert=file)
    with refused("damaged"):
        cluster_tls.check_certificates(security)
