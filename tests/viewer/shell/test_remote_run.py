"""A run of another machine is followed: token, version, a dropped line, and the window itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import dgn_engine as dgn
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.storage.remote import LOCAL, VERSION_HEADER
from dgn_engine.storage.remote.run_server import RunServer
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.views.event_notices import Notice
from dgn_viewer.application import Viewer
from dgn_viewer.shell.remote_dialog import RemoteDialog
from dgn_viewer.shell.remote_run import RemoteRun
from tests.engine.attachment.loops import examples, mlp, train
from tests.viewer.window_contexts import make_context


@contextmanager
def served(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"dgn://{LOCAL}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class DroppedServer(RunServer):
    """One whose connections can be cut, as ssh does where the line is dropped."""

    sockets: list[socket.socket]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.append(request)
        super().process_request(request, client_address)

    def drop(self) -> None:
        for one in self.sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Bench:
    """The part of the window that follows, alone; `runs`: where mirrors go."""

    def __init__(self, sent: list[Command], runs: Path) -> None:
        self.sent, self.runs = sent, runs
        self.notices: list[Notice] = []
        self.parent = QWidget()
        self.remote = RemoteRun(make_context(self.parent, sent.append, self.notices.append))

    @property
    def dialog(self) -> RemoteDialog:
        assert self.remote.dialog is not None
        return self.remote.dialog

    def said(self) -> str:
        return " | ".join(notice.text for notice in self.notices)


@pytest.fixture
def bench(
    qtbot: QtBot, sent: list[Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "runs"))
    bench = Bench(sent, tmp_path / "runs")
    yield bench
    bench.remote.stop()
    bench.parent.deleteLater()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "far"
    with dgn.watch(mlp(), probe=examples(), out=folder, probes=("gates",)) as w:
        train(w._module, 3, w.step)
    return folder


def test_a_served_run_is_mirrored_and_shown(bench: Bench, recorded: Path, qtbot: QtBot) -> None:
    with served(server := RunServer(recorded)) as address:
        bench.remote.open()
        bench.dialog.show_address(address)
        assert not bench.dialog.follow_button.isEnabled()
        bench.dialog.token.setText(server.token)
        bench.dialog.follow_button.click()
        qtbot.waitUntil(lambda: not bench.remote.is_following)
    assert bench.sent == [ShowRun(str(bench.runs / "far"))]
    assert bench.remote.dialog is None
    assert "the complete copy is in" in bench.said()
    assert RunReader(bench.runs / "far").status == "finished"


def test_a_wrong_token_is_said_and_asked_for_again(
    bench: Bench, recorded: Path, qtbot: QtBot
) -> None:
    with served(server := RunServer(recorded)) as address:
        bench.remote.follow_address(address, "wrong")
        qtbot.waitUntil(lambda: bench.remote.dialog is not None)
        assert "The token does not match the served run" in bench.dialog.said.text()
        assert bench.dialog.address.text() == address
        bench.dialog.token.setText(server.token)
        bench.dialog.submit_fields()
        qtbot.waitUntil(lambda: bool(bench.sent))
    bench.remote.follow_address(address, "")
    assert bench.dialog.said.text() == ""  # no token yet: that is no mistake
    bench.remote.follow_address(address, "ü")
    assert "invalid characters" in bench.dialog.said.text()


def test_a_dropped_line_is_said_tried_again_and_nothing_is_lost(
    bench: Bench, tmp_path: Path, qtbot: QtBot
) -> None:
    source = tmp_path / "there" / "far"
    with dgn.watch(mlp(), probe=examples(), out=source, probes=("gates",)) as w:
        first = DroppedServer(source)
        first.sockets = []
        with served(first) as address:
            bench.remote.follow_address(address, first.token)
            qtbot.waitUntil(lambda: bool(bench.sent))
        first.drop()
        qtbot.waitUntil(lambda: bool(bench.notices) and bool(bench.notices[-1].offers))
        [stop] = bench.notices[-1].offers
        assert bench.notices[-1].kind == "refused"
        assert stop.possible()
        train(w._module, 3, w.step)
    again = RunServer(source, first.port)
    again.token = first.token
    with served(again):
        qtbot.waitUntil(lambda: not bench.remote.is_following)
    assert [one.kind for one in bench.notices[-2:]] == ["info", "info"]  # again, and its end
    assert not stop.possible()
    log = "log.jsonl"
    assert (bench.runs / "far" / log).read_bytes() == (source / log).read_bytes()


def test_another_version_is_said_and_not_tried_again(bench: Bench, qtbot: QtBot) -> None:
    class Later(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header(VERSION_HEADER, "2")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with served(HTTPServer((LOCAL, 0), Later)) as address:
        bench.remote.open()
        bench.remote.follow_address(address, "t")
        qtbot.waitUntil(lambda: not bench.remote.is_following)
    assert "another version of this program" in bench.said()
    assert "another version of this program" in bench.dialog.said.text()
    assert bench.sent == []


def test_an_address_that_is_none_is_said_in_the_dialog(bench: Bench) -> None:
    bench.remote.open()
    bench.dialog.show_address("dgn://example.org:1")
    bench.dialog.token.setText("t")
    bench.dialog.submit_fields()
    assert "not the address of a served run" in bench.dialog.said.text()
    assert not bench.remote.is_following


def test_the_window_follows_a_run_of_another_machine_to_its_end_and_then_another_one(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "here" / "runs"))
    window = make_viewer(home="here").window
    remote = window.recorded.remote

    def shown() -> tuple[str, bool]:
        recorded = window.run_state.recorded
        return ("", False) if recorded is None else (recorded.name, recorded.is_live)

    for name, steps in (("far", 3), ("farther", 5)):
        source = tmp_path / "there" / name
        with dgn.watch(mlp(), probe=examples(), out=source, probes=("gates",)) as w:
            server = RunServer(source)
            with served(server) as address:
                remote.follow_address(address, server.token)
                qtbot.waitUntil(lambda name=name: shown() == (name, True))
                train(w._module, steps, w.step)
                w.close()
                qtbot.waitUntil(lambda: not remote.is_following)
        qtbot.waitUntil(lambda steps=steps: window.history.step == steps)
        qtbot.waitUntil(lambda name=name: shown() == (name, False))


def test_a_run_that_is_followed_no_more_makes_room_for_another(
    bench: Bench, tmp_path: Path, qtbot: QtBot
) -> None:
    for name in ("far", "farther"):
        source = tmp_path / "there" / name
        with (
            dgn.watch(mlp(), probe=examples(), out=source, probes=("gates",)),
            served(server := RunServer(source)) as address,
        ):
            bench.remote.open()
            bench.remote.follow_address(address, server.token)
            here = ShowRun(str(bench.runs / name))
            qtbot.waitUntil(lambda here=here: bench.sent[-1:] == [here])
            assert bench.remote.is_following
            bench.remote.stop()  # while it is still written
            assert not bench.remote.is_following
    assert len(bench.sent) == 2
    assert not [one for one in bench.notices if one.kind != "info"]
