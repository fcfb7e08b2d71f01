"""Mirrors a run that `dgn serve` serves into a folder here, which is then followed as any other.

A frame must have the digest in its name; what is in the files is checked by whoever reads the run.
Files are written as their bytes come, and all of them together are bounded.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders, replace_file, write_file
from dgn_engine.storage.inner_path import InnerPath, inside
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.remote.served_run import (
    DESCRIPTION,
    FileGoneError,
    LineDroppedError,
    Listing,
    RemoteFile,
    ServedRun,
    SlowReplyError,
)
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs import storage_limits
from dgn_engine.text.byte_counts import binary_size_in_words

EVERY = 0.5  # seconds between two looks
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds after a line was dropped, and again and again
FRAMES_FOR = 2.0  # seconds of frames before the log is looked at again
MARK = "mirror"  # the file by which a folder is known to be one
SLOW = 5  # replies one after the other that do not end in their time, before it is given up
GONE = 20  # … lists one after the other that name files which are not there
REPLACED, REPLACED_IN = 20, 60.0  # so many logs in the place of another in these seconds: likewise
_TOP = (layout.CONFIG, layout.LOG, layout.RUN)
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
        self._top: dict[str, RemoteFile] = {}  # as they are here
        self._logged = 0  # bytes of the log that are here
        self._frames: set[str] = set()  # names of those that are here, or were
        self._replaced: deque[float] = deque(maxlen=REPLACED)  # when the log was
        self._lock: Lock | None = None
        self.complete = False  # every frame that was listed last is there

    @property
    def folder(self) -> Path | None:
        """Where the run lies here, as soon as it can be read."""
        return self._folder if layout.RUN in self._top and layout.LOG in self._top else None

    def sync(self) -> Listing:
        """Fetch what is new, the log before the frames, the newest frame first; remove frames that
        are not listed any more.

        Raises `LineDroppedError`; `UserError` where it makes no sense to try again; `OSError`
        where the disk does not take it.
        """
        try:
            return self._sync()
        except BaseException:
            self._served.hang_up()
            raise

    def _sync(self) -> Listing:
        self.complete = False
        listing = self._served.listing()
        if self._folder is None:
            assert self._below is not None
            self._folder = self._choose_folder(self._below, listing)
        if self._lock is None:
            self._prepare_folder()
        self._require_room(listing)
        for name in _TOP:
            if name in listing.files and listing.files[name] != self._top.get(name):
                self._fetch_top(listing.files[name])
        for name in self._frames - listing.files.keys():  # thinned out there, or superseded
            self._path_of(name).unlink(missing_ok=True)
            self._frames.remove(name)
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

    def _choose_folder(self, below: Path, listing: Listing) -> Path:
        """The earlier mirror of the same run below this folder, else a new name there."""
        identity = None
        if layout.RUN in listing.files:
            pieces = self._served.pieces(listing.files[layout.RUN], 0)
            identity = _identity(b"".join(pieces))
        name = _NO_NAME.sub("-", listing.name).strip(".-")[:_LONGEST_NAME] or "run"
        again = 1
        while (folder := below / (name if again == 1 else f"{name}-{again}")).exists():
            if identity is not None and (folder / MARK).is_file():
                try:
                    if (
                        _identity(read_regular(inside(folder) / layout.RUN, DESCRIPTION))
                        == identity
                    ):
                        break
                except OSError:
                    pass
            again += 1
        return folder

    def _prepare_folder(self) -> None:
        root = inside(self._folder_here)
        make_folders(self._folder_here)
        make_folders(root / layout.FRAMES)
        write_file(root / MARK, b"", synced=False)
        lock = Lock(root / layout.LOCK)
        lock.take()
        self._lock = lock
        names = (root / layout.FRAMES).listing()
        self._frames |= {f"{layout.FRAMES}/{name}" for name in names if layout.frame_key(name)}

    def _require_room(self, listing: Listing) -> None:
        """Raise `UserError` where the run is larger than all runs here may be, or than the disk."""
        most = storage_limits.limits_that_hold(layout.runs_root()).all
        whole = sum(file.size for file in listing.files.values())
        if whole > most:
            raise UserError(
                f"The run has {binary_size_in_words(whole)}, more than all runs here may have "
                f"({binary_size_in_words(most)}); 'dgn runs limits --all SIZE' allows more."
            )
        if not self._top:
            new = whole - sum(listing.files[n].size for n in self._frames & listing.files.keys())
            free = shutil.disk_usage(self._folder_here).free
            if new > free:
                raise UserError(
                    f"The run has {binary_size_in_words(new)}, and {binary_size_in_words(free)} "
                    f"are free where {self._folder_here} is; choose another folder."
                )

    def _fetch_top(self, file: RemoteFile) -> None:
        before = self._top.get(file.name)
        if file.name != layout.LOG or before is None:
            self._fetch_whole(file)
        elif before.identity == file.identity and self._logged <= file.size:
            self._extend_log(file)
        else:  # a run that went on from an earlier step, say
            now = time.monotonic()
            if len(self._replaced) == REPLACED and now - self._replaced[0] < REPLACED_IN:
                raise UserError(
                    f"The log was replaced {REPLACED} times in {REPLACED_IN:g} s there, as that of "
                    "no run is; it is not mirrored any more."
                )
            self._replaced.append(now)
            self._fetch_whole(file)
        self._top[file.name] = file

    def _extend_log(self, file: RemoteFile) -> None:
        """Write what is new behind what is here; where that ends early, it goes on from there."""
        handle = self._path_of(file.name).open(os.O_RDWR)
        with os.fdopen(handle, "r+b") as log:
            log.seek(self._logged)
            for piece in self._served.pieces(file, self._logged):
                log.write(piece)
                log.flush()
                self._logged += len(piece)

    def _fetch_whole(self, file: RemoteFile) -> None:
        """Write a file under its name once all of it is there; a frame that has its digest."""
        path, digest = self._path_of(file.name), hashlib.sha256()
        key = layout.frame_key(path.name)
        with replace_file(path, synced=False) as written:
            for piece in self._served.pieces(file, 0):
                digest.update(piece)
                written.write(piece)
            if key is not None and not digest.hexdigest().startswith(key[2]):
                raise UserError(
                    f"{file.name} of the run there is damaged: its content is not that of its "
                    "name. Delete it there, and mirror the run again."
                )
        if file.name == layout.LOG:
            self._logged = file.size

    def _fetch_frames(self, listing: Listing) -> bool:
        """Those that are not here yet, for a while; whether none is left."""
        until = time.monotonic() + FRAMES_FOR
        missing = listing.files.keys() - self._frames - set(_TOP)
        for name in sorted(missing, key=_serial, reverse=True):
            if time.monotonic() > until:
                return False
            self._fetch_whole(listing.files[name])
            self._frames.add(name)
        return True

    @property
    def _folder_here(self) -> Path:
        assert self._folder is not None
        return self._folder

    def _path_of(self, name: str) -> InnerPath:
        return inside(self._folder_here) / name


def follow(
    mirror: RunMirror, report: Callable[[str, bool], object], wait: Callable[[float], bool]
) -> None:
    """Mirror until the run has ended. A dropped line is tried again, less and less often.

    `report(sentence, lost)`: the line is dropped, or there again. `wait(seconds)`: False to stop.
    Raises `UserError` where trying again is in vain.
    """
    pause, reached, slow, gone = 0.0, False, 0, 0
    while True:
        try:
            listing = mirror.sync()
            if pause:
                report("Connected again; nothing is lost." if reached else "Connected.", False)
            pause, reached, slow, gone = 0.0, True, 0, 0
            if mirror.complete and not listing.running:
                return
        except FileGoneError:  # removed since it was listed; the next list says so
            gone += 1
            if gone == GONE:
                raise UserError(
                    "What answers there lists files that are not there, again and again; it is not "
                    "mirrored any more."
                ) from None
            if not wait(pause or EVERY):
                return
            continue
        except LineDroppedError as dropped:
            slow = slow + 1 if isinstance(dropped, SlowReplyError) else 0
            if slow == SLOW:
                raise UserError(
                    f"{SLOW} replies one after the other came too slowly to end; start again when "
                    "the line is faster: what has come stays."
                ) from None
            if not pause:
                what = "The line is dropped" if reached else "Nobody answers"
                hint = "it is tried again" if reached else "is ssh -L running? It is tried again"
                report(f"{what} ({dropped}): {hint}.", True)
            pause = min(max(2.0 * pause, FIRST_WAIT), LONGEST_WAIT)
        if not wait(pause or (EVERY if mirror.complete else 0.0)):
            return


def _identity(description: bytes) -> str | None:
    """The id in a `run.json`; None where it has none."""
    try:
        identity = parse_json(description)["id"]
    except (ValueError, LookupError, TypeError):
        return None
    return identity if isinstance(identity, str) else None


def _serial(name: str) -> int:
    key = layout.frame_key(name.rpartition("/")[2])
    return key[1] if key else 0
