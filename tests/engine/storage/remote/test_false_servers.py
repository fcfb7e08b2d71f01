"""False servers and strangers: a mirror takes little memory and ends, and the owner is served."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

import dgn_engine as dgn
from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, PREFIX, run_mirror, run_server, served_run
from dgn_engine.storage.remote.run_mirror import RunMirror, follow
from dgn_engine.storage.remote.run_server import OWNERS, STRANGERS, RunServer
from dgn_engine.storage.remote.served_run import LineDroppedError, ServedRun, SlowReplyError
from dgn_engine.storage.runs import folder_layout as layout
from tests.engine.attachment.loops import examples, mlp, train

OK = b"HTTP/1.1 200 OK\r\nDgn-Protocol: 1\r\n"
LARGE = 192 << 20  # bytes of a file
MEMORY = 128 << 20  # … that `dgn mirror` may take at most
ZEROS = bytes(1 << 20)
FRAME = "frames/000000001-000001-0123456789abcdef.safetensors"

# What the command's peak was, in KiB, stands in the last line of what it prints.
MEASURED = """
import sys
from pathlib import Path
from dgn_engine.cli import main
code = main()
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
sys.exit(code)
"""

Send = Callable[[bytes], object]


def content(given: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(given) + given


def listing(*files: list[object], running: bool = False) -> bytes:
    tree = {"protocol": 1, "name": "x", "running": running, "files": files}
    return content(json.dumps(tree).encode())


class FalseServer:
    """Answers each request by `answer(path, send)`, for as long as the peer takes it."""

    def __init__(self, answer: Callable[[str, Send], object]) -> None:
        self._answer = answer
        self._socket = socket.create_server((LOCAL, 0))
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self.port = int(self._socket.getsockname()[1])
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            if self._closed.is_set():
                peer.close()
                return
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        def send(given: bytes) -> None:
            if self._closed.is_set():
                raise OSError
            peer.sendall(given)

        with peer, peer.makefile("rb") as asked, suppress(OSError):
            while line := asked.readline():
                while asked.readline() not in (b"\r\n", b""):
                    pass
                self._answer(line.split()[1].decode(), send)

    def close(self) -> None:
        self._closed.set()
        socket.create_connection((LOCAL, self.port)).close()
        for thread in self._threads:
            thread.join()
        self._socket.close()


@contextmanager
def false_server(answer: Callable[[str, Send], object]) -> Iterator[int]:
    with closing(FalseServer(answer)) as server:
        yield server.port


def for_ever(beginning: bytes, again: bytes, pause: float = 0.0) -> Callable[[str, Send], object]:
    def answer(_: str, send: Send) -> None:
        send(beginning)
        while True:
            send(again)
            time.sleep(pause)

    return answer


def files(first: bytes, zeros: int) -> Callable[[str, Send], object]:
    """This list, and files of zeros."""

    def answer(path: str, send: Send) -> None:
        if path.endswith("/list"):
            send(first)
            return
        found = re.search(r"count=(\d+)", path)
        count = int(found[1]) if found else 0
        send(OK + b"Content-Length: %d\r\n\r\n" % count)
        for sent in range(0, count, len(ZEROS)):
            send(ZEROS[: count - sent])

    return answer


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


@linux
def test_a_large_log_goes_through_little_memory(tmp_path: Path) -> None:
    log: list[object] = ["log.jsonl", LARGE, 1, 1]
    with false_server(files(listing(log), LARGE)) as port:
        code, said, peak = mirror_in_child(port, tmp_path / "here")
    assert (code, said) == (0, "")
    assert (tmp_path / "here" / layout.LOG).stat().st_size == LARGE
    assert peak < MEMORY, peak


@linux
def test_as_many_files_as_a_list_may_name_take_little_memory(tmp_path: Path) -> None:
    """And a text of as many bytes as a list may have, which would be many more lists."""
    named: list[list[object]] = [
        [f"frames/{n:09}-000001-{n:016x}.safetensors", 1 << 29, n << 40, n << 40]
        for n in range(served_run.FILES - 1)
    ]
    whole = listing(["log.jsonl", 0, 1, 1], *named)
    assert len(whole) < served_run.LISTING
    for given in (whole, content(b'{"files":[' + b"[]," * (4 << 20) + b"[]]}")):
        with false_server(files(given, 0)) as port:
            code, said, peak = mirror_in_child(port, tmp_path / "here")
        assert (code, said.count("\n")) == (2, 1)
        assert peak < MEMORY, peak


_LIST = '{"protocol":1,"files":[["log.jsonl",0,1,1]],"running":true,"name":"x'


@linux
@pytest.mark.parametrize(
    "text",
    [
        _LIST + "a" * (11 << 20) + '\U0001f600"}',  # four bytes a character in memory
        _LIST + "a" * (11 << 20) + '\\ud83d\\ude00"}',
        _LIST + '\\"' * (5 << 20) + '"}',
        _LIST + '"' + "".join(f',"{n:06}":{n}' for n in range(390_000)) + "}",
    ],
    ids=["wide", "escaped wide", "escaped", "keys"],
)
def test_words_that_no_list_has_take_little_memory(text: str, tmp_path: Path) -> None:
    with false_server(files(content(text.encode()), 0)) as port:
        code, said, peak = mirror_in_child(port, tmp_path / "here")
    assert (code, said.count("\n")) == (2, 1)
    assert peak < MEMORY // 2, peak


@linux
def test_a_large_frame_that_is_damaged_goes_through_little_memory(tmp_path: Path) -> None:
    frame: list[object] = [FRAME, LARGE, 1, 2]
    with false_server(files(listing(["log.jsonl", 0, 1, 1], frame), LARGE)) as port:
        code, said, peak = mirror_in_child(port, tmp_path / "here")
    assert (code, said.count("\n")) == (2, 1)
    assert peak < MEMORY, peak
    assert list((tmp_path / "here" / layout.FRAMES).iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
        for_ever(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 99),
        for_ever(b"HTTP/1.1 ", b"2" * 999),
        for_ever(OK, b"X: y\r\n" * 99),
        for_ever(OK, b"X: " + b"y" * 60_000 + b"\r\n"),
        for_ever(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 999),
        for_ever(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"a" * 60_000 + b"\r\nx\r\n"),
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
def test_replies_that_dgn_serve_never_sends_end_a_mirror(
    answer: Callable[[str, Send], object], tmp_path: Path
) -> None:
    with false_server(answer) as port, pytest.raises(UserError):
        follow(RunMirror(port, "t", tmp_path / "here"), unexpected, lambda _: True)
    assert not (tmp_path / "here").exists()


DRIPS = {
    "status line": for_ever(b"HTTP/1.1 ", b"2", 0.01),
    "continue": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    "headers": for_ever(OK, b"X", 0.01),
    "body": for_ever(OK + b"Content-Length: 20000\r\n\r\n", b" ", 0.01),
}


@pytest.mark.parametrize("where", DRIPS)
def test_a_reply_that_drips_is_ended_and_a_few_of_them_a_mirror(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_run, "PATIENCE", 0.15)
    monkeypatch.setattr(served_run, "SLOWEST", 1 << 40)
    monkeypatch.setattr(served_run, "HEAD", 1 << 30)
    with false_server(DRIPS[where]) as port:
        with closing(RunMirror(port, "t", tmp_path)) as mirror, pytest.raises(SlowReplyError):
            mirror.sync()
        said: list[str] = []
        with pytest.raises(UserError, match="too slowly"):
            follow(mirror, lambda sentence, _: said.append(sentence), lambda _: True)
    assert len(said) == 1


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
        log: list[object] = ["log.jsonl", 5, 1, lists]
        send(listing(log, running=True) if path.endswith("/list") else content(b"12345"))

    with (
        false_server(answer) as port,
        closing(RunMirror(port, "t", tmp_path)) as mirror,
        pytest.raises(UserError, match="was replaced"),
    ):
        follow(mirror, unexpected, lambda _: True)
    assert lists == run_mirror.REPLACED + 2


@pytest.mark.parametrize("given", [content(b""), OK.replace(b"200 OK", b"404 X") + b"\r\n"])
def test_files_that_are_listed_and_never_there_end_a_mirror(given: bytes, tmp_path: Path) -> None:
    def answer(path: str, send: Send) -> None:
        send(listing(["log.jsonl", 5, 1, 1]) if path.endswith("/list") else given)

    with (
        false_server(answer) as port,
        closing(RunMirror(port, "t", tmp_path)) as mirror,
        pytest.raises(UserError, match="are not there"),
    ):
        follow(mirror, unexpected, lambda _: True)


def test_a_reply_that_is_cut_off_is_a_dropped_line(tmp_path: Path) -> None:
    whole = listing(["log.jsonl", 5, 1, 1])
    for end in (0, 9, len(OK), len(OK) + 9, len(whole) - 1):

        def answer(_: str, send: Send, end: int = end) -> None:
            send(whole[:end])
            raise OSError

        with false_server(answer) as port, closing(RunMirror(port, "t", tmp_path)) as mirror:
            with pytest.raises(LineDroppedError) as dropped:
                mirror.sync()
            assert not isinstance(dropped.value, SlowReplyError)


def test_a_mirror_that_was_interrupted_asks_nothing_more(tmp_path: Path) -> None:
    asked: list[str] = []
    with false_server(lambda path, send: asked.append(path)) as port:
        served = ServedRun(port, "t")
        served.interrupt()
        with pytest.raises(LineDroppedError):
            served.listing()
    assert asked == []


# The other side


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "run"
    with dgn.watch(mlp(), probe=examples(), out=folder, probes=("gates",)) as w:
        train(w._module, 3, w.step)
    return folder


@contextmanager
def serving(folder: Path, report: Callable[[int], object] | None = None) -> Iterator[RunServer]:
    with RunServer(folder, report=report) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def connect(server: RunServer, given: bytes = b"") -> socket.socket:
    connection = socket.create_connection((LOCAL, server.port), timeout=60)
    connection.sendall(given)
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Whether the server ends the connection; waits for it."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def send_until_ended(connection: socket.socket, given: bytes, pause: float = 0.0) -> None:
    with suppress(ConnectionError):
        while True:
            connection.sendall(given)
            time.sleep(pause)


def request(server: RunServer, path: str = "list") -> bytes:
    return (
        f"GET {PREFIX}{path} HTTP/1.1\r\nHost: {LOCAL}\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n"
    ).encode()


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_owner_is_served_while_fifty_strangers_drip(recorded: Path, tmp_path: Path) -> None:
    with serving(recorded) as server:
        owner = RunMirror(server.port, server.token, tmp_path / "early")
        owner.sync()
        strangers = [connect(server, b"GET / HTTP/1.1\r\nX: ") for _ in range(50)]
        assert all(map(is_ended, strangers[: 50 - STRANGERS]))  # the oldest
        for number in range(3):
            with closing(RunMirror(server.port, server.token, tmp_path / f"{number}")) as mirror:
                assert not mirror.sync().running
        owner.sync()
        owner.close()
        for stranger in strangers:
            stranger.close()


def test_a_stranger_that_drips_is_ended(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_server, "STRANGERS_TIME", 0.2)
    with serving(recorded) as server, connect(server, b"GET / HTTP/1.1\r\n") as stranger:
        send_until_ended(stranger, b"X: y\r\n", 0.01)
        wait_until(lambda: not server._strangers)


@pytest.mark.parametrize("line", [b"X: y\r\n" * 99, b"X" * 999, b"X: " + b"y" * 60_000 + b"\r\n"])
def test_a_head_without_end_is_ended(recorded: Path, line: bytes) -> None:
    with serving(recorded) as server, connect(server, b"GET / HTTP/1.1\r\n") as stranger:
        send_until_ended(stranger, line)
        wait_until(lambda: not server._strangers)


def test_an_owner_who_does_not_read_is_ended(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_server, "PATIENCE", 0.2)
    monkeypatch.setattr(run_server, "SLOWEST", 1 << 40)
    (tmp_path / layout.LOG).write_bytes(bytes(8 << 20))
    with serving(tmp_path) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        slow.connect((LOCAL, server.port))
        asked = request(server, "file/log.jsonl?from=0&count=8388608")
        slow.sendall(asked * 20)
        wait_until(lambda: bool(server._owners))
        wait_until(lambda: not server._owners)


def test_more_owners_than_there_may_be_are_told_to_wait(recorded: Path, tmp_path: Path) -> None:
    with serving(recorded) as server:
        owners = [connect(server, request(server)) for _ in range(OWNERS)]
        assert all(owner.recv(12) == b"HTTP/1.1 200" for owner in owners)
        with closing(RunMirror(server.port, server.token, tmp_path / "here")) as mirror:
            with pytest.raises(LineDroppedError, match="503"):
                mirror.sync()
            for owner in owners:
                owner.close()
            wait_until(lambda: not server._owners)
            assert not mirror.sync().running


def test_requests_one_behind_the_other_are_answered_in_turn(recorded: Path) -> None:
    with serving(recorded) as server, connect(server) as owner:
        digest = hashlib.sha256((recorded / layout.LOG).read_bytes()).digest()
        asked = request(server, f"file/{layout.LOG}?from=0&count=1000000")
        owner.sendall(asked + asked + b"GET / HTTP/1.1\r\n\r\n")
        received = b""
        with suppress(ConnectionError):
            while piece := owner.recv(1 << 16):
                received += piece
    replies = received.split(b"HTTP/1.1 ")[1:]
    assert [reply[:3] for reply in replies] == [b"200", b"200", b"401"]
    for reply in replies[:2]:
        assert hashlib.sha256(reply.partition(b"\r\n\r\n")[2]).digest() == digest


def test_refusals_are_reported_less_and_less_often(recorded: Path) -> None:
    counts: list[int] = []
    with serving(recorded, counts.append) as server:
        for _ in range(9):
            with connect(server, b"GET / HTTP/1.1\r\n\r\n") as stranger:
                assert is_ended(stranger)
        with connect(server, request(server)) as owner:
            assert owner.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: not server._strangers and not server._owners)
    assert counts == [1, 2, 4, 8]
