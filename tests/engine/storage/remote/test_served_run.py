"""What of a run is served, to whom, and what is refused."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from dgn_engine.cli.run.mirror_run import mirror_run
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.remote import LOCAL, PREFIX, LineLimits
from dgn_engine.storage.remote.run_mirror import RunMirror
from dgn_engine.storage.remote.run_server import OWNERS, STRANGERS, RunServer
from dgn_engine.storage.remote.served_address import address_of, given_token
from dgn_engine.storage.remote.served_run import LineDroppedError
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs.run_folder import RunFolder
from tests.engine.storage.remote.peers import (
    connect,
    read_to_its_end,
    request,
    serving,
    status_of,
    wait_until,
)
from tests.refusals import refused


def ask(
    server: RunServer,
    path: str = "list",
    token: str = "",
    host: str = LOCAL,
    method: str = "GET",
    **headers: str,
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOCAL, server.port, timeout=30)
    whole = path if path.startswith("http") else f"{PREFIX}{path}"
    connection.putrequest(method, whole, skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.putheader("Authorization", f"Bearer {token or server.token}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content


def test_nobody_without_the_token_reads_anything(recorded: Path, tmp_path: Path) -> None:
    with serving(recorded) as server:
        for token in (" ", "x", server.token[:-1], server.token + "x", "ÿ"):
            assert ask(server, token=token) == (401, b"")
        with refused("wrong-token"):
            RunMirror(server.port, "wrong", tmp_path / "here").sync()
        assert server.server_address[0] == LOCAL


NOT_SERVED = [
    *("../run/log.jsonl", "..%2f..%2fetc/passwd", "/etc/passwd", "notes.json", "lock", "frames"),
    *("frames/../notes.json", "weights/x", "frames/..", "", "log.jsonl%00"),
]


@pytest.mark.parametrize(
    "path",
    [
        *(f"file/{name}?from=0&count=9" for name in NOT_SERVED),
        *(f"file/log.jsonl{q}" for q in ("", "?from=-1&count=1", "?from=0", "?from=0&count=9e9")),
        *("file/log.jsonl?from=0&count=1&count=2", "file/log.jsonl?count=1&from=0"),
        *("list#x", "list?x", f"http://{LOCAL}{PREFIX}list"),
    ],
)
def test_only_what_is_listed_is_served(recorded: Path, path: str) -> None:
    with serving(recorded) as server:
        assert ask(server, path) == (404, b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:80"}, 400),
        ({"host": ""}, 400),
        ({"host": "127.0.0.1.evil.example"}, 400),
        ({"host": "localhost:1"}, 200),  # ssh -L may have another port here
        ({"Origin": "http://127.0.0.1"}, 400),
        ({"Content_Length": "5"}, 400),
        ({"Transfer_Encoding": "chunked"}, 400),
        ({"authorization": "Bearer x"}, 401),  # a second one
        ({"method": "POST"}, 501),
        ({"method": "OPTIONS"}, 501),
    ],
)
def test_requests_of_browsers_and_odd_ones_are_refused(
    recorded: Path, headers: dict[str, str], status: int
) -> None:
    with serving(recorded) as server:
        found, content = ask(server, **headers)  # type: ignore[arg-type] # none of them is a path
    assert found == status
    assert bool(content) == (status == 200)


def test_a_part_of_a_file_is_as_long_as_there_is_of_it(recorded: Path) -> None:
    log = (recorded / layout.LOG).read_bytes()
    with serving(recorded) as server:
        for first, count in ((0, 0), (0, 9), (7, 1 << 40), (len(log) - 3, 9), (10**14, 9)):
            found = ask(server, f"file/log.jsonl?from={first}&count={count}")
            assert found == (200, log[first : first + count])


def test_links_in_the_place_of_a_file_or_a_folder_are_not_followed(
    served: Path, tmp_path: Path
) -> None:
    (served / layout.CONFIG).unlink()
    (served / layout.CONFIG).symlink_to("/etc/passwd")
    frame = sorted((served / layout.FRAMES).iterdir())[0].name
    with serving(served) as server:
        assert ask(server, f"file/{layout.CONFIG}?from=0&count=9") == (404, b"")
        asked = f"file/frames/{frame}?from=0&count=9"
        assert ask(server, asked)[0] == 200
        (served / layout.FRAMES).rename(tmp_path / "elsewhere")
        (served / layout.FRAMES).symlink_to(tmp_path / "elsewhere")
        assert ask(server, asked) == ask(server) == (404, b"")


def test_a_list_reads_no_file_so_that_it_is_quick_and_a_damaged_one_is_listed(served: Path) -> None:
    with serving(served) as server:
        (served / layout.LOG).write_bytes(b"no line\n" * 3)
        (served / layout.RUN).write_text("{")
        assert ask(server)[0] == 200
        listed = server.list_run()
        assert listed["running"] is False
        names = {one[0] for one in listed["files"]}  # type: ignore[attr-defined]
        assert {layout.LOG, layout.RUN, layout.CONFIG} <= names
        assert not {layout.NOTES, layout.LOCK} & names


def test_a_run_that_ends_while_it_is_listed_is_listed_whole(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is looked at before its files: what is said to have ended is all of it."""
    folder, ask_lock = RunFolder(served), lock.find_lock_holder

    def end_before(path: FilePath) -> lock.LockHolder | None:
        folder.write_note("Closed", {"step": 3})
        folder.close()
        return ask_lock(path)

    with serving(served) as server:
        assert server.list_run()["running"] is True
        monkeypatch.setattr(lock, "find_lock_holder", end_before)
        listed = server.list_run()
    assert listed["running"] is False
    sizes = {one[0]: one[1] for one in listed["files"]}  # type: ignore[attr-defined]
    assert sizes[layout.LOG] == (served / layout.LOG).stat().st_size


