"""Request the files of a run from `dgn serve`.

The peer is not trusted: names, sizes, number and format of what it sends are bounded, and so is the
total time of each reply. Nothing that it sends is kept in memory but the list of files.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from dgn_engine.errors import UserError
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import FILE
from dgn_engine.storage.remote import (
    LIMITS,
    LOCAL,
    PREFIX,
    PROTOCOL,
    VERSION_HEADER,
    LineLimits,
)
from dgn_engine.storage.remote.bounded_socket import BoundedSocket, TooManyBytesError
from dgn_engine.storage.remote.served_address import WrongTokenError
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.text.written_numbers import format_duration

LISTING = 12 << 20  # bytes of a list of files
FILES = 75_000  # files in it
DESCRIPTION = 4 << 20  # bytes of a run's description, and of its configuration
FRAME = 1 << 30  # bytes of a frame; for a log the limit is `FILE`, as for local ones
_CHUNK = 1 << 16
_KEYS = 1024  # colons in a list: those of its four keys, and of a name
_ESCAPED = 4096  # backslashes in a name
_LONG_WORD = re.compile(rb'[^"]{8192}')  # longer than any name
_LENGTH = re.compile(r"[0-9]{1,15}")
_NO_RUN = "No run is served there: check the port."


class LineDroppedError(Exception):
    """No answer, or an answer is cut off: try again."""


class SlowReplyError(LineDroppedError):
    """A reply has started but does not end in time."""


class FileGoneError(LineDroppedError):
    """A listed file is missing, or has become shorter."""


class _TooLongError(UserError, ValueError):
    """A reply is longer than requested."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as the peer lists it; `stamp` and `identity` change if it is replaced."""

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
    """One run that is served on a local port; call `hang_up` at the end and after an error.

    Each request raises `LineDroppedError`, or `UserError` if trying again is pointless.
    """

    def __init__(self, port: int, token: str, limits: LineLimits = LIMITS) -> None:
        if not token or not token.isascii() or not token.isprintable():
            raise WrongTokenError("The token is empty or has invalid characters.", kind="no-token")
        self._limits = limits
        self._port, self._token = port, token
        self._connection: BoundedSocket | None = None
        self._interrupted = threading.Event()

    def iterate_pieces(self, file: RemoteFile, first: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `first` to its listed size, as they arrive."""
        while first < file.size:
            count, before = min(self._limits.piece, file.size - first), first
            for piece in self._request_reply(f"file/{file.name}?from={first}&count={count}", count):
                first += len(piece)
                yield piece
            if first == before:
                raise FileGoneError("a file became shorter")

    def fetch_listing(self) -> Listing:
        try:
            content = b"".join(self._request_reply("list", LISTING))
            if not _is_plain(content):
                raise ValueError("words")
            tree = parse_json(content)
            if tree["protocol"] != PROTOCOL or len(tree["files"]) > FILES:
                raise ValueError("protocol or number of files")
            files = {entry[0]: RemoteFile(*entry) for entry in tree["files"]}
            name, running = str(tree["name"]), tree["running"] is True
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"The server did not send a list of at most {FILES:,} files, so it cannot be "
                "mirrored; export larger runs with 'dgn runs export'.",
                kind="no-list",
            ) from error
        if any(not _is_sound(file) for file in files.values()):
            raise UserError(
                "The server lists files that no run has, or that are too large, so it cannot be "
                "mirrored.",
                kind="unknown-file",
            )
        if layout.RUN not in files and layout.LOG not in files:
            raise UserError("The server has no run, or no longer has one.", kind="no-run")
        return Listing(name, running, files)

    def _request_reply(self, what: str, most: int) -> Iterator[bytes]:
        """Yield a reply of at most `most` bytes, as it arrives."""
        if self._interrupted.is_set():
            raise LineDroppedError("the request was interrupted")
        connection, begun = self._connection, False
        try:
            connection = connection or self._open_connection()
            connection.set_allowance(self._limits.head, self._limits.patience)
            connection.sendall(
                f"GET {PREFIX}{what} HTTP/1.1\r\nHost: {LOCAL}:{self._port}\r\n"
                f"Authorization: Bearer {self._token}\r\n\r\n".encode("ascii")
            )
            with http.client.HTTPResponse(connection, method="GET") as reply:
                try:
                    reply.begin()
                    left = 0 if connection.is_cut else _content_length(reply, most)
                except http.client.HTTPException:
                    if not connection.is_cut:
                        raise
                if connection.is_cut:
                    raise LineDroppedError("a reply was cut off")
                begun = True
                connection.set_allowance(left, self._limits.patience + left / self._limits.slowest)
                while left:
                    piece = reply.read(min(left, _CHUNK))
                    if not piece:
                        raise LineDroppedError("a reply was cut off")
                    left -= len(piece)
                    yield piece
                if reply.will_close:
                    self.hang_up()
        except TooManyBytesError:
            raise UserError(
                f"The server sends more than {self._limits.head >> 10} KiB of reply headers, so it "
                "cannot be mirrored.",
                kind="too-long",
            ) from None
        except TimeoutError:
            if begun or (connection is not None and not connection.is_silent):
                raise SlowReplyError("replies are too slow") from None
            raise LineDroppedError(
                f"no reply for {format_duration(self._limits.patience)}"
            ) from None
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise LineDroppedError(reason) from None
        except http.client.HTTPException:
            raise UserError(_NO_RUN, kind="no-server") from None

    def _open_connection(self) -> BoundedSocket:
        self._connection = connection = BoundedSocket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(self._limits.patience)
        connection.connect((LOCAL, self._port))
        return connection

    def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """End the request of another thread, as if the connection were lost; no more can follow."""
        self._interrupted.set()
        connection = self._connection
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _is_plain(content: bytes) -> bool:
    """Return whether a list has no more words, keys and escapes than that of a run.

    Otherwise Python may take ten times the memory of the text, at four bytes per character.
    """
    few = content.count(b":") <= _KEYS and content.count(b"\\") <= _ESCAPED
    return few and content.isascii() and _LONG_WORD.search(content) is None


def _content_length(reply: http.client.HTTPResponse, most: int) -> int:
    """Return the length of a reply's body, checking that `dgn serve` may have sent it."""
    version = reply.getheader(VERSION_HEADER)
    if version is None:
        raise UserError(_NO_RUN, kind="no-server")
    if version != str(PROTOCOL):
        raise UserError(
            f"The run is served by another version of this program (protocol {version[:8]!r}, here "
            f"{PROTOCOL}): install the same version on both machines.",
            kind="other-version",
            value=version[:8],
        )
    if reply.status == http.HTTPStatus.UNAUTHORIZED:
        raise WrongTokenError(
            "The token does not match the served run: 'dgn serve' prints it.", kind="wrong-token"
        )
    if reply.status == http.HTTPStatus.NOT_FOUND:
        raise FileGoneError("a file is missing")
    if reply.status != http.HTTPStatus.OK:
        raise LineDroppedError(f"it answers {reply.status}")
    lengths = reply.headers.get_all("Content-Length", [])
    coded = "Transfer-Encoding" in reply.headers or "Content-Encoding" in reply.headers
    if coded or len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise UserError(
            "The server sends replies that are chunked, compressed or without a length, which "
            "'dgn serve' never does; it cannot be mirrored.",
            kind="no-length",
        )
    if int(lengths[0]) > most:
        raise _TooLongError(
            f"The server sends {int(lengths[0]):,} bytes instead of the {most:,} requested; it "
            "cannot be mirrored.",
            kind="too-long",
            value=int(lengths[0]),
        )
    return int(lengths[0])


def _is_sound(file: RemoteFile) -> bool:
    numbers = (file.size, file.stamp, file.identity)
    if not isinstance(file.name, str) or any(type(n) is not int or n < 0 for n in numbers):
        return False
    if file.name in (layout.RUN, layout.CONFIG):
        return file.size <= DESCRIPTION
    if file.name == layout.LOG:
        return file.size <= FILE
    folder, _, frame = file.name.rpartition("/")
    return folder == layout.FRAMES and bool(layout.frame_key(frame)) and file.size <= FRAME
