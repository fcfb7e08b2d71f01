"""False servers: a mirror takes little memory, writes nothing but a run's files, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, LineLimits, run_mirror, served_run
from dgn_engine.storage.remote.run_mirror import RunMirror, mirror_until_end
from dgn_engine.storage.remote.served_run import LineDroppedError, ServedRun, SlowReplyError
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs.storage_limits import StorageLimits, write_limits
from tests.engine.storage.remote.peers import (
    FRAME,
    LOG,
    OK,
    ZEROS,
    Answer,
    Send,
    false_server,
    files,
    listing,
    reply,
)
from tests.refusals import refused

LARGE = 192 << 20  # bytes of a file
MEMORY = 128 << 20  # … that `dgn mirror` may take at most

# What the command's peak was, in KiB, stands in the last line of what it prints.
MEASURED = """
import sys
from pathlib import Path
from dgn_engine.cli import main
code = main()
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
sys.exit(code)
"""


def mirror_in_child(port: int, folder: Path) -> tuple[int, str, int]:
    """`dgn mirror` in a process: its exit code, what it complained of, and its peak in bytes."""
    child = subprocess.run(
        [sys.executable, "-c", MEASURED, "mirror", f"dgn://{LOCAL}:{port}", str(folder)],
        env=os.environ | {"DGN_TOKEN": "t", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return child.returncode, child.stderr, int(child.stdout.split()[-1]) << 10


def unexpected(sentence: str, lost: bool) -> None:
    pytest.fail(sentence)


linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read there")
_LIST = '{"protocol":1,"files":[["log.jsonl",0,1,1]],"running":true,"name":"x'


def as_many_files_as_may_be() -> bytes:
    named = [
        [f"frames/{n:09}-000001-{n:016x}.safetensors", 1 << 29, n << 40, n << 40]
        for n in range(served_run.FILES - 1)
    ]
    whole = listing(LOG, *named)
    assert len(whole) < served_run.LISTING
    return whole


# Lists and the exit code; what is wrong with those that are refused.
GREEDY: dict[str, tuple[Any, int]] = {
    "a large log": (lambda: listing(["log.jsonl", LARGE, 1, 1]), 0),
    "a large damaged frame": (lambda: listing(LOG, [FRAME, LARGE, 1, 2]), 2),
    "many files": (as_many_files_as_may_be, 2),
    "many lists": (lambda: b'{"files":[' + b"[]," * (4 << 20) + b"[]]}", 2),
    "four bytes a character": (lambda: f'{_LIST}{"a" * (11 << 20)}\U0001f600"}}'.encode(), 2),
    "escaped": (lambda: f'{_LIST}{"a" * (11 << 20)}\\ud83d\\ude00"}}'.encode(), 2),
    "escaped quotes": (lambda: (_LIST + '\\"' * (5 << 20) + '"}').encode(), 2),
    "keys": (
        lambda: (_LIST + '"' + "".join(f',"{n:06}":{n}' for n in range(390_000)) + "}").encode(),
        2,
    ),
}
NIGHTLY = {"many lists", "escaped", "escaped quotes", "keys", "a large damaged frame"}


@linux
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.nightly] if k in NIGHTLY else []) for k in GREEDY]
)
def test_whatever_is_sent_goes_through_little_memory(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make, expected = GREEDY[kind]
    here = tmp_path_factory.mktemp("mirror") / "here"
    with false_server(files(make())) as port:
        code, said, peak = mirror_in_child(port, here)
    assert (code, said.count("\n")) == (expected, 1 if expected else 0)
    assert peak < MEMORY, peak
    if not expected:
        assert (here / layout.LOG).stat().st_size == LARGE
    elif "frame" in kind:
        assert list((here / layout.FRAMES).iterdir()) == []


def for_ever(beginning: bytes, again: bytes, pause: float = 0.0) -> Answer:
    def answer(_: str, send: Send) -> None:
        send(beginning)
        while True:
            send(again)
            time.sleep(pause)

    return answer


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
        for_ever(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 99),
        for_ever(b"HTTP/1.1 ", b"2" * 999),
        for_ever(OK, b"X: y\r\n" * 99),
        for_ever(OK, b"X: " + b"y" * 60_000 + b"\r\n"),
        for_ever(CHUNKED + b"0\r\n", b"X: y\r\n" * 999),
        for_ever(CHUNKED, b"1;" + b"a" * 60_000 + b"\r\nx\r\n"),
        for_ever(OK + b"Transfer-Encoding: gzip\r\nContent-Length: 9\r\n\r\n", ZEROS),
        for_ever(OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n", ZEROS),
        for_ever(OK + b"\r\n", ZEROS),
        for_ever(OK + b"Content-Length: -1\r\n\r\n", ZEROS),
        for_ever(OK + b"Content-Length: 1_0\r\n\r\n", ZEROS),
        for_ever(OK + b"Content-Length: 9\r\nContent-Length: 9\r\n\r\n", ZEROS),
        for_ever(OK + b"Content-Length: 99999999999\r\n\r\n", ZEROS),
        for_ever(b"SSH-2.0-OpenSSH_9.6\r\n", b"\r\n"),
    ],
)
def test_replies_that_dgn_serve_never_sends_end_a_mirror(answer: Answer, tmp_path: Path) -> None:
    with false_server(answer) as port, pytest.raises(UserError):
        mirror_until_end(RunMirror(port, "t", tmp_path / "here"), unexpected, lambda _: True)
    assert not (tmp_path / "here").exists()


DRIPS = {
    "status line": for_ever(b"HTTP/1.1 ", b"2", 0.01),
    "continue": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "headers": for_ever(OK, b"X", 0.01),
    "body": for_ever(OK + b"Content-Length: 20000\r\n\r\n", b" ", 0.01),
}


@pytest.mark.parametrize("where", DRIPS)
def test_a_reply_that_drips_is_ended_and_a_few_of_them_a_mirror(where: str, tmp_path: Path) -> None:
    hasty = LineLimits(head=1 << 30, patience=0.05, slowest=1 << 40)
    lost: list[bool] = []
    with (
        false_server(DRIPS[where]) as port,
        closing(RunMirror(port, "t", tmp_path, limits=hasty)) as mirror,
    ):
        with pytest.raises(SlowReplyError):
            mirror.sync()
        with refused("too-slow"):
            mirror_until_end(mirror, lambda _, dropped: lost.append(dropped), lambda _: True)
    assert lost == [True]


@linux
@pytest.mark.faults
@pytest.mark.timeout(600)
def test_replies_that_drip_end_the_command_with_its_own_deadlines(tmp_path: Path) -> None:
    """Five times 15 seconds and what waits between them."""
    ended: dict[str, tuple[int, str, int]] = {}

    def run(where: str) -> None:
        with false_server(DRIPS[where]) as port:
            ended[where] = mirror_in_child(port, tmp_path / where)

    threads = [threading.Thread(target=run, args=(where,)) for where in DRIPS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {code for code, *_ in ended.values()} == {2}
    assert max(peak for *_, peak in ended.values()) < MEMORY


def test_a_log_that_is_replaced_for_ever_ends_a_mirror(tmp_path: Path) -> None:
    lists = 0

    def answer(path: str, send: Send) -> None:
        nonlocal lists
        lists += path.endswith("/list")
        log = ["log.jsonl", 5, 1, lists]
        send(reply(listing(log, running=True) if path.endswith("/list") else b"12345"))

    with (
        false_server(answer) as port,
        closing(RunMirror(port, "t", tmp_path)) as mirror,
        refused("replaced", value=run_mirror.REPLACED),
    ):
        mirror_until_end(mirror, unexpected, lambda _: True)
    assert lists == run_mirror.REPLACED + 2


@pytest.mark.parametrize("given", [reply(b""), OK.replace(b"200 OK", b"404 X") + b"\r\n"])
def test_files_that_are_listed_and_never_there_end_a_mirror(given: bytes, tmp_path: Path) -> None:
    def answer(path: str, send: Send) -> None:
        send(reply(listing(["log.jsonl", 5, 1, 1])) if path.endswith("/list") else given)

    with (
        false_server(answer) as port,
        closing(RunMirror(port, "t", tmp_path)) as mirror,
        refused("no-file"),
    ):
        mirror_until_end(mirror, unexpected, lambda _: True)


def test_a_reply_that_is_cut_off_is_a_dropped_line(tmp_path: Path) -> None:
    whole = reply(listing(["log.jsonl", 5, 1, 1]))
    for end in (0, 9, len(OK), len(OK) + 9, len(whole) - 1):

        def answer(_: str, send: Send, end: int = end) -> None:
            send(whole[:end])
            raise OSError

        with false_server(answer) as port, closing(RunMirror(port, "t", tmp_path)) as mirror:
            with pytest.raises(LineDroppedError) as dropped:
                mirror.sync()
            assert not isinstance(dropped.value, SlowReplyError)


def test_a_mirror_that_was_interrupted_asks_nothing_more() -> None:
    asked: list[str] = []
    with false_server(lambda path, send: asked.append(path)) as port:
        run = ServedRun(port, "t")
        run.interrupt()
        with pytest.raises(LineDroppedError):
            run.fetch_listing()
    assert asked == []


def test_another_thread_ends_what_a_mirror_waits_for(tmp_path: Path) -> None:
    asked, leave = threading.Event(), threading.Event()

    def answer(_: str, __: Send) -> None:
        asked.set()
        leave.wait(60)

    dropped: list[Exception] = []
    with false_server(answer) as port:
        mirror = RunMirror(port, "t", tmp_path / "here")

        def sync() -> None:
            try:
                mirror.sync()
            except LineDroppedError as error:
                dropped.append(error)

        thread = threading.Thread(target=sync)
        thread.start()
        assert asked.wait(60)
        mirror.interrupt()
        thread.join(60)
        leave.set()
    assert dropped


LIES: dict[str, tuple[bytes, str]] = {
    "a list": (b"[]", "no-list"),
    "deep lists": (b"[" * 5000, "no-list"),
    "an empty entry": (b'{"protocol": 1, "files": [[]]}', "no-list"),
    "a name that is a list": (listing([["a"], 1, 1, 1]), "no-list"),
    "an entry too short": (listing(["log.jsonl", 1 << 900, 1]), "no-list"),
    "blanks": (b" " * (13 << 20), "no-list"),
    "too many files": (listing(*[["log.jsonl", 1, 1, 1]] * 76_000), "no-list"),
    "many empty entries": (b'{"protocol": 1, "files": [' + b"[]," * 500_000 + b"[]]}", "no-list"),
    "nothing": (listing(), "no-run"),
    "a frame alone": (listing([FRAME, 0, 1, 1]), "no-run"),
    "a file above": (listing(["../x", 1, 1, 1]), "unknown-file"),
    "a file above frames": (listing(["frames/../../x", 1, 1, 1]), "unknown-file"),
    "the lock": (listing(["lock", 1, 1, 1]), "unknown-file"),
    "a size below zero": (listing(["log.jsonl", -1, 1, 1]), "unknown-file"),
    "a log of more than 2 GiB": (listing(["log.jsonl", (2 << 30) + 1, 1, 1]), "unknown-file"),
    "a large description": (listing(["run.json", (4 << 20) + 1, 1, 1]), "unknown-file"),
    "a large frame": (listing([FRAME, 1 << 33, 1, 1]), "unknown-file"),
    "more than all runs may have": (
        listing(LOG, *[[FRAME.replace("-", f"{n:03}-", 1), 1 << 30, 1, 1] for n in range(21)]),
        "too-large",
    ),
    "a frame that is longer": (listing(LOG, [FRAME, 5, 1, 1]), "too-long"),
    "a frame of another digest": (listing(LOG, [FRAME, 1 << 20, 1, 1]), "damaged"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hostile_server_is_not_believed(lie: str, tmp_path: Path) -> None:
    content, kind = LIES[lie]
    filled = files(content)

    def answer(path: str, send: Send) -> None:
        send(reply(bytes(1 << 20))) if "longer" in lie and "from=" in path else filled(path, send)

    with (
        false_server(answer) as port,
        closing(RunMirror(port, "t", tmp_path / "here")) as mirror,
        refused(kind),
    ):
        mirror.sync()
    there = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert there <= {layout.LOG, layout.LOCK, layout.MIRROR}


@pytest.mark.parametrize(
    ("version", "kind"), [(b"Dgn-Protocol: 2", "other-version"), (b"X: y", "no-server")]
)
def test_another_version_and_another_server_are_said(
    version: bytes, kind: str, tmp_path: Path
) -> None:
    answer = reply(b"{}").replace(b"Dgn-Protocol: 1", version)
    with false_server(lambda _, send: send(answer)) as port, refused(kind):
        RunMirror(port, "t", tmp_path / "here").sync()


def test_the_name_of_a_served_run_is_no_path(tmp_path: Path) -> None:
    with false_server(files(listing(LOG, name="../..//\x00ü\n"))) as port:
        RunMirror(port, "t", below=tmp_path / "below").sync()
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["ü"]


def test_a_run_larger_than_the_disk_is_refused_before_anything_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "runs"))
    write_limits(tmp_path / "runs", StorageLimits(all=1 << 57))
    frames = [[f"frames/{n:09}-000001-{n:016x}.safetensors", 1 << 30, 1, 1] for n in range(20_000)]
    with (
        false_server(files(listing(LOG, *frames))) as port,
        closing(RunMirror(port, "t", tmp_path / "here")) as mirror,
        refused("no-room", value=20_000 << 30),
    ):
        mirror.sync()
    assert not (tmp_path / "here" / layout.LOG).exists()
