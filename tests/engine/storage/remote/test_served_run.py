"""A run of another machine: what is served and to whom, what a mirror takes and from whom not."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dgn_engine as dgn
from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, PREFIX, VERSION_HEADER, run_mirror, served_run
from dgn_engine.storage.remote.run_mirror import RunMirror, follow
from dgn_engine.storage.remote.run_server import RunServer
from dgn_engine.storage.remote.served_address import address_of, given_token
from dgn_engine.storage.remote.served_run import LineDroppedError
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import examples, mlp, train


@contextmanager
def served(server: HTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "run"
    with dgn.watch(mlp(), probe=examples(), out=folder, probes=("gates",)) as w:
        train(w._module, 3, w.step)
    (folder / layout.NOTES).write_text("secret")
    return folder


def names(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {layout.LOCK, layout.NOTES, layout.MIRROR}


def ask(
    port: int, path: str, token: str, host: str = LOCAL, method: str = "GET", **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOCAL, port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    if host:
        connection.putheader("Host", host)
    connection.putheader("Authorization", f"Bearer {token}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content


def test_a_mirror_becomes_the_run(recorded: Path, tmp_path: Path) -> None:
    server = RunServer(recorded)
    with served(server) as port:
        mirror = RunMirror(port, server.token, tmp_path / "here")
        assert not mirror.sync().running
        assert names(tmp_path / "here") == names(recorded)
        for name in names(recorded):
            assert (tmp_path / "here" / name).read_bytes() == (recorded / name).read_bytes()
    again = RunMirror(1, "x", tmp_path / "here")  # an earlier mirror may be gone on with
    again.close()
    with pytest.raises(UserError, match="no mirror of a run"):
        RunMirror(port, server.token, recorded)


def test_a_run_that_is_written_is_followed_and_ends(tmp_path: Path) -> None:
    source, here = tmp_path / "run", tmp_path / "here"
    w = dgn.watch(mlp(), probe=examples(), out=source, probes=("gates",)).start()
    server = RunServer(source)
    with served(server) as port:
        mirror = RunMirror(port, server.token, here)
        assert mirror.sync().running
        assert RunReader(here).status == "running"  # by its lock: a window follows it
        train(w._module, 3, w.step)
        w.test(0.5, 0.5)
        w.close()
        size = (here / layout.LOG).stat().st_size
        told: list[str] = []
        follow(mirror, lambda words, lost: told.append(words), lambda seconds: True)
        assert (here / layout.LOG).stat().st_size > size
    assert told == []
    assert (here / layout.LOG).read_bytes() == (source / layout.LOG).read_bytes()
    assert RunReader(here).status == "finished"


def test_a_log_that_was_replaced_comes_anew_and_superseded_frames_go(
    recorded: Path, tmp_path: Path
) -> None:
    source, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(recorded, source)
    server = RunServer(source)
    with served(server) as port:
        mirror = RunMirror(port, server.token, here)
        mirror.sync()
        log = (source / layout.LOG).read_bytes()
        (source / "new").write_bytes(log[: log.index(b"\n") + 1])
        (source / "new").replace(source / layout.LOG)
        last = sorted((source / layout.FRAMES).iterdir())[-1]
        last.unlink()
        mirror.sync()
        mirror.close()
    assert (here / layout.LOG).read_bytes() == (source / layout.LOG).read_bytes()
    assert not (here / layout.FRAMES / last.name).exists()


def test_nobody_without_the_token_reads_anything(recorded: Path, tmp_path: Path) -> None:
    server = RunServer(recorded)
    with served(server) as port:
        for token in ("", "x", server.token[:-1], server.token + "x", "ÿ"):
            assert ask(port, f"{PREFIX}list", token) == (401, b"")
        with pytest.raises(UserError, match="The token is not that of the served run"):
            RunMirror(port, "wrong", tmp_path / "here").sync()
    assert server.server_address[0] == LOCAL


@pytest.mark.parametrize(
    "name",
    [
        "../run/log.jsonl",
        "..%2f..%2fetc/passwd",
        "/etc/passwd",
        "notes.json",
        "lock",
        "frames",
        "frames/../notes.json",
        "weights/x",
        "frames/..",
        "",
        "log.jsonl%00",
    ],
)
def test_only_what_is_listed_is_served(recorded: Path, name: str) -> None:
    server = RunServer(recorded)
    with served(server) as port:
        found = ask(port, f"{PREFIX}file/{name}?from=0&count=9", server.token)
    assert found == (404, b"")


@pytest.mark.parametrize("query", ["", "?from=-1&count=1", "?from=0", "?from=0&count=9e9"])
def test_places_that_are_no_numbers_are_refused(recorded: Path, query: str) -> None:
    server = RunServer(recorded)
    with served(server) as port:
        assert ask(port, f"{PREFIX}file/log.jsonl{query}", server.token) == (404, b"")


def test_a_link_in_the_place_of_a_file_is_not_followed(recorded: Path, tmp_path: Path) -> None:
    source = tmp_path / "run"
    shutil.copytree(recorded, source)
    (source / layout.CONFIG).unlink()
    (source / layout.CONFIG).symlink_to("/etc/passwd")
    server = RunServer(source)
    with served(server) as port:
        found = ask(port, f"{PREFIX}file/{layout.CONFIG}?from=0&count=9", server.token)
    assert found == (404, b"")


class Hostile(BaseHTTPRequestHandler):
    """Answers everything with what the test says."""

    answer: Callable[[str], tuple[int, str, bytes]]
    length: int | None = None

    def do_GET(self) -> None:
        status, version, content = type(self).answer(self.path)
        self.send_response(status)
        if version:
            self.send_header(VERSION_HEADER, version)
        self.send_header("Content-Length", str(self.length or len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None: ...


def listing(*files: list[Any]) -> bytes:
    tree = {"protocol": 1, "name": "x", "running": False, "files": files}
    return json.dumps(tree).encode()


FRAME = "frames/000000001-000001-0123456789abcdef.safetensors"


LOG = ["log.jsonl", 0, 1, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "no list of at most"),
        (b"[" * 5000, "no list of at most"),
        (b'{"protocol": 1, "files": [[]]}', "no list of at most"),
        (listing([["a"], 1, 1, 1]), "no list of at most"),
        (listing(["log.jsonl", 1 << 900, 1]), "no list of at most"),
        (b" " * (13 << 20), "no list of at most"),
        (listing(*[["log.jsonl", 1, 1, 1]] * 76_000), "no list of at most"),
        (b'{"protocol": 1, "files": [' + b"[]," * 500_000 + b"[]]}", "no list of at most"),
        (listing(), "has no run"),
        (listing([FRAME, 0, 1, 1]), "has no run"),
        (listing(["../x", 1, 1, 1]), "no run has"),
        (listing(["frames/../../x", 1, 1, 1]), "no run has"),
        (listing(["lock", 1, 1, 1]), "no run has"),
        (listing(["log.jsonl", -1, 1, 1]), "no run has"),
        (listing(["log.jsonl", (2 << 30) + 1, 1, 1]), "larger than any"),
        (listing(["run.json", (4 << 20) + 1, 1, 1]), "larger than any"),
        (listing([FRAME, 1 << 33, 1, 1]), "larger than any"),
        (
            listing(LOG, *[[FRAME.replace("-", f"{n:03}-", 1), 1 << 30, 1, 1] for n in range(21)]),
            "more than all runs here may have",
        ),
        (listing(LOG, [FRAME, 5, 1, 1]), "where 5 were asked for"),
        (listing(LOG, [FRAME, 1 << 20, 1, 1]), "damaged"),
    ],
)
def test_a_hostile_server_is_not_believed(tmp_path: Path, content: bytes, said: str) -> None:
    def answer(path: str) -> tuple[int, str, bytes]:
        return (200, "1", content if path.endswith("list") else b"y" * (1 << 20))

    handler = type("Given", (Hostile,), {"answer": staticmethod(answer)})
    with served(HTTPServer((LOCAL, 0), handler)) as port:
        mirror = RunMirror(port, "t", tmp_path / "here")
        with pytest.raises(UserError, match=said):
            mirror.sync()
        mirror.close()
    assert names(tmp_path / "here") <= {layout.LOG}
    assert not (tmp_path / "x").exists()


def given(status: int, version: str, content: bytes = b"{}") -> type[Hostile]:
    return type("Given", (Hostile,), {"answer": staticmethod(lambda _: (status, version, content))})


def test_another_version_and_another_server_are_said(tmp_path: Path) -> None:
    for version, said in (("2", "another version of this program"), ("", "serves no run")):
        with (
            served(HTTPServer((LOCAL, 0), given(200, version))) as port,
            pytest.raises(UserError, match=said),
        ):
            RunMirror(port, "t", tmp_path / "here").sync()


def test_a_dropped_line_is_said_once_and_tried_less_and_less_often(
    recorded: Path, tmp_path: Path
) -> None:
    server = RunServer(recorded)
    mirror = RunMirror(server.port, server.token, tmp_path / "here")
    real, fails = mirror.sync, 8
    told: list[tuple[str, bool]] = []
    waits: list[float] = []

    def sync() -> Any:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise LineDroppedError("refused")
        return real()

    mirror.sync = sync  # type: ignore[method-assign]
    with served(server):
        follow(
            mirror,
            lambda words, lost: told.append((words, lost)),
            lambda seconds: not waits.append(seconds),
        )
    assert told == [
        ("Nobody answers (refused): is ssh -L running? It is tried again.", True),
        ("Connected.", False),
    ]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    with pytest.raises(LineDroppedError, match="refused"):
        RunMirror(server.port, "t", tmp_path / "new").sync()  # nobody is there any more


def test_only_loopback_addresses_are_taken() -> None:
    assert address_of("dgn://127.0.0.1:80") == address_of("dgn://localhost:80") == 80
    for text in ("dgn://example.org:80", "http://127.0.0.1:80", "dgn://127.0.0.1", "dgn://[:x"):
        with pytest.raises(UserError, match="no address of a served run"):
            address_of(text)
    with pytest.raises(UserError, match="token is empty"):
        RunMirror(1, "", Path())


def test_a_mirror_is_named_as_the_run_and_found_again_by_its_id(
    recorded: Path, tmp_path: Path
) -> None:
    below, own = tmp_path / "runs", tmp_path / "runs" / "run"
    shutil.copytree(recorded, own)  # a run of this machine that has the same name
    server = RunServer(recorded)
    with served(server) as port:
        for _ in range(2):
            mirror = RunMirror(port, server.token, below=below)
            assert mirror.folder is None
            mirror.sync()
            assert mirror.folder == below / "run-2"
    assert sorted(path.name for path in below.iterdir()) == ["run", "run-2"]


def test_a_mirror_does_not_take_the_name_of_the_limits(recorded: Path, tmp_path: Path) -> None:
    named = tmp_path / "limits.toml"
    shutil.copytree(recorded, named)
    server = RunServer(named)
    with served(server) as port:
        mirror = RunMirror(port, server.token, below=tmp_path / "runs")
        mirror.sync()
        mirror.close()
        assert mirror.folder == tmp_path / "runs" / "limits.toml-2"
        with pytest.raises(UserError):
            RunMirror(port, server.token, tmp_path / "runs" / "limits.toml")


def test_the_name_of_a_served_run_is_no_path(tmp_path: Path) -> None:
    def answer(_: str) -> tuple[int, str, bytes]:
        files = [["log.jsonl", 0, 1, 1]]
        tree = {"protocol": 1, "name": "../..//\x00ü\n", "running": False, "files": files}
        return 200, "1", json.dumps(tree).encode()

    handler = type("Given", (Hostile,), {"answer": staticmethod(answer)})
    with served(HTTPServer((LOCAL, 0), handler)) as port:
        RunMirror(port, "t", below=tmp_path / "below").sync()
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["ü"]


def test_the_log_is_looked_at_between_frames_and_an_ended_run_is_live_until_it_is_whole(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_mirror, "FRAMES_FOR", -1.0)
    server, here = RunServer(recorded), tmp_path / "here"
    with served(server) as port:
        mirror = RunMirror(port, server.token, here)
        assert not mirror.sync().running
        assert not mirror.complete
        assert RunReader(here).status == "running"
        monkeypatch.setattr(run_mirror, "FRAMES_FOR", 60.0)
        follow(mirror, lambda words, lost: pytest.fail(words), lambda seconds: False)
    assert mirror.complete
    assert RunReader(here).status == "finished"
    assert names(here) == names(recorded)


def test_another_thread_ends_what_a_mirror_waits_for(tmp_path: Path) -> None:
    asked, leave = threading.Event(), threading.Event()

    def answer(_: str) -> tuple[int, str, bytes]:
        asked.set()
        leave.wait(30)
        return 200, "1", b""

    handler = type("Given", (Hostile,), {"answer": staticmethod(answer)})
    dropped: list[Exception] = []
    with served(HTTPServer((LOCAL, 0), handler)) as port:
        mirror = RunMirror(port, "t", tmp_path / "here")

        def sync() -> None:
            try:
                mirror.sync()
            except LineDroppedError as error:
                dropped.append(error)

        thread = threading.Thread(target=sync)
        thread.start()
        asked.wait(30)
        mirror.interrupt()
        thread.join(10)
        leave.set()
    assert dropped


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
        with pytest.raises(UserError, match="The token cannot be read from"):
            given_token(path)
    with pytest.raises(UserError, match="Leave the token out of the address"):
        address_of("dgn://secret@127.0.0.1:80")


def test_what_cannot_be_served_is_refused(tmp_path: Path, recorded: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        RunServer(tmp_path)
    for port in (-1, 99_999):
        with pytest.raises(UserError, match="cannot be used"):
            RunServer(recorded, port)


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"host": "evil.example:80"}, "list", 400),
        ({"host": ""}, "list", 400),
        ({"host": "127.0.0.1.evil.example"}, "list", 400),
        ({"host": "localhost:1"}, "list", 200),  # ssh -L may have another port here
        ({"Origin": "http://127.0.0.1"}, "list", 400),
        ({"Content_Length": "5"}, "list", 400),
        ({"Transfer_Encoding": "chunked"}, "list", 400),
        ({"authorization": "Bearer x"}, "list", 401),  # a second one
        ({"method": "POST"}, "list", 501),
        ({"method": "OPTIONS"}, "list", 501),
        ({}, "list#x", 404),
        ({}, "list?x", 404),
        ({}, "file/log.jsonl?from=0&count=1&count=2", 404),
        ({}, "file/log.jsonl?count=1&from=0", 404),
        ({}, "file/log.jsonl?from=0&count=0", 200),
        ({}, "file/log.jsonl?from=999999999999999&count=9", 200),  # beyond its end
    ],
)
def test_requests_of_browsers_and_odd_ones_are_refused(
    recorded: Path, headers: dict[str, str], path: str, status: int
) -> None:
    server = RunServer(recorded)
    with served(server) as port:
        found, content = ask(port, f"{PREFIX}{path}", server.token, **headers)
        assert ask(port, f"http://{LOCAL}{PREFIX}list", server.token) == (404, b"")
    assert found == status
    assert (content != b"") == (path == "list" and status == 200)


def test_a_folder_of_frames_that_becomes_a_link_is_not_followed(
    recorded: Path, tmp_path: Path
) -> None:
    source = tmp_path / "run"
    shutil.copytree(recorded, source)
    frame = sorted((source / layout.FRAMES).iterdir())[0].name
    server = RunServer(source)
    with served(server) as port:
        asked = f"{PREFIX}file/frames/{frame}?from=0&count=9"
        assert ask(port, asked, server.token)[0] == 200
        (source / layout.FRAMES).rename(tmp_path / "elsewhere")
        (source / layout.FRAMES).symlink_to(tmp_path / "elsewhere")
        assert ask(port, asked, server.token) == (404, b"")
        assert ask(port, f"{PREFIX}list", server.token) == (404, b"")


def test_frames_that_are_thinned_out_there_go_here_too(recorded: Path, tmp_path: Path) -> None:
    source, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(recorded, source)
    server = RunServer(source)
    with served(server) as port:
        mirror = RunMirror(port, server.token, here)
        mirror.sync()
        sorted((source / layout.FRAMES).iterdir())[0].unlink()
        mirror.sync()
        mirror.close()
    assert names(here) == names(source)


def test_a_log_that_is_dropped_in_its_middle_goes_on_from_there(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_run, "PIECE", 100)
    monkeypatch.setattr(run_mirror, "OVERLAP", 50)
    source, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(recorded, source)
    whole = (source / layout.LOG).read_bytes()
    (source / layout.LOG).write_bytes(whole[:150])
    server = RunServer(source)
    with served(server) as port:
        mirror = RunMirror(port, server.token, here)
        mirror.sync()
        (source / layout.LOG).write_bytes(whole)
        real, asked = mirror._served._reply, 0

        def reply(what: str, most: int) -> Iterator[bytes]:
            nonlocal asked
            asked += 1
            if asked == 4:
                raise LineDroppedError("dropped")
            return real(what, most)

        monkeypatch.setattr(mirror._served, "_reply", reply)
        with pytest.raises(LineDroppedError):
            mirror.sync()
        assert (here / layout.LOG).read_bytes() == whole[:300]  # 50 bytes were read again
        mirror.sync()
        mirror.close()
    assert (here / layout.LOG).read_bytes() == whole


def test_a_disk_that_is_too_small_is_said_before_anything_comes(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    server = RunServer(recorded)
    with served(server) as port, pytest.raises(UserError, match="choose another folder"):
        RunMirror(port, server.token, tmp_path / "here").sync()
    assert names(tmp_path / "here") == set()


def test_a_list_opens_no_log(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(recorded, tmp_path / "run"))
    server = RunServer(run)
    (run / layout.LOG).write_bytes(b"no line\n" * 3)
    opened: list[str] = []
    real = os.open

    def watched(path: Any, *arguments: Any, **named: Any) -> int:
        opened.append(os.path.basename(os.fspath(path)))  # noqa: PTH119
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", watched)
    listed = server.listing()
    monkeypatch.undo()
    server.server_close()
    assert layout.LOCK in opened
    assert not {layout.LOG, layout.RUN} & set(opened)
    assert listed["running"] is False
    assert {layout.LOG, layout.RUN} <= {one[0] for one in listed["files"]}  # type: ignore[attr-defined]


def test_a_run_whose_description_is_damaged_is_not_served(recorded: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(recorded, tmp_path / "run"))
    (run / layout.RUN).write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        RunServer(run)


def test_a_description_that_is_damaged_while_it_is_served_is_listed(
    recorded: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(recorded, tmp_path / "run"))
    server = RunServer(run)
    (run / layout.RUN).write_text("{")
    with served(server) as port:
        assert ask(port, f"{PREFIX}list", server.token)[0] == 200
