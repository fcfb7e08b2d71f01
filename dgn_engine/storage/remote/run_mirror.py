"""Mirror a run served by `dgn serve` into a local folder, which is then followed like any other.

A frame must match the digest in its name; the contents of files are checked by whoever reads the
run. Files are written as their bytes arrive, and their total size is bounded.
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
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.remote import LIMITS, LineLimits
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
from dgn_engine.storage.runs import run_identity, storage_limits
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.written_numbers import format_duration

EVERY = 0.5  # seconds between two checks
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before reconnecting, growing
FRAMES_FOR = 2.0
OVERLAP = 4 << 10
SLOW = 5  # consecutive replies that take too long before giving up
GONE = 20  # consecutive lists with missing files before giving up
REPLACED, REPLACED_IN = 20, 60.0  # likewise: replaced logs, within these seconds
_TOP = (layout.CONFIG, layout.LOG, layout.RUN)
_NO_NAME = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 80
_KEYS = 50_000  # in a description: three for each file of kept weights
_MARK = 1 << 12  # bytes of the file that names the run


class RunMirror:
    """One served run, and the local folder that becomes equal to it; must be closed.

    The folder stays locked until an ended run has arrived completely, so that its readers see that
    more is coming.
    """

    def __init__(
        self,
        port: int,
        token: str,
        folder: Path | None = None,
        below: Path | None = None,
        limits: LineLimits = LIMITS,
        overlap: int = OVERLAP,
        frames_for: float = FRAMES_FOR,
    ) -> None:
        """Prepare a mirror.

        Args:
            folder: A new folder, or an earlier mirror of the run; otherwise one `below` with its
                name.
            overlap: Bytes before the end of the local log that must be equal at the other end.
            frames_for: Seconds of fetching frames before the log is checked again.
        """
        self._served = ServedRun(port, token, limits)
        self._overlap, self._frames_for = overlap, frames_for
        if folder is not None and layout.is_reserved(folder.name):
            raise UserError(
                f"{folder} is reserved for the settings of all runs; choose another folder.",
                kind="reserved-name",
                value=folder,
            )
        holds_more = folder is not None and folder.exists() and any(folder.iterdir())
        if folder is not None and holds_more and not layout.is_mirror(folder):
            raise UserError(
                f"{folder} is neither empty nor a mirror of a run; choose another folder.",
                kind="not-empty",
                value=folder,
            )
        self._folder, self._below = folder, below
        self._top: dict[str, RemoteFile] = {}  # as they are here
        self._run: str | None = None  # its identity, once known
        self._description: tuple[RemoteFile, bytes] | None = None  # its run.json as checked
        self._logged = 0  # bytes of the local log
        self._confirmed = 0  # … that arrived before a list that still had the same run
        self._frames: set[str] = set()  # names of frames that are or were here
        self._replaced: deque[float] = deque(maxlen=REPLACED)  # times when the log was
        self._lock: Lock | None = None
        self.complete = False  # all frames in the last list are here

    @property
    def folder(self) -> Path | None:
        """The local folder of the run, once it can be read."""
        return self._folder if layout.RUN in self._top and layout.LOG in self._top else None

    def sync(self) -> Listing:
        """Fetch what is new: log before frames, newest frame first; remove unlisted frames.

        Raises:
            LineDroppedError: Try again.
            UserError: Trying again is pointless.
            OSError: It cannot be written to disk.
        """
        try:
            return self._fetch_changes()
        except BaseException:
            self._served.hang_up()
            raise

    def _fetch_changes(self) -> Listing:
        self.complete = False
        listing = self._served.fetch_listing()
        identity = self._check_identity(listing)
        if self._folder is None:
            assert self._below is not None
            self._folder = self._choose_folder(self._below, listing.name, identity)
        if self._lock is None:
            self._prepare_folder()
        self._require_room(listing)
        for name in _TOP:
            if name in listing.files and listing.files[name] != self._top.get(name):
                self._fetch_top(listing.files[name])
        self._description = None
        for name in self._frames - listing.files.keys():  # thinned at the other end, or superseded
            self._path_of(name).unlink(missing_ok=True)
            self._frames.remove(name)
        self.complete = self._fetch_frames(listing)
        if self.complete and not listing.running:
            # Files replaced meanwhile, as by a repair, may be here as a mix of both.
            self.complete = self._served.fetch_listing() == listing
            if self.complete:
                self.close()
        return listing

    def close(self) -> None:
        self._served.hang_up()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def interrupt(self) -> None:
        """End what another thread waits for, as if the connection were lost."""
        self._served.interrupt()

    def _check_identity(self, listing: Listing) -> str | None:
        """Return which run is served, if known; raises `UserError` if it is not this mirror's."""
        file = listing.files.get(layout.RUN)
        if file is not None and file == self._top.get(layout.RUN):
            self._confirmed = self._logged
            return self._run
        known = self._run  # None for a new folder, '' if unknown
        if known is None and self._folder is not None:
            known = _identity_of(self._folder)
        content = b"" if file is None else b"".join(self._served.iterate_pieces(file, 0))
        identity = _run_identity(content)
        if identity is None and known is not None:  # it is being rewritten
            raise FileGoneError(f"{layout.RUN} is missing")
        if known is not None and identity != known:
            self._cut_log()
            raise UserError(
                f"{self._folder} mirrors a different run from the one being served; "
                "choose another folder.",
                kind="other-run",
                value=self._folder,
            )
        self._description = None if file is None else (file, content)
        self._run, self._confirmed = identity, self._logged
        return identity

    def _cut_log(self) -> None:
        """Cut the log back to before the served run was replaced by another one."""
        if self._confirmed < self._logged:
            handle = self._path_of(layout.LOG).open(os.O_RDWR)
            with os.fdopen(handle, "r+b") as log:
                log.truncate(self._confirmed)
            self._logged = self._confirmed

    def _choose_folder(self, below: Path, served_name: str, identity: str | None) -> Path:
        """Return the earlier mirror of the same run below this folder, or a new name there."""
        name = _NO_NAME.sub("-", served_name).strip(".-")[:_LONGEST_NAME] or "run"
        return next(
            path
            for path in layout.each_path(below, name)
            if not path.exists()
            or (identity and layout.is_mirror(path) and _identity_of(path) == identity)
        )

    def _prepare_folder(self) -> None:
        root = inner_folder(self._find_local_folder)
        make_folders(self._find_local_folder)
        make_folders(root / layout.FRAMES)
        write_file(root / layout.MIRROR, (self._run or "").encode(), synced=False)
        lock = Lock(root / layout.LOCK)
        lock.acquire()
        self._lock = lock
        names = (root / layout.FRAMES).list_entries()
        self._frames |= {f"{layout.FRAMES}/{name}" for name in names if layout.frame_key(name)}

    def _require_room(self, listing: Listing) -> None:
        """Raise `UserError` if the run exceeds the limit for all local runs, or the disk."""
        most = storage_limits.effective_limits(layout.runs_root()).all
        whole = sum(file.size for file in listing.files.values())
        if whole > most:
            raise UserError(
                f"The run takes {binary_size_in_words(whole)}, more than the limit of all local "
                f"runs ({binary_size_in_words(most)}); raise it with 'dgn runs limits --all SIZE'.",
                kind="too-large",
                value=whole,
            )
        if not self._top:
            new = whole - sum(listing.files[n].size for n in self._frames & listing.files.keys())
            free = shutil.disk_usage(self._find_local_folder).free
            if new > free:
                raise UserError(
                    f"The run needs {binary_size_in_words(new)}, but only "
                    f"{binary_size_in_words(free)} is free at {self._find_local_folder}; "
                    "choose another folder.",
                    kind="no-room",
                    value=new,
                )

    def _fetch_top(self, file: RemoteFile) -> None:
        before = self._top.get(file.name)
        if file.name == layout.RUN and self._description and self._description[0] == file:
            write_file(self._path_of(file.name), self._description[1], synced=False)
        elif file.name != layout.LOG or before is None:
            self._fetch_whole(file)
        elif (
            before.identity != file.identity
            or self._logged > file.size
            or not self._extend_log(file)
        ):  # for example, the run continued from an earlier step
            now = time.monotonic()
            if len(self._replaced) == REPLACED and now - self._replaced[0] < REPLACED_IN:
                raise UserError(
                    f"The served log was replaced {REPLACED} times in "
                    f"{format_duration(REPLACED_IN)}; no run does this, so mirroring stopped.",
                    kind="replaced",
                    value=REPLACED,
                )
            self._replaced.append(now)
            self._fetch_whole(file)
        self._top[file.name] = file

    def _extend_log(self, file: RemoteFile) -> bool:
        """Append what is new to the local log; if that ends early, it continues from there.

        Returns False without writing if the end of the local log differs from the served one: a
        rewritten file may have the inode of the one before.
        """
        handle = self._path_of(file.name).open(os.O_RDWR)
        with os.fdopen(handle, "r+b") as log:
            first = max(0, self._logged - self._overlap)
            log.seek(first)
            expected = log.read(self._logged - first)
            for piece in self._served.iterate_pieces(file, first):
                common = min(len(piece), len(expected))
                if piece[:common] != expected[:common]:
                    self._served.hang_up()  # do not read the rest of the reply
                    return False
                expected, new = expected[common:], piece[common:]
                log.write(new)
                log.flush()
                self._logged += len(new)
        return True

    def _fetch_whole(self, file: RemoteFile) -> None:
        """Write a file under its name once it is complete; a frame must match its digest."""
        path, digest = self._path_of(file.name), hashlib.sha256()
        key = layout.frame_key(path.name)
        with replace_file(path, synced=False) as written:
            for piece in self._served.iterate_pieces(file, 0):
                digest.update(piece)
                written.write(piece)
            if key is not None and not digest.hexdigest().startswith(key[2]):
                raise UserError(
                    f"{file.name} of the served run is damaged: its content does not match its "
                    "name. Delete it there, and mirror the run again.",
                    kind="damaged",
                    value=file.name,
                )
            if file.name == layout.LOG:
                self._require_same_run()
        if file.name == layout.LOG:
            self._logged = self._confirmed = file.size

    def _require_same_run(self) -> None:
        """Raise `FileGoneError` if another run is served since its description was checked."""
        file = self._description[0] if self._description else self._top.get(layout.RUN)
        if file and _run_identity(b"".join(self._served.iterate_pieces(file, 0))) != self._run:
            raise FileGoneError("a different run is being served")

    def _fetch_frames(self, listing: Listing) -> bool:
        """Fetch missing frames for a while; return whether none is left."""
        until = time.monotonic() + self._frames_for
        missing = listing.files.keys() - self._frames - set(_TOP)
        for name in sorted(missing, key=_frame_serial, reverse=True):
            if time.monotonic() > until:
                return False
            self._fetch_whole(listing.files[name])
            self._frames.add(name)
        return True

    @property
    def _find_local_folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    def _path_of(self, name: str) -> InnerPath:
        return inner_folder(self._find_local_folder) / name


