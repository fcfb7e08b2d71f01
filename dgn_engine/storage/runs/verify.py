"""Is everything in a run folder what was written? Each damaged file is named; nothing changes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import leftovers
from dgn_engine.storage.regular_files import read_text
from dgn_engine.storage.runs import folder_layout, frame_files, manifest, run_checkpoints, run_info
from dgn_engine.storage.runs.log import read_log
from dgn_engine.storage.runs.manifest import Manifest, stretches


@dataclass(frozen=True)
class Damage:
    """`path`: in the run's folder. `harmless`: interruptions leave such things, nothing is lost."""

    path: str
    trouble: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.trouble}"


def verify(folder: Path) -> list[Damage]:
    """Everything that is not as it was written; raises `UserError` where there is no run."""
    if not folder.is_dir() or not any(
        (folder / name).exists()
        for name in (folder_layout.RUN, folder_layout.LOG, folder_layout.CHECKPOINTS)
    ):
        raise UserError(f"{folder} holds no run.")
    held = run_checkpoints.stored(folder / folder_layout.CHECKPOINTS)
    known, nonsense = _inventory(folder)
    return [
        *_about(folder),
        *nonsense,
        *_config(folder),
        *_log(folder, max((known.lines, *(one.lines for one in held)))),
        *_checkpoints(folder, held),
        *_frames(folder),
        *_gone(folder, known),
        *_unfinished(folder),
    ]


def unchecked(folder: Path) -> str:
    """Why files could be missing unseen, as the end of a sentence; '' where none could."""
    if _inventory(folder)[0] != Manifest():
        return ""
    if lock.holder(folder / folder_layout.LOCK) is not None:
        return "it is being written"
    return "its writer was killed, or an older version, and left no list of what is there"


def _about(folder: Path) -> list[Damage]:
    try:
        RunConfig.from_dict(run_info.read(folder)["config"])
    except UserError as refusal:
        missing = not (folder / folder_layout.RUN).exists()
        other = "another version" in str(refusal)
        trouble = "is missing" if missing else str(refusal) if other else "is damaged"
        return [Damage(folder_layout.RUN, trouble)]
    return []


def _config(folder: Path) -> list[Damage]:
    path = folder / folder_layout.CONFIG
    try:
        config = RunConfig.from_dict(tomllib.loads(read_text(path)))
        recorded = RunConfig.from_dict(run_info.read(folder)["config"])
    except FileNotFoundError:
        return [Damage(folder_layout.CONFIG, "is missing")]
    except (OSError, ValueError):
        return [Damage(folder_layout.CONFIG, "is damaged")]
    except UserError:
        return []  # run.json is told of already
    if config == recorded:
        return []
    return [Damage(folder_layout.CONFIG, f"is not the configuration of {folder_layout.RUN}")]


def _inventory(folder: Path) -> tuple[Manifest, list[Damage]]:
    """An empty one where there is none."""
    try:
        return manifest.told(run_info.read(folder)) or Manifest(), []
    except UserError:
        return Manifest(), []  # run.json is told of already
    except ValueError:
        return Manifest(), [Damage(folder_layout.RUN, "holds an inventory that makes no sense")]


def _gone(folder: Path, known: Manifest) -> list[Damage]:
    serials = [frame.serial for frame in frame_files.stored(folder / folder_layout.FRAMES)]
    return [Damage(*told) for told in manifest.troubles(folder, known, serials)]


def _log(folder: Path, written: int) -> list[Damage]:
    """`written`: how many lines there were at least."""
    path = folder / folder_layout.LOG
    try:
        log = read_log(path)
    except FileNotFoundError:
        return [Damage(folder_layout.LOG, "is missing")]
    except OSError as error:
        return [Damage(folder_layout.LOG, f"cannot be read ({error.strerror})")]
    found: list[Damage] = []
    if log.damaged:
        lines = "line" if len(log.damaged) == 1 else "lines"
        found.append(
            Damage(folder_layout.LOG, f"is damaged in {lines} {_ranges(stretches(log.damaged))}")
        )
    if log.missing:
        found.append(Damage(folder_layout.LOG, f"lacks the entries {_ranges(log.missing)}"))
    if log.end < written:
        found.append(Damage(folder_layout.LOG, f"has {log.end:,} lines, {written:,} were written"))
    if log.torn:
        found.append(
            Damage(folder_layout.LOG, "ends in a line that was not finished", harmless=True)
        )
    return found


def _checkpoints(folder: Path, held: Sequence[run_checkpoints.StoredCheckpoint]) -> list[Damage]:
    return [
        Damage(_relative(one.path / one.culprit, folder), one.trouble)
        for one in held
        if not one.sound
    ]


def _frames(folder: Path) -> list[Damage]:
    return [
        Damage(_relative(frame.path, folder), trouble)
        for frame in frame_files.stored(folder / folder_layout.FRAMES)
        if (trouble := frame_files.trouble(frame))
    ]


def _unfinished(folder: Path) -> list[Damage]:
    return [
        Damage(_relative(path, folder), "was not finished", harmless=True)
        for inner in (folder, folder / folder_layout.CHECKPOINTS, folder / folder_layout.FRAMES)
        for path in leftovers(inner)
    ]


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """'3, 7–12', cut after ten."""
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in ranges]
    return ", ".join(words[:10]) + (" …" if len(words) > 10 else "")
