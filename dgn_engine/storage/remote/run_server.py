"""Serves the files of one run on a loopback socket, to who knows its token, and changes nothing.

    GET /dgn/1/list                          JSON: which files there are, and whether it is written
    GET /dgn/1/file/NAME?from=N&count=M      so many bytes of one of them

Only what is listed is served: log, configuration, description and frames; no weights, no notes.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import InnerPath, inside
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.remote import LOCAL, PREFIX, PROTOCOL, TOKEN_BYTES, VERSION_HEADER
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs.run_reader import RunReader

PIECE = 4 << 20  # bytes of a file in one reply
PATIENCE = 15.0  # seconds that a peer may be silent
MOST = 8  # connections at a time
_TOP = (layout.RUN, layout.CONFIG, layout.LOG)


class RunServer(ThreadingHTTPServer):
    """One run; `token` is new for each server. `serve_forever` until `shutdown`."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Raises `UserError` where the folder holds no run or the port is taken."""
        if not layout.holds_run(folder):
            raise UserError(f"{folder} holds no run.")
        self.folder = folder
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._free = threading.BoundedSemaphore(MOST)
        try:
            super().__init__((LOCAL, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"Port {port} of {LOCAL} cannot be used: {error}.") from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """A peer that went away, or talks nonsense, is no news."""

    def listing(self) -> dict[str, object]:
        """What a mirror needs to know. Raises `OSError`."""
        root = inside(self.folder)
        running = RunReader(self.folder).status == "running"  # first: then all of it is listed
        top = [(name, one) for name, one in root.listing().items() if name in _TOP]
        frames = (root / layout.FRAMES).listing().items()
        found = [*top, *((f"{layout.FRAMES}/{n}", s) for n, s in frames if layout.frame_key(n))]
        files = [[name, one.st_size, one.st_mtime_ns, one.st_ino] for name, one in found]
        return {"protocol": PROTOCOL, "name": self.folder.name, "running": running, "files": files}

    def path_of(self, name: str) -> InnerPath | None:
        """A file that is served; None for every other name."""
        folder, _, frame = name.rpartition("/")
        if name in _TOP or (folder == layout.FRAMES and layout.frame_key(frame)):
            return inside(self.folder) / name
        return None


class _Handler(BaseHTTPRequestHandler):
    server: RunServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server_version = "dgn"
    sys_version = ""

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            self.close_connection = True
            self._send(HTTPStatus.UNAUTHORIZED, b"")
            return
        address = urlsplit(self.path)
        try:
            if address.path == f"{PREFIX}list":
                self._send(HTTPStatus.OK, json.dumps(self.server.listing()).encode())
            elif address.path.startswith(f"{PREFIX}file/"):
                self._file(address.path.removeprefix(f"{PREFIX}file/"), parse_qs(address.query))
            else:
                self._send(HTTPStatus.NOT_FOUND, b"")
        except (OSError, UserError):  # it went a moment ago, or is a link
            self._send(HTTPStatus.NOT_FOUND, b"")

    def _file(self, name: str, given: dict[str, list[str]]) -> None:
        path = self.server.path_of(name)
        numbers = [given.get(key, [""])[0] for key in ("from", "count")]
        if path is None or not all(n.isascii() and n.isdecimal() and len(n) < 16 for n in numbers):
            self._send(HTTPStatus.NOT_FOUND, b"")
            return
        first, count = (int(number) for number in numbers)
        with open_regular(path, FILE) as file:
            content = os.pread(file.fileno(), min(count, PIECE), first)
        self._send(HTTPStatus.OK, content)

    def _send(self, status: HTTPStatus, content: bytes) -> None:
        self.send_response(status)
        self.send_header(VERSION_HEADER, str(PROTOCOL))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal: who serves a run looks at something else."""
