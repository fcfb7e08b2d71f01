"""Asks `dgn serve` for the files of its run.

The peer is not trusted: names, sizes and the time of a reply are bounded.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from dgn_engine.errors import UserError
from dgn_engine.storage.regular_files import JSON
from dgn_engine.storage.remote import LOCAL, PREFIX, PROTOCOL, VERSION_HEADER
from dgn_engine.storage.remote.served_address import WrongTokenError
from dgn_engine.storage.runs import folder_layout as layout

PATIENCE = 15.0  # seconds that the peer may be silent
SLOWEST = 20_000  # bytes a second that a reply must bring, after `PATIENCE`
LISTING = 32 << 20  # bytes of a list of files
PIECE = 4 << 20  # … of a file that are asked for at a time
FRAME = 1 << 30  # … of one frame
WHOLE = 16 << 30  # … of a run
FILES = 1_000_000


class LineDroppedError(Exception):
    """Nobody answers, too slowly, or something that is no answer: it is tried again."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as the peer lists it; `stamp` and `identity` differ where it was replaced."""

    name: str
    size: int
    stamp: int
    identity: int


@dataclass(frozen=True)
class Listing:
    name: str
    running: bool
    files: dict[str, RemoteFile]


class ServedRun:
    """One run that is served on a port of this machine; `hang_up` at the end.

    Each question raises `LineDroppedError`, or `UserError` where it makes no sense to ask again.
    """

    def __init__(self, port: int, token: str) -> None:
        if not token or not token.isascii() or not token.isprintable():
            raise WrongTokenError("The token is empty or has characters that no token has.")
        self._port, self._token = port, token
        self._connection: http.client.HTTPConnection | None = None

    def content(self, file: RemoteFile, first: int) -> bytes:
        """The bytes of a file from there to the size that was listed."""
        content = bytearray()
        while (start := first + len(content)) < file.size:
            count = min(PIECE, file.size - start)
            piece = self._get(f"file/{file.name}?from={start}&count={count}", count)
            if not piece:
                raise LineDroppedError("a file became shorter")
            content += piece
        return bytes(content)

    def listing(self) -> Listing:
        try:
            tree = json.loads(self._get("list", LISTING))
            if tree["protocol"] != PROTOCOL or len(tree["files"]) > FILES:
                raise ValueError("protocol")
            files = {one[0]: RemoteFile(*one) for one in tree["files"]}
            name, running = str(tree["name"]), tree["running"] is True
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LineDroppedError("what answers there is no list of files") from error
        if any(not _is_sound(file) for file in files.values()):
            raise UserError("What answers there names files that no run has; it is left alone.")
        if sum(file.size for file in files.values()) > WHOLE:
            raise UserError(f"The run is larger than {WHOLE >> 30} GiB; it is not mirrored.")
        return Listing(name, running, files)

    def _get(self, what: str, most: int) -> bytes:
        until = time.monotonic() + PATIENCE + most / SLOWEST
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(LOCAL, self._port, timeout=PATIENCE)
            headers = {"Authorization": f"Bearer {self._token}"}
            self._connection.request("GET", f"{PREFIX}{what}", headers=headers)
            reply = self._connection.getresponse()
            _check(reply)
            content = bytearray()
            while piece := reply.read1(1 << 16):
                content += piece
                if len(content) > most:
                    raise LineDroppedError("a reply is longer than what was asked for")
                if time.monotonic() > until:
                    raise LineDroppedError("the replies come too slowly")
            if reply.length:
                raise LineDroppedError("a reply was cut off")
            reply.close()  # the connection stays
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise LineDroppedError(reason) from None
        except BaseException:
            self.hang_up()
            raise
        return bytes(content)

    def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """End the question that another thread is asking, as a dropped line would."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)


def _check(reply: http.client.HTTPResponse) -> None:
    version = reply.getheader(VERSION_HEADER)
    if version is not None and version != str(PROTOCOL):
        raise UserError(
            f"The run is served by another version of this program (protocol {version[:8]!r}, here "
            f"{PROTOCOL}): install the same on both machines."
        )
    if version is None:
        raise UserError("What answers there serves no run: look at the port.")
    if reply.status == http.HTTPStatus.UNAUTHORIZED:
        raise WrongTokenError("The token is not that of the served run: 'dgn serve' prints it.")
    if reply.status != http.HTTPStatus.OK:
        raise LineDroppedError(f"it answers {reply.status}")


def _is_sound(file: RemoteFile) -> bool:
    numbers = (file.size, file.stamp, file.identity)
    if not isinstance(file.name, str) or any(type(n) is not int or n < 0 for n in numbers):
        return False
    if file.name in (layout.RUN, layout.CONFIG):
        return file.size <= JSON
    folder, _, frame = file.name.rpartition("/")
    is_frame = folder == layout.FRAMES and layout.frame_key(frame) is not None
    return file.name == layout.LOG or (is_frame and file.size <= FRAME)