def mirror_until_end(
    mirror: RunMirror, report: Callable[[str, bool], object], wait: Callable[[float], bool]
) -> None:
    """Mirror until the run has ended; after a lost connection, retry at growing intervals.

    Args:
        mirror: The mirror.
        report: Called with (sentence, lost) when the connection is lost or back.
        wait: Called with seconds; returns False to stop.

    Raises:
        UserError: Trying again is pointless.
    """
    pause, reached, slow, gone = 0.0, False, 0, 0
    while True:
        try:
            listing = mirror.sync()
            if pause:
                report("Reconnected; nothing was lost." if reached else "Connected.", False)
            pause, reached, slow, gone = 0.0, True, 0, 0
            if mirror.complete and not listing.running:
                return
        except FileGoneError:  # removed since it was listed; the next list will tell
            gone += 1
            if gone == GONE:
                raise UserError(
                    "The server keeps listing files that do not exist; mirroring stopped.",
                    kind="no-file",
                ) from None
            if not wait(pause or EVERY):
                return
            continue
        except LineDroppedError as dropped:
            slow = slow + 1 if isinstance(dropped, SlowReplyError) else 0
            if slow == SLOW:
                raise UserError(
                    f"{SLOW} replies in a row were too slow; start again when the connection is "
                    "faster: what has arrived is kept.",
                    kind="too-slow",
                ) from None
            if not pause:
                what = "Connection lost" if reached else "No answer"
                hint = "trying again" if reached else "is ssh -L running? Trying again"
                report(f"{what} ({dropped}): {hint}.", True)
            pause = min(max(2.0 * pause, FIRST_WAIT), LONGEST_WAIT)
        if not wait(pause or (EVERY if mirror.complete else 0.0)):
            return


def _run_identity(description: bytes) -> str | None:
    """Return the identity of a `run.json`: its id, or for old runs its creation time.

    '' if it has neither, None if it cannot be read.
    """
    if description.count(b":") > _KEYS:  # each takes a hundred bytes of memory or more
        return None
    try:
        tree = parse_json(description)
        identity = tree.get(run_identity.ID) or tree.get("created") or ""
    except (ValueError, AttributeError):
        return None
    is_word = isinstance(identity, str) and identity.isascii() and len(identity) <= _MARK
    return identity if is_word else ""


def _identity_of(folder: Path) -> str | None:
    """Return the identity of an earlier mirror's run; '' if it is unknown.

    None if none of its description has arrived.
    """
    root = inner_folder(folder)
    try:
        stated = read_regular(root / layout.MIRROR, _MARK).decode("ascii")
        if stated or not (root / layout.RUN).exists():
            return stated or None
        return _run_identity(read_regular(root / layout.RUN, DESCRIPTION)) or ""
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""


def _frame_serial(name: str) -> int:
    key = layout.frame_key(name.rpartition("/")[2])
    return key[1] if key else 0
