"""Mirrors a run that `dgn serve` serves into a folder here, which is then followed as any other.

A frame must have the digest in its name; what is in the files is checked by whoever reads the run.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.inner_path import InnerPath, inside
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import digest, read_regular
from dgn_engine.storage.remote.served_run import LineDroppedError, Listing, RemoteFile, ServedRun
from dgn_engine.storage.runs import folder_layout as layout

EVERY = 0.5  # seconds between two looks
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds after a line was dropped, and again and again
FRAMES_FOR = 2.0  # seconds of frames before the log is looked at again
MARK = "mirror"  # the file by which a folder is known to be one
_NO_NAME = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 80


class RunMirror:
    """One served run, and the folder here that becomes equal to it; `close` it.

    The folder is locked until all of an ended run is there, so that who reads it sees that it goes
    on.
    """

    def __init__(
        self, port: int, token: str, folder: Path | None = None, below: Path | None = None
    ) -> None:
        """`folder`: new, or an earlier mirror; else one `below` this that has the run's name."""
        self._served = ServedRun(port, token)
        holds_more = folder is not None and folder.exists() and any(folder.iterdir())
        if folder is not None and holds_more and not (folder / MARK).is_file():
            raise UserError(f"{folder} is not empty and no mirror of a run; choose another folder.")
        self._folder, self._below = folder, below
        self._seen: dict[str, RemoteFile] = {}
        self._lock: Lock | None = None
        self.complete = False  # every frame that was listed last is there

    @property
    def folder(self) -> Path | None:
        """Where the run lies here, as soon as it can be read."""
        return self._folder if layout.RUN in self._seen and layout.LOG in self._seen else None

    def sync(self) -> Listing:
        """Fetch what is new, the log before the frames, the newest frame first.

        Raises `LineDroppedError`; `UserError` where it makes no sense to try again; `OSError`
        where the disk does not take it.
        """
        try:
            return self._synced()
        except BaseException:
            self._served.hang_up()
            raise

    def _synced(self) -> Listing:
        listing = self._served.listing()
        if self._folder is None:
            assert self._below is not None
            self._folder = self._chosen(self._below, listing)
        if not self._seen:
            make_folders(self._folder)
            make_folders(inside(self._folder) / layout.FRAMES)
            write_file(self._place(MARK), b"", synced=False)
        if self._lock is None:
            lock = Lock(inside(self._folder) / layout.LOCK)
            lock.take()
            self._lock = lock
        for name in (layout.CONFIG, layout.LOG, layout.RUN):
            if name in listing.files and listing.files[name] != self._seen.get(name):
                self._fetch_top(listing, listing.files[name])
        self.complete = self._fetch_frames(listing)
        if self.complete and not listing.running:
            self.close()
        return listing

    def close(self) -> None:
        self._served.hang_up()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def interrupt(self) -> None:
        """End what another thread waits for, as a dropped line would."""
        self._served.interrupt()

    def _chosen(self, below: Path, listing: Listing) -> Path:
        """The earlier mirror of the same run below this folder, else a new name there."""
        identity = None
        if layout.RUN in listing.files:
            identity = _identity(self._served.content(listing.files[layout.RUN], 0))
        name = _NO_NAME.sub("-", listing.name).strip(".-")[:_LONGEST_NAME] or "run"
        again = 1
        while (folder := below / (name if again == 1 else f"{name}-{again}")).exists():
            if identity is not None and (folder / MARK).is_file():
                try:
                    if _identity(read_regular(inside(folder) / layout.RUN)) == identity:
                        break
                except OSError:
                    pass
            again += 1
        return folder

    def _fetch_top(self, listing: Listing, file: RemoteFile) -> None:
        path, before = self._place(file.name), self._seen.get(file.name)
        goes_on = file.name == layout.LOG and before is not None
        if goes_on and before and before.identity == file.identity and before.size <= file.size:
            content = self._served.content(file, before.size)
            with os.fdopen(path.open(os.O_WRONLY | os.O_APPEND), "ab") as log:
                log.write(content)
        else:
            write_file(path, self._served.content(file, 0), synced=False)
            if file.name == layout.LOG:  # a run that went on from an earlier step, say
                self._drop_frames(listing)
        self._seen[file.name] = file

    def _drop_frames(self, listing: Listing) -> None:
        for path in (inside(self._folder_here) / layout.FRAMES).entries():
            if path.within not in listing.files and layout.frame_key(path.name):
                path.unlink(missing_ok=True)

    def _fetch_frames(self, listing: Listing) -> bool:
        """Those that are not here yet, for a while; whether none is left."""
        until = time.monotonic() + FRAMES_FOR
        frames = [n for n in listing.files if n not in (layout.CONFIG, layout.LOG, layout.RUN)]
        for name in sorted(frames, key=_serial, reverse=True):
            if name not in self._seen:
                if time.monotonic() > until:
                    return False
                self._fetch_frame(listing.files[name])
        return True

    def _fetch_frame(self, file: RemoteFile) -> None:
        path = self._place(file.name)
        if not path.exists():
            content = self._served.content(file, 0)
            key = layout.frame_key(path.name)
            if key is None or digest(content).sha256[:16] != key[2]:
                raise LineDroppedError("a frame came damaged")
            write_file(path, content, synced=False)
        self._seen[file.name] = file

    @property
    def _folder_here(self) -> Path:
        assert self._folder is not None
        return self._folder

    def _place(self, name: str) -> InnerPath:
        return inside(self._folder_here) / name


def follow(
    mirror: RunMirror, tell: Callable[[str, bool], object], wait: Callable[[float], bool]
) -> None:
    """Mirror until the run has ended. A dropped line is tried again, less and less often.

    `tell(sentence, lost)`: the line is dropped, or there again. `wait(seconds)`: False to stop.
    Raises `UserError` where trying again is in vain.
    """
    pause, reached = 0.0, False
    while True:
        try:
            listing = mirror.sync()
            if pause:
                tell("Connected again; nothing is lost." if reached else "Connected.", False)
            pause, reached = 0.0, True
            if mirror.complete and not listing.running:
                return
        except LineDroppedError as dropped:
            if not pause:
                what = "The line is dropped" if reached else "Nobody answers"
                hint = "it is tried again" if reached else "is ssh -L running? It is tried again"
                tell(f"{what} ({dropped}): {hint}.", True)
            pause = min(max(2.0 * pause, FIRST_WAIT), LONGEST_WAIT)
        if not wait(pause or (EVERY if mirror.complete else 0.0)):
            return


def _identity(description: bytes) -> str | None:
    """The id in a `run.json`; None where it has none."""
    try:
        found = json.loads(description)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _serial(name: str) -> int:
    key = layout.frame_key(name.rpartition("/")[2])
    return key[1] if key else 0
