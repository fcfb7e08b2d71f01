"""What lay in a run's folder when its last writer let go of it: so what is gone later is known.

It stands in `run.json`, written last and taken out before anything changes again. A folder whose
writer was killed, or that an older version wrote, has none; there nobody can tell what is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dgn_engine.storage.regular_files import NotRegular, sha256_of
from dgn_engine.storage.runs import folder_layout

KEY = "inventory"  # in run.json
_MOST = 1_000_000  # of anything: a stranger may have written it
_FILE = re.compile(
    rf"{folder_layout.WEIGHTS}|{folder_layout.KEPT}/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.safetensors"
)
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Manifest:
    """`lines` of the log; `frames` by their serial numbers; `checkpoints` by the names of their
    folders; `files` of weights with their bytes and sha256.
    """

    lines: int = 0
    frames: frozenset[int] = frozenset()
    checkpoints: frozenset[str] = frozenset()
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it stands in `run.json`; frames as first and last of each stretch."""
        return {
            "lines": self.lines,
            "frames": [list(stretch) for stretch in stretches(sorted(self.frames))],
            "checkpoints": sorted(self.checkpoints),
            "files": {
                name: {"bytes": size, "sha256": digest}
                for name, (size, digest) in sorted(self.files.items())
            },
        }


def told(about: Mapping[str, Any]) -> Manifest | None:
    """That of a `run.json`; None where there is none. Raises `ValueError` where it is nonsense."""
    tree = about.get(KEY)
    if tree is None:
        return None
    try:
        pairs = [(_count(first), _count(last)) for first, last in tree["frames"]]
        if sum(last - first + 1 for first, last in pairs) > _MOST:
            raise ValueError("too many frames")
        names = frozenset(tree["checkpoints"])
        files = {
            name: (_count(one["bytes"]), str(one["sha256"])) for name, one in tree["files"].items()
        }
        if not all(folder_layout.checkpoint_key(name) for name in names):
            raise ValueError("a checkpoint's name")
        if not all(_FILE.fullmatch(name) for name in files):
            raise ValueError("a file's name")
        frames = frozenset(n for first, last in pairs for n in range(first, last + 1))
        return Manifest(_count(tree["lines"]), frames, names, files)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


def without(about: Mapping[str, Any]) -> dict[str, Any]:
    """A `run.json` that claims nothing of what lies beside it."""
    return {key: value for key, value in about.items() if key != KEY}


def weights(folder: Path) -> dict[str, Path]:
    """The files of weights that are there, by their names within the folder."""
    kept = folder / folder_layout.KEPT
    inner = kept.iterdir() if kept.is_dir() else ()
    names = (
        path.relative_to(folder).as_posix() for path in (folder / folder_layout.WEIGHTS, *inner)
    )
    return {
        name: folder / name
        for name in sorted(names)
        if _FILE.fullmatch(name) and os.path.lexists(folder / name)
    }


def stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file was written anew; raises `OSError`."""
    status = path.lstat()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


class PreviousManifest:
    """What a writer finds when it opens a folder: what is gone then does not come to be in order
    because the run goes on.
    """

    def __init__(self, folder: Path, known: Manifest | None, frames: Iterable[int]) -> None:
        """`frames`: serial numbers that are there. Raises `OSError`."""
        self._folder = folder
        self._known = known or Manifest()
        self._stamps = {name: stamp(path) for name, path in weights(folder).items()}
        self._lost_checkpoints = {
            name
            for name in self._known.checkpoints
            if not (folder / folder_layout.CHECKPOINTS / name).exists()
        }
        self.lost_frames = self._known.frames.difference(frames)

    def forget_frames(self, serial: int) -> None:
        """Those from this number on are superseded."""
        self.lost_frames = frozenset(one for one in self.lost_frames if one < serial)

    @property
    def next_serial(self) -> int:
        """Of frames: no number is given twice."""
        return 1 + max(self._known.frames, default=-1)

    def after(self, lines: int, frames: Iterable[int]) -> Manifest:
        """What is there now, and what should be; raises `OSError`."""
        there = checkpoint_names(self._folder)
        return Manifest(
            lines=lines,
            frames=self.lost_frames.union(frames),
            checkpoints=frozenset(there | self._lost_checkpoints),
            files={**self._known.files, **self._written()},
        )

    def _written(self) -> dict[str, tuple[int, str]]:
        """Weights that are new or written anew; a file that nobody touched is not looked at."""
        found: dict[str, tuple[int, str]] = {}
        for name, path in weights(self._folder).items():
            if name not in self._known.files or self._stamps.get(name) != stamp(path):
                with suppress(NotRegular):
                    found[name] = sha256_of(path)
        return found


def checkpoint_names(folder: Path) -> set[str]:
    """Of the checkpoints that are there, sound or not."""
    inner = folder / folder_layout.CHECKPOINTS
    names = {path.name for path in inner.iterdir()} if inner.is_dir() else set()
    return {name for name in names if folder_layout.checkpoint_key(name) is not None}


def troubles(folder: Path, known: Manifest, frames: Iterable[int]) -> list[tuple[str, str]]:
    """Files that are gone, and weights that are not what was written: path and what is wrong."""
    found = [
        (f"{folder_layout.CHECKPOINTS}/{name}", "is missing")
        for name in sorted(known.checkpoints - checkpoint_names(folder))
    ]
    for first, last in stretches(sorted(known.frames.difference(frames))):
        lost = f"{folder_layout.FRAMES}/*-{first:06}-*.safetensors"
        found.append((lost, "is missing" if first == last else f"to *-{last:06}-* are missing"))
    for name, expected in known.files.items():
        if why := _trouble(folder / name, expected):
            found.append((name, why))
    return found


def reduced(folder: Path, known: Manifest, frames: Iterable[int], lines: int) -> Manifest:
    """What is left of it, sound."""
    return replace(
        known,
        lines=max(lines, known.lines),
        frames=known.frames.intersection(frames),
        checkpoints=known.checkpoints & checkpoint_names(folder),
        files={n: told for n, told in known.files.items() if not _trouble(folder / n, told)},
    )


def stretches(numbers: Iterable[int]) -> Ranges:
    """First and last of each stretch of ascending numbers without a gap."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _trouble(path: Path, expected: tuple[int, str]) -> str:
    try:
        size, digest = sha256_of(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if size != expected[0]:
        return f"has {size:,} bytes, {expected[0]:,} were written"
    return "" if digest == expected[1] else "does not hold what was written (its sha256 differs)"


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 1 << 53:
        raise ValueError("a count")
    return value
