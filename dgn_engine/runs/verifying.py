"""Is everything in a run folder what was written? Each damaged file is named; nothing changes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.refusal import Refusal
from dgn_engine.regular_files import read_text
from dgn_engine.runs import about, checkpoints, frames, inventory, lock, places
from dgn_engine.runs.durable import leftovers
from dgn_engine.runs.inventory import Inventory, stretches
from dgn_engine.runs.log import read_log


@dataclass(frozen=True)
class Finding:
    """`path`: in the run's folder. `harmless`: interruptions leave such things, nothing is lost."""

    path: str
    trouble: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.trouble}"


def verify(folder: Path) -> list[Finding]:
    """Everything that is not as it was written; raises `Refusal` where there is no run."""
    if not folder.is_dir() or not any(
        (folder / name).exists() for name in (places.RUN, places.LOG, places.CHECKPOINTS)
    ):
        raise Refusal(f"{folder} holds no run.")
    held = checkpoints.stored(folder / places.CHECKPOINTS)
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
    if _inventory(folder)[0] != Inventory():
        return ""
    if lock.holder(folder / places.LOCK) is not None:
        return "it is being written"
    return "its writer was killed, or an older version, and left no list of what is there"


def _about(folder: Path) -> list[Finding]:
    try:
        RunConfig.from_dict(about.read(folder)["config"])
    except Refusal as refusal:
        missing = not (folder / places.RUN).exists()
        other = "another version" in str(refusal)
        trouble = "is missing" if missing else str(refusal) if other else "is damaged"
        return [Finding(places.RUN, trouble)]
    return []


def _config(folder: Path) -> list[Finding]:
    path = folder / places.CONFIG
    try:
        config = RunConfig.from_dict(tomllib.loads(read_text(path)))
        recorded = RunConfig.from_dict(about.read(folder)["config"])
    except FileNotFoundError:
        return [Finding(places.CONFIG, "is missing")]
    except (OSError, ValueError):
        return [Finding(places.CONFIG, "is damaged")]
    except Refusal:
        return []  # run.json is told of already
    if config == recorded:
        return []
    return [Finding(places.CONFIG, f"is not the configuration of {places.RUN}")]


def _inventory(folder: Path) -> tuple[Inventory, list[Finding]]:
    """An empty one where there is none."""
    try:
        return inventory.told(about.read(folder)) or Inventory(), []
    except Refusal:
        return Inventory(), []  # run.json is told of already
    except ValueError:
        return Inventory(), [Finding(places.RUN, "holds an inventory that makes no sense")]


def _gone(folder: Path, known: Inventory) -> list[Finding]:
    serials = [frame.serial for frame in frames.stored(folder / places.FRAMES)]
    return [Finding(*told) for told in inventory.troubles(folder, known, serials)]


def _log(folder: Path, written: int) -> list[Finding]:
    """`written`: how many lines there were at least."""
    path = folder / places.LOG
    try:
        log = read_log(path)
    except FileNotFoundError:
        return [Finding(places.LOG, "is missing")]
    except OSError as error:
        return [Finding(places.LOG, f"cannot be read ({error.strerror})")]
    found: list[Finding] = []
    if log.damaged:
        lines = "line" if len(log.damaged) == 1 else "lines"
        found.append(
            Finding(places.LOG, f"is damaged in {lines} {_ranges(stretches(log.damaged))}")
        )
    if log.missing:
        found.append(Finding(places.LOG, f"lacks the entries {_ranges(log.missing)}"))
    if log.end < written:
        found.append(Finding(places.LOG, f"has {log.end:,} lines, {written:,} were written"))
    if log.torn:
        found.append(Finding(places.LOG, "ends in a line that was not finished", harmless=True))
    return found


def _checkpoints(folder: Path, held: Sequence[checkpoints.Stored]) -> list[Finding]:
    return [
        Finding(_relative(one.path / one.culprit, folder), one.trouble)
        for one in held
        if not one.sound
    ]


def _frames(folder: Path) -> list[Finding]:
    return [
        Finding(_relative(frame.path, folder), trouble)
        for frame in frames.stored(folder / places.FRAMES)
        if (trouble := frames.trouble(frame))
    ]


def _unfinished(folder: Path) -> list[Finding]:
    return [
        Finding(_relative(path, folder), "was not finished", harmless=True)
        for inner in (folder, folder / places.CHECKPOINTS, folder / places.FRAMES)
        for path in leftovers(inner)
    ]


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """'3, 7–12', cut after ten."""
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in ranges]
    return ", ".join(words[:10]) + (" …" if len(words) > 10 else "")
