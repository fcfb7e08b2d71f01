"""Holds the folder of a run that is written: open and locked, wherever it is moved."""

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
    """What is written goes into the folder that was opened, whatever is put in its place.

    `root`: of all that is read and written here.
    """

    def __init__(self, path: Path) -> None:
        self._anchor = Anchor(path)
        self.root = InnerPath(self._anchor)
        self._lock = Lock(self.root / folder_layout.LOCK)
        self._remarks: list[str] = []

    @property
    def path(self) -> Path:
        """Where it lies, as far as is known: it may be moved while it is written."""
        return self._anchor.path

    @property
    def is_named(self) -> bool:
        return self._anchor.is_named

    def take(self) -> None:
        """Hold and lock the folder; raises `OSError` or `UserError`."""
        self._anchor.hold()
        folder_layout.require_no_link(self.root)
        self._lock.take()

    def release(self) -> None:
        self._lock.release()
        self._anchor.let_go()

    def check(self) -> None:
        """Raise `OSError` unless the folder lies where it did or was only renamed; put back its
        lock where that is gone."""
        if not self._anchor.is_named and not self._follow(last=False):
            raise OSError(None, self._why_gone())
        if not self._lock.is_named:
            self._lock.retake()
            self.add_remark(f"{folder_layout.LOCK} was gone, or another file; it was made anew")

    def find_again(self, run: object, last: bool) -> bool:
        """After trouble: whether the folder is there; False where it was removed for good.

        Raises `OSError` where it is not, for now. `run`: its id. `last`: the folder is written
        where it lies now, also if another lies in its place.
        """
        if self._anchor.is_named or self._follow(last):
            return True
        try:
            self._return(run)
        except OSError:
            if not (last and self._anchor.is_removed):
                raise
            return False
        return True

    def move_to(self, path: Path, remark: str) -> None:
        """Hold another folder from now on; raises `OSError`."""
        self._anchor.path = path
        self._anchor.hold()
        self._lock.retake()
        self._remarks.append(remark)

    def sync_names(self) -> None:
        for folder in folder_layout.written_folders(self.root):
            if folder.is_dir():
                folder.sync()
        with suppress(PermissionError):  # who may not list the runs may still write this one
            sync_folder(self.path.parent)

    def why(self, error: OSError) -> str:
        """Why it cannot be written, as the end of a sentence."""
        if not self._anchor.is_named:
            return self._why_gone()
        return error.strerror or str(error.args[-1] if error.args else error)

    def add_remark(self, what: str) -> None:
        self._remarks.append(f"In {self.path} {what}. Somebody else changes files in it.")

    def take_remarks(self) -> list[str]:
        """What was mended since the last time, a sentence each."""
        remarks, self._remarks = self._remarks, []
        return remarks

    def _follow(self, last: bool) -> bool:
        """Whether the folder was renamed, and nothing else has its place; from now on it is said
        to lie there."""
        before, found = self.path, self._anchor.find()
        if found is None or (os.path.lexists(before) and not last):
            return False
        self._anchor.path = found
        self._remarks.append(f"{before} was moved to {found}; it is recorded there from now on.")
        return True

    def _return(self, run: object) -> None:
        """Go on in a folder that is this run's, though it is not the one that was held: it was
        away and was copied back. Raises `OSError`."""
        try:
            here = run_info.read(self.path)
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None
        if here.get("id") != run:
            raise OSError(None, "another run lies in its folder now")
        self._anchor.hold()
        folder_layout.require_no_link(self.root)

    def _why_gone(self) -> str:
        if self._anchor.trouble:
            return f"its folder cannot be reached ({self._anchor.trouble})"
        found = self._anchor.find()
        away = "was removed" if found is None else f"was moved to {found}"
        if os.path.lexists(self.path):
            return f"another folder lies in its place, and its own {away}"
        return f"its folder {away}"
