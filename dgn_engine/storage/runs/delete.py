"""Deletes a run that nobody writes: only what a run consists of, never a stranger's files."""

from __future__ import annotations

import shutil
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import clear_leftovers
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs import folder_layout

_FOLDERS = (
    folder_layout.CHECKPOINTS,
    folder_layout.FRAMES,
    folder_layout.KEPT,
    folder_layout.DAMAGED,
)
_FILES = (
    folder_layout.WEIGHTS,
    folder_layout.CONFIG,
    folder_layout.LOG,
    folder_layout.RUN,
    folder_layout.LOCK,
)


def delete(folder: Path) -> None:
    """Remove the run; the folder stays if somebody has put other files into it.

    Raises `UserError` where there is no run, somebody writes it, or the disk does not let us.
    """
    if not (folder / folder_layout.RUN).is_file() and not (folder / folder_layout.LOG).is_file():
        raise UserError(f"{folder} holds no run; nothing was deleted.")
    lock = Lock(folder / folder_layout.LOCK)
    try:
        lock.take()
        try:
            clear_leftovers(folder)
            for name in _FOLDERS:
                if (folder / name).is_dir() and not (folder / name).is_symlink():
                    shutil.rmtree(folder / name)
            for name in _FILES:
                (folder / name).unlink(missing_ok=True)
        finally:
            lock.release()
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise UserError(f"Cannot delete {folder}: {error.strerror}.") from None