@pytest.mark.parametrize("port", [-1, 99_999])
def test_a_port_that_is_none_is_refused(recorded: Path, port: int) -> None:
    with refused("no-port", value=port):
        RunServer(recorded, port)


def test_a_port_that_is_taken_is_refused_and_free_when_its_server_has_gone(recorded: Path) -> None:
    for _ in range(2):
        with RunServer(recorded) as first:
            for _ in range(2):
                with refused("no-port", value=first.port):
                    RunServer(recorded, first.port)


def test_what_cannot_be_served_is_refused(served: Path, tmp_path: Path) -> None:
    with refused("no-run", value=tmp_path):
        RunServer(tmp_path)
    (served / layout.RUN).write_text("{")
    with refused("damaged"):
        RunServer(served)


@pytest.mark.parametrize(
    "text", ["dgn://example.org:80", "http://127.0.0.1:80", "dgn://127.0.0.1", "dgn://[:x"]
)
def test_only_loopback_addresses_are_taken(text: str) -> None:
    with refused("no-address", value=text):
        address_of(text)
    assert address_of("dgn://127.0.0.1:80") == address_of("dgn://localhost:80") == 80


def test_without_a_token_and_a_terminal_mirroring_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def end_of_input(_prompt: str) -> str:
        raise EOFError

    monkeypatch.delenv("DGN_TOKEN", raising=False)
    monkeypatch.setattr("getpass.getpass", end_of_input)
    arguments = argparse.Namespace(
        address="dgn://127.0.0.1:80", folder=tmp_path / "copy", token_file=None
    )
    with refused("no-token"):
        mirror_run(arguments)
    assert not (tmp_path / "copy").exists()


def test_a_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DGN_TOKEN", raising=False)
    assert given_token(None) == ""
    monkeypatch.setenv("DGN_TOKEN", " named\n")
    assert given_token(None) == "named"
    (tmp_path / "token").write_text("held\n")
    assert given_token(tmp_path / "token") == "held"
    (tmp_path / "token").write_text("ü", "utf-8")
    for path in (tmp_path / "token", tmp_path / "none", tmp_path):
        with refused("unreadable", value=path):
            given_token(path)
    with refused("token-in-address"):
        address_of("dgn://secret@127.0.0.1:80")
    with refused("no-token"):
        RunMirror(1, "", tmp_path)


# Connections, counted to their limits and beyond: the owner is served.

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
