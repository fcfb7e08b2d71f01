"""Move recorded runs to the platform's trash, and back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QFile, QObject, Signal

from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import ListRuns
from dgn_engine.scene.overlaid import short_name
from dgn_engine.storage.runs.run_removal import check_removable
from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.shell.window_context import WindowContext

_MOST = 50  # deletions that can be undone


def trash_folder(folder: str) -> str | None:
    """Move a folder to the platform's trash.

    Returns:
        Where it is now, '' if the platform does not say; None if it could not be moved.
    """
    file = QFile(folder)
    if not file.moveToTrash():
        return None
    moved = file.fileName()
    return moved if moved != folder and Path(moved).exists() else ""


@dataclass(frozen=True, eq=False)
class Deletion:
    """Runs that were deleted together: the folder of each, and where it is now."""

    moved: tuple[tuple[Path, Path], ...]


class RunBin(QObject):
    """Deletes runs, and restores those that it has deleted.

    Signals: `changed` when another deletion can be undone, `refused(folders)` for runs that have no
    trash.
    """

    changed = Signal()
    refused = Signal(tuple)

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context.window)
        self._context = context
        self._deletions: list[Deletion] = []
        self.move_to_trash: Callable[[str], str | None] = trash_folder

    @property
    def can_undo(self) -> bool:
        return bool(self._deletions)

    def delete_runs(self, folders: tuple[str, ...]) -> None:
        """Move runs to the trash at once, and offer to restore them."""
        moved: list[tuple[Path, str]] = []
        not_moved: list[str] = []
        for folder in folders:
            try:
                self._check_not_shown(Path(folder))
                check_removable(Path(folder))
            except UserError as refusal:
                self._context.notify_refusal(str(refusal), refusal.kind)
                continue
            now_at = self.move_to_trash(folder)
            if now_at is None:
                not_moved.append(folder)
            else:
                moved.append((Path(folder), now_at))
        if moved:
            self._offer_undo(moved)
        if not_moved:
            self.refused.emit(tuple(not_moved))
        self._context.send(ListRuns())

    def undo_last(self) -> None:
        """Restore the runs that were deleted last."""
        if self._deletions:
            self._restore_runs(self._deletions[-1])

    def _check_not_shown(self, folder: Path) -> None:
        shown = self._context.run_state().recorded
        if shown is not None and not shown.file_name and shown.name == folder.name:
            words = f"{folder.name} is being shown: show another run first."
            raise UserError(words, kind="in-use", value=folder.name)

    def _offer_undo(self, moved: list[tuple[Path, str]]) -> None:
        what = short_name(moved[0][0].name) if len(moved) == 1 else f"{len(moved)} runs"
        pairs = tuple((folder, Path(now_at)) for folder, now_at in moved if now_at)
        offers: tuple[NoticeButton, ...] = ()
        if pairs:
            deletion = Deletion(pairs)
            self._deletions = [*self._deletions[1 - _MOST :], deletion]
            self.changed.emit()
            offers = (
                NoticeButton(
                    "Undo",
                    partial(self._restore_runs, deletion),
                    lambda: deletion in self._deletions,
                ),
            )
        text = f"{what} moved to the trash."
        self._context.notify(Notice("info", text, offers=offers, about="run-deleted"))

    def _restore_runs(self, deletion: Deletion) -> None:
        """Move the runs back to where they were, unless something is there."""
        if deletion not in self._deletions:
            return
        self._deletions.remove(deletion)
        self.changed.emit()
        for folder, now_at in deletion.moved:
            try:
                if folder.exists():
                    raise FileExistsError(None, "there is a folder of this name again")
                shutil.move(now_at, folder)
                forget_trashed(now_at)
            except OSError as error:
                why = error.strerror or str(error)
                self._context.notify_refusal(f"{folder.name} cannot be restored: {why}.", "trash")
        self._context.send(ListRuns())


def forget_trashed(now_at: Path) -> None:
    """Remove what the trash of a Linux desktop notes about a folder that is no longer in it."""
    if now_at.parent.name == "files":
        (now_at.parent.parent / "info" / f"{now_at.name}.trashinfo").unlink(missing_ok=True)
