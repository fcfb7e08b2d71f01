"""Connections to a served run, counted to their limits and beyond: the owner is served."""

from __future__ import annotations

import hashlib
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from dgn_engine.storage.remote import LOCAL, LineLimits
from dgn_engine.storage.remote.run_mirror import RunMirror
from dgn_engine.storage.remote.run_server import OWNERS, STRANGERS, RunServer
from dgn_engine.storage.remote.served_run import LineDroppedError
from dgn_engine.storage.runs import folder_layout as layout
from tests.engine.storage.remote.peers import (
    connect,
    read_to_its_end,
    request,
    serving,
    status_of,
    wait_until,
)

HASTY = LineLimits(patience=0.2, slowest=1 << 40)


def is_served(server: RunServer) -> bool:
    with connect(server, request(server)) as owner:
        return status_of(owner) == b"200"


def slot_of(server: RunServer) -> socket.socket:
    """A connection that is served, as soon as there is room for one: who left a moment ago may
    still be counted."""
    taken: list[socket.socket] = []

    def is_taken() -> bool:
        owner = connect(server, request(server))
        if status_of(owner) == b"200":
            taken.append(owner)
        else:
            owner.close()
        return bool(taken)

    wait_until(is_taken)
    return taken[0]


def is_synced(mirror: RunMirror) -> bool:
    try:
        return not mirror.sync().running
    except LineDroppedError:
        return False


def leave(connection: socket.socket) -> None:
    connection.close()


def break_off(connection: socket.socket) -> None:
    """As a machine that is switched off: the other side is reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang(connection: socket.socket) -> None:
    """Nothing more is sent, and nothing read."""


def ask_in_half(connection: socket.socket) -> None:
    connection.sendall(b"GET /dgn/1/list HTTP/1.1\r\nHost: ")


def talk_nonsense(connection: socket.socket) -> None:
    connection.sendall(b"\0\xff\r\n\r\n" * 9)


ENDS = [leave, break_off, hang, ask_in_half, talk_nonsense]


@pytest.mark.parametrize("end", ENDS)
def test_eight_owners_are_served_the_ninth_is_told_to_wait_and_every_slot_is_free_again(
    end: Callable[[socket.socket], object], recorded: Path, tmp_path: Path
) -> None:
    """Twice, for what the first ones held is needed by the second."""
    with serving(recorded) as server, ExitStack() as open_ones:
        for number in range(2):
            server.limits = LineLimits()  # nobody is ended while the ninth comes
            owners = [open_ones.enter_context(slot_of(server)) for _ in range(OWNERS)]
            with closing(RunMirror(server.port, server.token, tmp_path / f"{number}")) as mirror:
                with pytest.raises(LineDroppedError, match="503"):
                    mirror.sync()
                if end in (hang, ask_in_half):
                    server.limits = HASTY
                for owner in owners:
                    owner.sendall(request(server))  # from here on they have little time
                assert [status_of(owner) for owner in owners] == [b"200"] * OWNERS
                for owner in owners:
                    with suppress(ConnectionError):  # one of them may be ended already
                        end(owner)
                wait_until(lambda: is_synced(mirror))


def test_a_slot_that_was_refused_is_none_that_is_taken(recorded: Path) -> None:
    """Whoever asks for what is not served, or came as the ninth, is counted once or not at all."""
    with serving(recorded) as server:
        for _ in range(3 * OWNERS):
            with connect(server, request(server, "nothing")) as owner:
                assert status_of(owner) == b"404"
        owners = [slot_of(server) for _ in range(OWNERS)]
        for _ in range(OWNERS):
            with connect(server, request(server)) as ninth:
                assert status_of(ninth) == b"503"
        owners[0].sendall(request(server))  # who is there may ask again
        assert status_of(owners[0]) == b"200"
        owners.pop().close()
        wait_until(lambda: is_served(server))
        for owner in owners:
            owner.close()


def test_of_strangers_the_oldest_gives_way_when_one_more_comes(recorded: Path) -> None:
    with serving(recorded, strangers_time=60.0) as server:
        strangers = [connect(server, b"GET / HTTP/1.1\r\nX: ") for _ in range(STRANGERS)]
        assert is_served(server)  # who asked that was a stranger before, the one more
        assert status_of(strangers[0]) == b""
        for one in strangers[1:]:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
        for one in strangers:
            one.close()


def test_the_owner_is_served_while_many_strangers_drip(recorded: Path, tmp_path: Path) -> None:
    with serving(recorded) as server:
        owner = RunMirror(server.port, server.token, tmp_path / "early")
        owner.sync()
        strangers = [connect(server, b"GET / HTTP/1.1\r\nX: ") for _ in range(STRANGERS + 18)]
        for gone in strangers[:18]:  # the oldest
            assert status_of(gone) == b""
        for number in range(3):
            with closing(RunMirror(server.port, server.token, tmp_path / f"{number}")) as mirror:
                assert not mirror.sync().running
        owner.sync()
        owner.close()
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize(
    ("line", "pause"),
    [
        (b"X: y\r\n", 0.01),
        (b"X: y\r\n" * 99, 0.0),
        (b"X" * 999, 0.0),
        (b"X: " + b"y" * 60_000 + b"\r\n", 0.0),
    ],
    ids=["drips", "lines", "a line", "a long line"],
)
def test_a_head_without_end_is_ended(recorded: Path, line: bytes, pause: float) -> None:
    with serving(recorded, strangers_time=0.2) as server:
        with connect(server, b"GET / HTTP/1.1\r\n") as stranger, suppress(ConnectionError):
            while True:
                stranger.sendall(line)
                time.sleep(pause)
        assert is_served(server)


def test_owners_who_do_not_read_are_ended(tmp_path: Path) -> None:
    (tmp_path / layout.LOG).write_bytes(bytes(8 << 20))
    with serving(tmp_path, limits=HASTY) as server:
        slow = []
        for _ in range(OWNERS):
            slow.append(socket.socket())
            slow[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            slow[-1].connect((LOCAL, server.port))
            slow[-1].sendall(request(server, "file/log.jsonl?from=0&count=8388608") * 20)
        wait_until(lambda: is_served(server))
        for one in slow:
            one.close()


def test_requests_one_behind_the_other_are_answered_in_turn(recorded: Path) -> None:
    digest = hashlib.sha256((recorded / layout.LOG).read_bytes()).digest()
    with serving(recorded) as server, connect(server) as owner:
        asked = request(server, f"file/{layout.LOG}?from=0&count=1000000")
        owner.sendall(asked + asked + b"GET / HTTP/1.1\r\n\r\n")
        replies = read_to_its_end(owner).split(b"HTTP/1.1 ")[1:]
    assert [reply[:3] for reply in replies] == [b"200", b"200", b"401"]
    for reply in replies[:2]:
        assert hashlib.sha256(reply.partition(b"\r\n\r\n")[2]).digest() == digest


def test_refusals_are_reported_less_and_less_often(recorded: Path) -> None:
    counts: list[int] = []
    with serving(recorded, report=counts.append) as server:
        for _ in range(9):
            with connect(server, b"GET / HTTP/1.1\r\n\r\n") as stranger:
                assert b"401" in read_to_its_end(stranger)
        assert is_served(server)
    assert counts == [1, 2, 4, 8]
