"""Serve the files of one run on a loopback socket, read-only, to clients with its token.

    GET /dgn/1/list                          JSON: the files, and whether the run is being written
    GET /dgn/1/file/NAME?from=N&count=M      some bytes of one of them

Only listed files are served: log, configuration, description and frames; no weights, no notes.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.remote import (
    LIMITS,
    LOCAL,
    PREFIX,
    PROTOCOL,
    TOKEN_BYTES,
    VERSION_HEADER,
    LineLimits,
)
from dgn_engine.storage.remote.bounded_socket import BoundedSocket
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs import run_info

OWNERS = 8  # connections that have shown the token
STRANGERS = 32  # … that have not yet; the oldest gives way to a new one
STRANGERS_TIME = 5.0
_TOP = (layout.RUN, layout.CONFIG, layout.LOG)
_FILE = re.compile(rf"{PREFIX}file/([^?]{{1,200}})\?from=([0-9]{{1,15}})&count=([0-9]{{1,15}})")
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")  # ssh -L may have another port
_UNWANTED = ("Origin", "Transfer-Encoding", "Content-Length")  # from web pages, and with bodies


class RunServer(ThreadingHTTPServer):
    """Serves one run with a new `token`, from `serve_forever` to `shutdown`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        report: Callable[[int], object] | None = None,
        limits: LineLimits = LIMITS,
        strangers_time: float = STRANGERS_TIME,
    ) -> None:
        """Open the port.

        Args:
            port: 0 for any free one.
            report: Called with the number of connections that ended without the token, when it
                reaches 1, 2, 4, 8 and so on.
            strangers_time: Seconds within which a connection must show the token.

        Raises:
            UserError: The folder has no readable run, or the port is taken.
        """
        if not layout.holds_run(folder):
            raise UserError(f"{folder} is not a run.", kind="no-run", value=folder)
        if (inner_folder(folder) / layout.RUN).exists():
            run_info.read_run_info(folder)  # a damaged one could not be mirrored
        self.folder = folder
        self.limits = limits
        self.strangers_time = strangers_time
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._report = report
        self._refusals = 0
        self._counting = threading.Lock()
        self._strangers: dict[BoundedSocket, None] = {}  # in order of arrival
        self._owners: set[BoundedSocket] = set()
        try:
            super().__init__((LOCAL, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"Port {port} of {LOCAL} cannot be used: {error}.", kind="no-port", value=port
            ) from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def get_request(self) -> tuple[BoundedSocket, Any]:
        accepted, address = self.socket.accept()
        return BoundedSocket(fileno=accepted.detach()), address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            oldest = next(iter(self._strangers)) if len(self._strangers) >= STRANGERS else None
            self._strangers[request] = None
        if oldest is not None:
            self._forget_connection(oldest)
            with suppress(OSError):  # it may have been closed meanwhile
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._forget_connection(request)
        super().shutdown_request(request)

    def admit_owner(self, connection: BoundedSocket) -> bool:
        """Count a connection that has shown the token; return False if there are too many."""
        with self._counting:
            if connection not in self._owners and len(self._owners) >= OWNERS:
                return False
            self._owners.add(connection)
            self._strangers.pop(connection, None)
            return True

    def _forget_connection(self, connection: BoundedSocket) -> None:
        with self._counting:
            self._owners.discard(connection)
            refused = connection in self._strangers
            self._strangers.pop(connection, None)
            self._refusals += refused
            count = self._refusals
        if refused and self._report is not None and count & (count - 1) == 0:
            self._report(count)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a peer that disconnects or sends nonsense."""

    def list_run(self) -> dict[str, object]:
        """Return the list for a mirror; raises `OSError`.

        Only the run's lock is opened: a log may take longer to read than a mirror waits.
        """
        root = inner_folder(self.folder)
        running = (
            lock.find_lock_holder(root / layout.LOCK) is not None
        )  # first: then all of it is listed
        top = [(name, status) for name, status in root.list_entries().items() if name in _TOP]
        frames = (root / layout.FRAMES).list_entries().items()
        entries = [*top, *((f"{layout.FRAMES}/{n}", s) for n, s in frames if layout.frame_key(n))]
        files = [
            [name, status.st_size, status.st_mtime_ns, status.st_ino] for name, status in entries
        ]
        return {"protocol": PROTOCOL, "name": self.folder.name, "running": running, "files": files}

    def path_of(self, name: str) -> InnerPath | None:
        """Return a served file; None for any other name."""
        folder, _, frame = name.rpartition("/")
        if name in _TOP or (folder == layout.FRAMES and layout.frame_key(frame)):
            return inner_folder(self.folder) / name
        return None


class _Handler(BaseHTTPRequestHandler):
    server: RunServer
    connection: BoundedSocket
    protocol_version = "HTTP/1.1"
    server_version = "dgn"
    sys_version = ""
    disable_nagle_algorithm = True  # head and content are sent separately
    _is_admitted = False

    def handle_one_request(self) -> None:
        limits = self.server.limits
        seconds = limits.patience if self._is_admitted else self.server.strangers_time
        self.connection.set_allowance(limits.head, seconds)
        super().handle_one_request()

    def do_GET(self) -> None:
        credentials = self.headers.get_all("Authorization", [])
        shown = credentials[0].encode("utf-8", "replace") if len(credentials) == 1 else b""
        if not hmac.compare_digest(shown, f"Bearer {self.server.token}".encode()):
            self.send_error(HTTPStatus.UNAUTHORIZED)
        elif not self._is_plain_request():
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif not self.server.admit_owner(self.connection):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._is_admitted = True
            try:
                content = self._requested_content()
            except (OSError, UserError):  # it was removed a moment ago, or is a link
                content = None
            self._send_response(
                HTTPStatus.NOT_FOUND if content is None else HTTPStatus.OK, content or b""
            )

    def _is_plain_request(self) -> bool:
        """Return whether it has no body and is not from a web page.

        A web page may use another name for this machine (DNS rebinding).
        """
        hosts = self.headers.get_all("Host", [])
        is_local = len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None
        return is_local and not any(name in self.headers for name in _UNWANTED)

    def _requested_content(self) -> bytes | None:
        """Return what was requested; None if it is not served. Raises `OSError`."""
        if self.path == f"{PREFIX}list":
            return json.dumps(self.server.list_run()).encode()
        match = _FILE.fullmatch(self.path)
        path = self.server.path_of(match[1]) if match else None
        if match is None or path is None:
            return None
        count = min(int(match[3]), self.server.limits.piece)
        with open_regular(path, FILE) as file:
            return os.pread(file.fileno(), count, int(match[2]))

    def _send_response(self, status: int, content: bytes) -> None:
        limits = self.server.limits
        self.connection.set_allowance(0, limits.patience + len(content) / limits.slowest)
        self.send_response(status)
        self.send_header(VERSION_HEADER, str(PROTOCOL))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse with an empty reply, and close the connection."""
        self.close_connection = True
        self._send_response(code, b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: `report` tells how many were refused."""
