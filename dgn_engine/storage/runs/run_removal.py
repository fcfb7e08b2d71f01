"""Delete a recorded run: its own files and nothing else; links are not followed."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import clear_leftovers
from dgn_engine.storage.inner_path import Anchor, InnerPath
from dgn_engine.storage.lock import Lock, find_lock_holder
from dgn_engine.storage.runs import folder_layout


def check_removable(folder: Path) -> None:
    """Raise `UserError` if a folder is not a run, is a link, or is being written."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link; nothing was deleted.", kind="link")
    if not folder_layout.holds_run(folder):
        raise UserError(f"{folder} is not a run; nothing was deleted.", kind="no-run")
    if find_lock_holder(folder / folder_layout.LOCK) is not None:
        raise UserError(f"{folder.name} is being written; nothing was deleted.", kind="in-use")


def delete_run(folder: Path) -> None:
    """Remove the run; its folder stays if it contains other files.

    Raises:
        UserError: It is not a run, is a link, is being written, or cannot be deleted.
    """
    check_removable(folder)
    anchor = Anchor(folder)
    root = InnerPath(anchor)
    lock = Lock(root / folder_layout.LOCK)
    try:
        anchor.hold_folder()
        try:
            lock.acquire()
            clear_leftovers(root)
            for name in folder_layout.FOLDERS:
                if (root / name).is_dir():
                    (root / name).remove_tree()
            # Last the files that stay on this machine, and the lock.
            own = (folder_layout.NOTES, folder_layout.ANSWERS, folder_layout.MIRROR)
            for name in (*folder_layout.FILES, *own, folder_layout.LOCK):
                (root / name).unlink(missing_ok=True)
        finally:
            lock.release()
            anchor.release_folder()
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise UserError(f"Cannot delete {folder}: {error.strerror}.") from None
