"""Servers and peers of a mirror: the real server, one that says whatever it is told, strangers."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dgn_engine.storage.remote import LOCAL, PREFIX
from dgn_engine.storage.remote.run_mirror import RunMirror
from dgn_engine.storage.remote.run_server import RunServer

OK = b"HTTP/1.1 200 OK\r\nDgn-Protocol: 1\r\n"
ZEROS = bytes(1 << 20)
FRAME = "frames/000000001-000001-0123456789abcdef.safetensors"
LOG: list[object] = ["log.jsonl", 0, 1, 1]
Send = Callable[[bytes], object]
Answer = Callable[[str, Send], object]


def reply(content: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(content) + content


def listing(*files: list[Any], running: bool = False, name: str = "x") -> bytes:
    tree = {"protocol": 1, "name": name, "running": running, "files": files}
    return json.dumps(tree).encode()


def asked_part(path: str) -> tuple[int, int] | None:
    """The first byte and the number of those that are asked for; None for a list."""
    found = re.search(r"from=(\d+)&count=(\d+)", path)
    return (int(found[1]), int(found[2])) if found else None


def files(first: bytes, filled: bytes = ZEROS) -> Answer:
    """This list, and files of these bytes again and again."""

    def answer(path: str, send: Send) -> None:
        part = asked_part(path)
        if part is None:
            send(reply(first))
            return
        send(OK + b"Content-Length: %d\r\n\r\n" % part[1])
        for sent in range(0, part[1], len(filled)):
            send(filled[: part[1] - sent])

    return answer


class FalseServer:
    """Answers each request by `answer(path, send)`, for as long as the peer takes it."""

    def __init__(self, answer: Answer) -> None:
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
def false_server(answer: Answer) -> Iterator[int]:
    with closing(FalseServer(answer)) as server:
        yield server.port


@contextmanager
def serving(folder: Path, **given: Any) -> Iterator[RunServer]:
    with RunServer(folder, **given) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def mirroring(folder: Path, here: Path, **given: Any) -> Iterator[RunMirror]:
    """A mirror of a folder that is served meanwhile."""
    with serving(folder) as server:
        mirror = RunMirror(server.port, server.token, here, **given)
        with closing(mirror):
            yield mirror


def mirror_once(folder: Path, here: Path) -> None:
    with mirroring(folder, here) as mirror:
        mirror.sync()


def connect(server: RunServer, given: bytes = b"") -> socket.socket:
    connection = socket.create_connection((LOCAL, server.port), timeout=60)
    connection.sendall(given)
    return connection


def request(server: RunServer, path: str = "list") -> bytes:
    return (
        f"GET {PREFIX}{path} HTTP/1.1\r\nHost: {LOCAL}\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n"
    ).encode()


def status_of(connection: socket.socket) -> bytes:
    """Read one answer to its end, so that the next may be asked for; b'' where the line ended."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        if not (piece := _receive(connection)):
            return answer[9:12]
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while length is not None and len(body) < int(length[1]):
        if not (piece := _receive(connection)):
            break
        body += piece
    return answer[9:12]


def read_to_its_end(connection: socket.socket) -> bytes:
    received = b""
    while piece := _receive(connection):
        received += piece
    return received


def _receive(connection: socket.socket) -> bytes:
    """b'' where the connection is ended."""
    with suppress(ConnectionError):
        return connection.recv(1 << 16)
    return b""


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
