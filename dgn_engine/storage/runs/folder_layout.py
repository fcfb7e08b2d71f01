"""What lies in the folder of a run, under which names, and where run folders lie."""

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
from dgn_engine.storage.inner_path import FilePath, InnerPath, LinkInside, inside
from dgn_engine.storage.user_folders import user_data

# What a file may hold; a mark is empty.
Kind = Literal["json", "log", "tensors", "text", "mark"]

RUN = "run.json"
CONFIG = "config.toml"
LOG = "log.jsonl"
LOCK = "lock"
WEIGHTS = "weights.safetensors"
NOTES = "notes.json"  # the user's words; they stay on this machine
MIRROR = "mirror"  # that the folder is one, and of which run: without checkpoints and weights
ANSWERS = "answers.json"  # which test examples were answered right; stays on this machine
FILES: Mapping[str, Kind] = {WEIGHTS: "tensors", CONFIG: "text", LOG: "log", RUN: "json"}

FRAMES = "frames"
CHECKPOINTS = "checkpoints"
KEPT = "weights"  # those that `--keep-epochs` and `--keep-best` ask for
DAMAGED = "damaged"  # where `repair` moves what is not sound
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
    """What a file of a run holds, by its path in the folder; None where it is none that crosses
    to another machine: `weights/`, `damaged/`, notes, answers and the lock stay.
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
    """Where a writer that was killed may have left unfinished files."""
    root = inside(folder)
    return (root, root / CHECKPOINTS, root / FRAMES)


def links(folder: FilePath) -> list[InnerPath]:
    """What of a run's folder is a link, of its files and of its folders; deeper ones are not
    looked for. Raises `OSError`.
    """
    root = inside(folder)
    found = root.listing()
    names = (*FOLDERS, *FILES, LOCK, NOTES, ANSWERS, MIRROR)
    return [root / name for name in names if name in found and S_ISLNK(found[name].st_mode)]


def require_no_link(folder: FilePath) -> None:
    """Raises `LinkInside`, and other `OSError`."""
    for path in links(folder):
        raise LinkInside(path.within)


def refuse_links(folder: Path) -> None:
    """Raises `UserError` where something in a run's folder is a link."""
    try:
        require_no_link(folder)
    except LinkInside as link:
        raise UserError(
            f"{folder} is not opened: {link.strerror}; 'dgn runs repair {folder}' puts it aside.",
            kind="link",
            value=link.within,
        ) from None
    except OSError:
        pass  # whoever reads it next says what is wrong


def set_aside(folder: FilePath, path: InnerPath) -> None:
    """Move what lies there, if anything does, to `damaged/`. Raises `OSError`."""
    if not path.exists():
        return
    target = unused_place(folder, path)
    path.replace(target)
    target.parent.sync()
    path.parent.sync()


def unused_place(folder: FilePath, path: InnerPath) -> InnerPath:
    """Where something of a run can be put in `damaged/`; its folder is there. Raises `OSError`."""
    root = inside(folder)
    # A link goes under another name: it must not lie where a folder may be needed later.
    wanted = f"{path.within}.link" if path.is_link() else path.within
    damaged = root / DAMAGED
    if path == damaged:
        damaged = root
    elif damaged.is_link():
        set_aside(root, damaged)
    target, again = damaged / wanted, 1
    while target.exists():
        target = target.parent / f"{(damaged / wanted).name}.{again}"
        again += 1
    make_folders(target.parent)
    return target


def holds_run(folder: Path) -> bool:
    """Whether a folder, which is no link, holds a run or what is left of one."""
    here = any((inside(folder) / name).is_file() for name in (RUN, LOG))
    return here and not folder.is_symlink()


def is_mirror(folder: FilePath) -> bool:
    """Whether a run's folder is the mirror of one that is recorded elsewhere."""
    return (inside(folder) / MIRROR).is_file()


def is_same_folder(a: str | Path, b: str | Path) -> bool:
    """Return whether two paths lead to one folder, by whatever links; '' leads to none."""
    if not (str(a) and str(b)):
        return str(a) == str(b)
    return str(a) == str(b) or os.path.realpath(a) == os.path.realpath(b)


def runs_root() -> Path:
    """The user's folder of runs: `DGN_RUNS_ROOT`, else in the user's data folder."""
    named = os.environ.get("DGN_RUNS_ROOT", "")
    return Path(named) if named else user_data() / "runs"


def find_run(name: str) -> Path:
    """A path that is there, or the name of one of the user's runs."""
    here, there = Path(name), runs_root() / name
    try:
        return here if here.exists() or not there.exists() else there
    except (OSError, ValueError):  # too long for a file's name, or with a zero byte
        raise UserError(f"There is no run {reprlib.repr(name)}.") from None


def results_root() -> Path:
    """The user's folder of reproduced experiments: `DGN_RESULTS_ROOT`, else beside the runs."""
    named = os.environ.get("DGN_RESULTS_ROOT", "")
    return Path(named) if named else runs_root().parent / "results"


def is_reserved(name: str) -> bool:
    """Whether the folder of runs has a file of this name for itself, so that no run may have it."""
    return name.casefold() == LIMITS


def each_path(root: Path, name: str) -> Iterator[Path]:
    """`name` below `root`, then `name-2` and so on; none that is reserved."""
    if not is_reserved(name):
        yield root / name
    for again in count(2):
        yield root / f"{name}-{again}"


def unused_path(root: Path, name: str) -> Path:
    """The first of `each_path` where nothing is."""
    return next(path for path in each_path(root, name) if not path.exists())


def checkpoint_name(step: int, again: int) -> str:
    """'000000120', and '000000120-1' for another one at the same step."""
    return f"{step:09}" + (f"-{again}" if again else "")


def checkpoint_key(name: str) -> tuple[int, int] | None:
    """The step and the repetition in the name of a checkpoint's folder; None for other names."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[1]), int(found[2] or 0)) if found else None


def frame_name(step: int, serial: int, digest: str) -> str:
    """A frame carries the beginning of its own sha256 in its name: it needs no list."""
    return f"{step:09}-{serial:06}-{digest[:16]}.safetensors"


def frame_key(name: str) -> tuple[int, int, str] | None:
    """Step, serial number and beginning of the sha256; None for other names."""
    found = _FRAME.fullmatch(name)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def bytes_of(folder: FilePath, without: str = "") -> int:
    """Of all regular files below a folder, but not in its folder `without`; no link is followed,
    and what cannot be looked at counts nothing."""
    total, waiting = 0, [inside(folder)]
    while waiting:
        here = waiting.pop()
        with suppress(OSError):
            for name, status in here.listing().items():
                if S_ISREG(status.st_mode):
                    total += status.st_size
                elif S_ISDIR(status.st_mode) and not (without == name and len(here.parts) == 0):
                    waiting.append(here / name)
    return total
