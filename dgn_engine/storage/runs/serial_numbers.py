"""The numbers that a run gives to its lines, frames and checkpoints: none is given twice.

What was damaged, put aside, removed or superseded keeps its number: a checkpoint says how many
lines and frames came before it, and would count later ones as its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import FilePath, InnerPath, inside
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout, run_info
from dgn_engine.storage.runs.log import CONTINUED, LogLine, LogScan
from dgn_engine.storage.runs.manifest import NOTHING, Manifest, known_manifest
from dgn_engine.storage.runs.run_ranges import is_count

_MOST = 1 << 53  # what claims more is damaged


@dataclass(frozen=True)
class NextNumbers:
    """The first number of each kind that nothing has, or ever had."""

    lines: int
    frames: int
    checkpoints: int


def find_next_numbers(folder: FilePath, manifest: Manifest, log: Iterable[LogLine]) -> NextNumbers:
    """By everything in a run's folder that names a number; raises `OSError`."""
    root = inside(folder)
    places = (root, root / folder_layout.DAMAGED)
    states = [state for place in places for state in _states(place / folder_layout.CHECKPOINTS)]
    continued = [line.fields for line in log if line.name == "RunContinued"]
    serials = [serial for place in places for serial in _serials(place / folder_layout.FRAMES)]
    frames = [*_numbers(states, "frames"), *_numbers(continued, "frames")]
    frames += [1 + serial for serial in (*serials, *manifest.serials)]
    checkpoints = [1 + order for order in _numbers(states, "order")]
    checkpoints += _numbers(continued, "checkpoints")
    return NextNumbers(
        lines=max((manifest.lines, *_numbers(states, "lines"))),
        frames=max(frames, default=0),
        checkpoints=max(checkpoints, default=0),
    )


def count_all(folder: FilePath) -> tuple[int, int, int]:
    """How many lines, frames and checkpoints a run has had; raises `OSError`."""
    root = inside(folder)
    try:
        known = known_manifest(run_info.read(root)) or NOTHING
    except UserError:
        known = NOTHING
    log = LogScan(root / folder_layout.LOG, {CONTINUED: None})
    try:
        continued = [line for line in log if line.name == CONTINUED]
    except FileNotFoundError:
        continued = []
    found = find_next_numbers(root, known, continued)
    return max(found.lines, log.end), found.frames, found.checkpoints


def _numbers(tables: Iterable[Mapping[str, Any]], name: str) -> Iterator[int]:
    for table in tables:
        number = table.get(name)
        if is_count(number, _MOST - 1):
            yield number


def _states(checkpoints: InnerPath) -> Iterator[Mapping[str, Any]]:
    """Of all checkpoints, sound or not, as far as they can be read."""
    for name in checkpoints.listing():
        try:
            state = parse_json(read_regular(checkpoints / name / folder_layout.STATE))
        except (OSError, ValueError):
            continue
        if isinstance(state, dict):
            yield state


def _serials(frames: InnerPath) -> Iterator[int]:
    ending = ".safetensors"
    for name in frames.listing():
        # Another one of the same name was put aside before: '….safetensors.1'.
        key = folder_layout.frame_key(name.partition(ending)[0] + ending)
        if key is not None:
            yield key[1]
