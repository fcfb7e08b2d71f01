"""The files and folders of a run, their names, and where run folders are kept."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Literal

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders
from dgn_engine.storage.inner_path import FilePath, InnerPath, LinkInside, inner_folder
from dgn_engine.storage.user_folders import user_data

# Type of a file's contents; a mark is empty.
Kind = Literal["json", "log", "tensors", "text", "mark"]

RUN = "run.json"
CONFIG = "config.toml"
LOG = "log.jsonl"
LOCK = "lock"
WEIGHTS = "weights.safetensors"
NOTES = "notes.json"  # written by the user; stays on this machine
MIRROR = "mirror"  # marks a mirror, and its run: without checkpoints and weights
ANSWERS = "answers.json"  # which test examples were classified correctly; stays on this machine
FILES: Mapping[str, Kind] = {WEIGHTS: "tensors", CONFIG: "text", LOG: "log", RUN: "json"}

FRAMES = "frames"
CHECKPOINTS = "checkpoints"
KEPT = "weights"  # from `--keep-epochs` and `--keep-best`
DAMAGED = "damaged"  # where `repair` moves damaged files
FOLDERS = (CHECKPOINTS, FRAMES, KEPT, DAMAGED)

LIMITS = "limits.toml"  # in the user's folder of runs, beside them

# In the folder of a checkpoint.
TENSORS = "tensors.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
KEEP = "keep"  # the user keeps this checkpoint
CHECKPOINT_FILES: Mapping[str, Kind] = {
    TENSORS: "tensors",
    STATE: "json",
    MANIFEST: "json",
    KEEP: "mark",
}

_CHECKPOINT = re.compile(r"([0-9]{9,15})(?:-([0-9]{1,6}))?")
_FRAME = re.compile(r"([0-9]{9,15})-([0-9]{6,12})-([0-9a-f]{16})\.safetensors")


def kind_of(path: str) -> Kind | None:
    """Return the type of a run's file by its path in the folder; None if it stays on this machine.

    `weights/`, `damaged/`, notes, answers and the lock stay.
    """
    match path.split("/"):
        case [name]:
            return FILES.get(name)
        case [folder, name] if folder == FRAMES and frame_key(name):
            return "tensors"
        case [folder, step, name] if folder == CHECKPOINTS and checkpoint_key(step):
            return CHECKPOINT_FILES.get(name)
    return None


def written_folders(folder: FilePath) -> tuple[InnerPath, ...]:
    """Return the folders in which a killed writer may have left unfinished files."""
    root = inner_folder(folder)
    return (root, root / CHECKPOINTS, root / FRAMES)


def links_in(folder: FilePath) -> list[InnerPath]:
    """Return the files and folders of a run that are links; deeper ones are not searched.

    Raises `OSError`.
    """
    root = inner_folder(folder)
    entries = root.list_entries()
    names = (*FOLDERS, *FILES, LOCK, NOTES, ANSWERS, MIRROR)
    return [root / name for name in names if name in entries and S_ISLNK(entries[name].st_mode)]


def require_no_link(folder: FilePath) -> None:
    """Raise `LinkInside` if anything in the folder is a link; also other `OSError`."""
    for path in links_in(folder):
        raise LinkInside(path.relative_name)


def refuse_links(folder: Path) -> None:
    """Raise `UserError` if something in a run's folder is a link."""
    try:
        require_no_link(folder)
    except LinkInside as link:
        raise UserError(
            f"{folder} was not opened: {link.strerror}; 'dgn runs repair {folder}' moves it to "
            "damaged/.",
            kind="link",
            value=link.within,
        ) from None
    except OSError:
        pass  # the next reader reports what is wrong


def set_aside(folder: FilePath, path: InnerPath) -> None:
    """Move a file, if it exists, to `damaged/`; raises `OSError`."""
    if not path.exists():
        return
    target = unused_place(folder, path)
    path.replace(target)
    target.parent.sync()
    path.parent.sync()


