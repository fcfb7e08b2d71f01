"""Kinds of files and folders, told by their content, and how each is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.protocol.files import OpenFile, Purpose
from dgn_engine.protocol.runs import OpenSession, ShowRun
from dgn_engine.scene.run_text import shorten_middle
from dgn_engine.storage.images.image_limits import SUFFIXES
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.regular_files import NotRegular, open_regular
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.session_file.archive_format import ENDING, looks_like_session
from dgn_viewer.shell.window_context import WindowContext

PathKind = Literal["run", "session", "configuration", "checkpoint", "result", "images"]
CONFIGURED = ".toml"
WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npz", ".npy")
PACKED = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz")  # images
_INDEX = ".index.json"  # of a checkpoint in several files
_LONGEST = 80  # characters of a name in a sentence
_START = 512  # bytes of a file that are looked at
_CLASSES, _ENTRIES = 20, 2000  # folders in a folder, and entries of each, looked at for images
_PARTS = ("train", "training", "test", "testing", "val", "valid", "validation")
_ZIP, _TAR, _TAR_AT = b"PK\x03\x04", b"ustar", 257
_PACKED_STARTS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_ARRAYS = ("data.pkl", ".npy", "byteorder", ".format_version")  # first member of a .pt or .npz


def path_kind(path: Path) -> PathKind:
    """Return what a file or folder is. Nothing is unpacked or unpickled.

    Raises:
        UserError: It is nothing that can be opened.
    """
    if os.path.isdir(path):  # noqa: PTH112 (unlike `is_dir`, False for a path that cannot be)
        return _folder_kind(path)
    name = path.name.lower()
    start = _read_start(path)
    if path.name == RUN:
        return "run"
    if name.endswith(ENDING) or looks_like_session(start):
        return "session"
    if name.endswith(CONFIGURED):
        return "configuration"
    if name.endswith((*WEIGHTS, _INDEX)) or _holds_arrays(start):
        return "checkpoint"
    if name.endswith(".json"):
        return "result"
    is_tar = start[_TAR_AT:].startswith(_TAR)
    if name.endswith(PACKED) or is_tar or start.startswith((_ZIP, *_PACKED_STARTS)):
        return "images"
    raise UserError(
        f"{path.name} cannot be opened: it is no run, session, configuration, checkpoint, result "
        "or archive of images.",
        kind="unknown-file",
        value=path.name,
    )


def _folder_kind(folder: Path) -> PathKind:
    shown = folder.name or str(folder.absolute())  # '/' and '.' have no name
    try:
        if (folder / RUN).is_file():
            return "run"
        if (inner_folder(folder) / RESULTS).is_file():
            return "result"
        if _holds_images(folder):
            return "images"
    except OSError as error:
        raise UserError(
            f"Cannot read {shown}: {error.strerror}.", kind="unreadable", value=shown
        ) from None
    raise UserError(
        f"{shown} is a folder without a run, a result or images in folders named after "
        "classes; choose one of these, or a file.",
        kind="unknown-folder",
        value=shown,
    )


def _holds_images(folder: Path) -> bool:
    """Return whether there are images in CLASS/…, or in a single folder or a part around that."""
    inner, _ = _list_folder(folder)
    parts = [below for below in inner if below.name.lower() in _PARTS or len(inner) == 1]
    tops = [folder, *parts, *(below for part in parts for below in _list_folder(part)[0][:1])]
    return any(_list_folder(below)[1] for top in tops for below in _list_folder(top)[0][:_CLASSES])


def _list_folder(folder: Path) -> tuple[list[Path], bool]:
    """Return the folders in a folder, and whether it has an image, of its first entries."""
    folders, has_image = [], False
    with os.scandir(folder) as entries:
        for entry in islice(entries, _ENTRIES):
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            has_image = has_image or entry.name.lower().endswith(SUFFIXES)
    return sorted(folders), has_image


def _read_start(path: Path) -> bytes:
    try:
        with open_regular(path, 1 << 62) as file:
            return file.read(_START)
    except NotRegular as error:
        raise UserError(f"{path.name} {error.verdict}.", kind="unknown-file") from None
    except FileNotFoundError:
        raise UserError(
            f"There is no file or folder {path}.", kind="no-file", value=path.name
        ) from None
    except OSError as error:
        raise UserError(
            f"Cannot read {shorten_middle(path.name, _LONGEST)}: {error.strerror}.",
            kind="unreadable",
            value=path.name,
        ) from None
    except ValueError:  # a zero byte
        raise UserError(
            f"{path.name} cannot be the name of a file.", kind="no-file", value=path.name
        ) from None


def _holds_arrays(start: bytes) -> bool:
    """Return whether a file begins as .npy, .safetensors, a pickle, or a zip of arrays does."""
    if start.startswith((b"\x93NUMPY", b"\x80")) or start[8:9] == b"{":
        return True
    first_member = start[30 : 30 + int.from_bytes(start[26:28], "little")]
    return start.startswith(_ZIP) and first_member.endswith(tuple(a.encode() for a in _ARRAYS))


def run_folder(path: Path) -> Path:
    """Return the folder of a recorded run, given that or its run.json."""
    return path if path.is_dir() else path.parent


class PathOpener(QObject):
    """Opens whatever a path is.

    Signals, with the path: `result_wanted`: show a result; `images_wanted`: start a run on images.
    """

    result_wanted = Signal(Path)
    images_wanted = Signal(Path)

    def __init__(self, context: WindowContext, configure: Callable[[Path], None]) -> None:
        """`configure` starts a run from a configuration."""
        super().__init__(context.window)
        self._context = context
        self._configure = configure

    def open_path(self, path: Path, purpose: Purpose = "") -> None:
        """Open a file or folder, or say in one sentence why that is not possible.

        `purpose`: the use of a checkpoint; while nothing is shown it opens on its own.
        """
        send = self._context.send
        if self._context.run_state().shows_nothing:
            purpose = "network"
        try:
            kind = path_kind(path)
        except UserError as refusal:
            self._context.notify_refusal(str(refusal), refusal.kind)
            return
        match kind:
            case "run":
                send(ShowRun(str(run_folder(path))))
            case "session":
                send(OpenSession(str(path)))
            case "configuration":
                self._configure(path)
            case "checkpoint":
                send(OpenFile(str(path), purpose))
            case "result":
                self.result_wanted.emit(path.parent if path.name == RESULTS else path)
            case "images":
                self.images_wanted.emit(path)
