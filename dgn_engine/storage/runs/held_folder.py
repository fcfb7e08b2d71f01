"""Keep the folder of a run being written open and locked, wherever it is moved."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import sync_folder
from dgn_engine.storage.inner_path import Anchor, InnerPath
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs import folder_layout, run_info


class HeldFolder:
    """The folder that was opened for writing, whatever is put in its place.

    `root`: path for all reading and writing.
    """

    def __init__(self, path: Path) -> None:
        self._anchor = Anchor(path)
        self.root = InnerPath(self._anchor)
        self._lock = Lock(self.root / folder_layout.LOCK)
        self._remarks: list[str] = []

    @property
    def path(self) -> Path:
        """Its location as far as is known: it may be moved while being written."""
        return self._anchor.path

    @property
    def is_named(self) -> bool:
        return self._anchor.is_named

    def acquire(self) -> None:
        """Open and lock the folder; raises `OSError` or `UserError`."""
        self._anchor.hold_folder()
        folder_layout.require_no_link(self.root)
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
        self._anchor.release_folder()

    def check_location(self) -> None:
        """Check that the folder is there or was only renamed, and restore a missing lock.

        Raises `OSError`.
        """
        if not self._anchor.is_named and not self._follow_rename(last=False):
            raise OSError(None, self._reason_gone())
        if not self._lock.is_named:
            self._lock.reacquire()
            self.add_remark(f"{folder_layout.LOCK} was missing or replaced, and has been recreated")

    def relocate_folder(self, run: object, last: bool) -> bool:
        """Find the folder after an error; return False if it was removed for good.

        Args:
            run: The run's id.
            last: Use the folder where it is now, even if another is in its place.

        Raises:
            OSError: It is not available at present.
        """
        if self._anchor.is_named or self._follow_rename(last):
            return True
        try:
            self._return_to_run(run)
        except OSError:
            if not (last and self._anchor.is_removed):
                raise
            return False
        return True

    def move_to(self, path: Path, remark: str) -> None:
        """Switch to another folder; raises `OSError`."""
        self._anchor.path = path
        self._anchor.hold_folder()
        self._lock.reacquire()
        self._remarks.append(remark)

    def sync_names(self) -> None:
        for folder in folder_layout.written_folders(self.root):
            if folder.is_dir():
                folder.sync()
        with suppress(PermissionError):  # without permission to list runs, this one is writable
            sync_folder(self.path.parent)

    def reason_unwritable(self, error: OSError) -> str:
        """Return why it cannot be written, to end a sentence."""
        if not self._anchor.is_named:
            return self._reason_gone()
        return error.strerror or str(error.args[-1] if error.args else error)

    def add_remark(self, what: str) -> None:
        self._remarks.append(f"In {self.path} {what}. Someone else is changing files in it.")

    def take_remarks(self) -> list[str]:
        """Return what was mended since the last call, as sentences."""
        remarks, self._remarks = self._remarks, []
        return remarks

    def _follow_rename(self, last: bool) -> bool:
        """Return whether the folder was renamed and not replaced; from now on use its new path."""
        before, location = self.path, self._anchor.find_folder()
        if location is None or (os.path.lexists(before) and not last):
            return False
        self._anchor.path = location
        self._remarks.append(f"{before} was moved to {location}; recording continues there.")
        return True

    def _return_to_run(self, run: object) -> None:
        """Continue in another copy of this run: the folder was gone and was copied back.

        Raises `OSError`.
        """
        try:
            here = run_info.read_run_info(self.path)
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None
        if here.get("id") != run:
            raise OSError(None, "its folder now contains another run")
        self._anchor.hold_folder()
        folder_layout.require_no_link(self.root)

    def _reason_gone(self) -> str:
        if self._anchor.reason_unknown:
            return f"its folder cannot be reached ({self._anchor.reason_unknown})"
        location = self._anchor.find_folder()
        away = "was removed" if location is None else f"was moved to {location}"
        if os.path.lexists(self.path):
            return f"another folder is in its place, and its own {away}"
        return f"its folder {away}"