def unused_place(folder: FilePath, path: InnerPath) -> InnerPath:
    """Return an unused path in `damaged/`, whose folder exists; raises `OSError`."""
    root = inner_folder(folder)
    # A link gets another name: it must not take the name of a folder that may be needed later.
    base_name = f"{path.relative_name}.link" if path.is_link() else path.relative_name
    damaged = root / DAMAGED
    if path == damaged:
        damaged = root
    elif damaged.is_link():
        set_aside(root, damaged)
    target, again = damaged / base_name, 1
    while target.exists():
        target = target.parent / f"{(damaged / base_name).name}.{again}"
        again += 1
    make_folders(target.parent)
    return target


def holds_run(folder: Path) -> bool:
    """Return whether a folder, which is not a link, contains a run or the remains of one."""
    here = any((inner_folder(folder) / name).is_file() for name in (RUN, LOG))
    return here and not folder.is_symlink()


def is_mirror(folder: FilePath) -> bool:
    """Return whether a run's folder mirrors one that is recorded elsewhere."""
    return (inner_folder(folder) / MIRROR).is_file()


def is_same_folder(a: str | Path, b: str | Path) -> bool:
    """Return whether two paths lead to one folder, through any links; '' leads to none."""
    if not (str(a) and str(b)):
        return str(a) == str(b)
    return str(a) == str(b) or os.path.realpath(a) == os.path.realpath(b)


def runs_root() -> Path:
    """Return the user's folder of runs: `DGN_RUNS_ROOT`, or else in the user's data folder."""
    named = os.environ.get("DGN_RUNS_ROOT", "")
    return Path(named) if named else user_data() / "runs"


def find_run(name: str) -> Path:
    """Return an existing path, or that of one of the user's runs by name."""
    here, there = Path(name), runs_root() / name
    try:
        return here if here.exists() or not there.exists() else there
    except (OSError, ValueError):  # too long for a file name, or with a zero byte
        raise UserError(f"There is no run {reprlib.repr(name)}.") from None


def results_root() -> Path:
    """Return the folder of reproduced experiments: `DGN_RESULTS_ROOT`, or else beside the runs."""
    named = os.environ.get("DGN_RESULTS_ROOT", "")
    return Path(named) if named else runs_root().parent / "results"


def is_reserved(name: str) -> bool:
    """Return whether the runs folder uses this name itself, so that no run may have it."""
    return name.casefold() == LIMITS


def each_path(root: Path, name: str) -> Iterator[Path]:
    """Yield `name` below `root`, then `name-2` and so on, without reserved names."""
    if not is_reserved(name):
        yield root / name
    for again in count(2):
        yield root / f"{name}-{again}"


def unused_path(root: Path, name: str) -> Path:
    """Return the first of `each_path` that does not exist."""
    return next(path for path in each_path(root, name) if not path.exists())


def checkpoint_name(step: int, again: int) -> str:
    """Return '000000120', and '000000120-1' for another one at the same step."""
    return f"{step:09}" + (f"-{again}" if again else "")


def checkpoint_key(name: str) -> tuple[int, int] | None:
    """Return step and repetition from the name of a checkpoint's folder; None for other names."""
    match = _CHECKPOINT.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def frame_name(step: int, serial: int, digest: str) -> str:
    """Return the name of a frame, with a prefix of its sha256: it needs no list."""
    return f"{step:09}-{serial:06}-{digest[:16]}.safetensors"


def frame_key(name: str) -> tuple[int, int, str] | None:
    """Return step, serial number and sha256 prefix; None for other names."""
    match = _FRAME.fullmatch(name)
    return (int(match[1]), int(match[2]), match[3]) if match else None


def bytes_of(folder: FilePath, without: str = "") -> int:
    """Return the bytes of all regular files below a folder, without its folder `without`.

    Links are not followed, and unreadable folders count as empty.
    """
    total, waiting = 0, [inner_folder(folder)]
    while waiting:
        here = waiting.pop()
        with suppress(OSError):
            for name, status in here.list_entries().items():
                if S_ISREG(status.st_mode):
                    total += status.st_size
                elif S_ISDIR(status.st_mode) and not (without == name and len(here.parts) == 0):
                    waiting.append(here / name)
    return total
