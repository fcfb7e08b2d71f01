"""Mirrors a run that `dgn serve` serves into a folder here, which is then followed as any other.

The peer is not trusted: names, sizes and the time of a reply are bounded, a frame must have the
digest in its name, and what is in the files is checked by whoever reads the run.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.inner_path import InnerPath, inside
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import JSON, digest
from dgn_engine.storage.remote import LOCAL, PREFIX, PROTOCOL, VERSION_HEADER
from dgn_engine.storage.runs import folder_layout as layout

EVERY = 0.5  # seconds between two looks
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds after a line was dropped, and again and again
PATIENCE = 15.0  # seconds that the peer may be silent
SLOWEST = 20_000  # bytes a second that a reply must bring, after `PATIENCE`
LISTING = 32 << 20  # bytes of a list of files
PIECE = 4 << 20  # … of a file that are asked for at a time
FRAME = 1 << 30  # … of one frame
WHOLE = 16 << 30  # … of a run
FILES = 1_000_000
MARK = "mirror"  # the file by which a folder is known to be one


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


def address_of(text: str) -> int:
    """The port in 'dgn://127.0.0.1:PORT' or 'dgn://localhost:PORT'; raises `UserError`."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = None
    if port is None or parts.scheme != "dgn" or parts.hostname not in (LOCAL, "localhost"):
        raise UserError(
            f"{text} is no address of a served run: write dgn://{LOCAL}:PORT; a run of another "
            f"machine comes to this one by ssh -L PORT:{LOCAL}:PORT."
        )
    return port


class RunMirror:
    """One served run, and the folder here that becomes equal to it; `close` it."""

    def __init__(self, port: int, token: str, folder: Path) -> None:
        if not token or not token.isascii() or not token.isprintable():
            raise UserError("The token is empty or has characters that no token has.")
        if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise UserError(f"{folder} is not empty and no mirror of a run; choose another folder.")
        self._port, self._token, self._folder = port, token, folder
        self._seen: dict[str, RemoteFile] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._lock: Lock | None = None

    def sync(self) -> Listing:
        """Fetch what is new, the log before the frames, the newest frame first.

        Raises `LineDroppedError`; `UserError` where it makes no sense to try again.
        """
        try:
            return self._synced()
        except BaseException:
            self._hang_up()
            raise

    def _synced(self) -> Listing:
        listing = self._listing()
        if not self._seen:
            make_folders(self._folder)
            make_folders(inside(self._folder) / layout.FRAMES)
            write_file(self._place(MARK), b"", synced=False)
        if listing.running and self._lock is None:  # who reads the folder sees that it goes on
            self._lock = Lock(inside(self._folder) / layout.LOCK)
            self._lock.take()
        for name in (layout.CONFIG, layout.LOG, layout.RUN):
            if name in listing.files and listing.files[name] != self._seen.get(name):
                self._fetch_top(listing, listing.files[name])
        frames = (n for n in listing.files if n not in (layout.CONFIG, layout.LOG, layout.RUN))
        for name in sorted(frames, key=_serial, reverse=True):
            self._fetch_frame(listing.files[name])
        if not listing.running:
            self.close()
        return listing

    def close(self) -> None:
        self._hang_up()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _fetch_top(self, listing: Listing, file: RemoteFile) -> None:
        path, before = self._place(file.name), self._seen.get(file.name)
        goes_on = file.name == layout.LOG and before is not None
        if goes_on and before and before.identity == file.identity and before.size <= file.size:
            content = self._content(file, before.size)
            with os.fdopen(path.open(os.O_WRONLY | os.O_APPEND), "ab") as log:
                log.write(content)
        else:
            write_file(path, self._content(file, 0), synced=False)
            if file.name == layout.LOG:  # a run that went on from an earlier step, say
                self._drop_frames(listing)
        self._seen[file.name] = file

    def _drop_frames(self, listing: Listing) -> None:
        for path in (inside(self._folder) / layout.FRAMES).entries():
            if path.within not in listing.files and layout.frame_key(path.name):
                path.unlink(missing_ok=True)

    def _fetch_frame(self, file: RemoteFile) -> None:
        if file.name in self._seen:
            return
        path = self._place(file.name)
        if not path.exists():
            content = self._content(file, 0)
            key = layout.frame_key(path.name)
            if key is None or digest(content).sha256[:16] != key[2]:
                raise LineDroppedError("a frame came damaged")
            write_file(path, content, synced=False)
        self._seen[file.name] = file

    def _place(self, name: str) -> InnerPath:
        return inside(self._folder) / name

    # The line

    def _content(self, file: RemoteFile, first: int) -> bytes:
        """The bytes of a file from there to the size that was listed."""
        content = bytearray()
        while (start := first + len(content)) < file.size:
            count = min(PIECE, file.size - start)
            piece = self._get(f"file/{file.name}?from={start}&count={count}", count)
            if not piece:
                raise LineDroppedError("a file became shorter")
            content += piece
        return bytes(content)

    def _listing(self) -> Listing:
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
            self._hang_up()
            raise LineDroppedError(str(error) or type(error).__name__) from None
        except BaseException:
            self._hang_up()
            raise
        return bytes(content)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def follow(mirror: RunMirror, tell: Callable[[str], None], wait: Callable[[float], bool]) -> None:
    """Mirror until the run has ended. A dropped line is told once and tried again, less and less
    often. `wait(seconds)`: False to stop. Raises `UserError` where trying again is in vain."""
    pause = 0.0
    while True:
        try:
            listing = mirror.sync()
            if pause:
                tell("Connected again; nothing is lost.")
            pause = 0.0
            if not listing.running:
                return
        except LineDroppedError as dropped:
            if not pause:
                tell(f"The line is dropped ({dropped}); it is tried again.")
            pause = min(max(2.0 * pause, FIRST_WAIT), LONGEST_WAIT)
        if not wait(pause or EVERY):
            return


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
        raise UserError("The token is not that of the served run: 'dgn serve' prints it.")
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


def _serial(name: str) -> int:
    key = layout.frame_key(name.rpartition("/")[2])
    return key[1] if key else 0
