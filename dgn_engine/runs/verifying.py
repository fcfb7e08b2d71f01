"""Is everything in a run folder what was written? Each damaged file is named; nothing changes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.refusal import Refusal
from dgn_engine.regular_files import read_text
from dgn_engine.runs import about, checkpoints, frames, places
from dgn_engine.runs.durable import leftovers
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
    return [
        *_about(folder),
        *_config(folder),
        *_log(folder),
        *_checkpoints(folder),
        *_frames(folder),
        *_unfinished(folder),
    ]


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


def _log(folder: Path) -> list[Finding]:
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
        found.append(Finding(places.LOG, f"is damaged in {lines} {_ranges(_joined(log.damaged))}"))
    if log.missing:
        found.append(Finding(places.LOG, f"lacks the entries {_ranges(log.missing)}"))
    if log.torn:
        found.append(Finding(places.LOG, "ends in a line that was not finished", harmless=True))
    return found


def _checkpoints(folder: Path) -> list[Finding]:
    return [
        Finding(_relative(one.path / one.culprit, folder), one.trouble)
        for one in checkpoints.stored(folder / places.CHECKPOINTS)
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


def _joined(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """'3, 7–12', cut after ten."""
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in ranges]
    return ", ".join(words[:10]) + (" …" if len(words) > 10 else "")
