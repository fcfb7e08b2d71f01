"""The numbers that a run gives to its lines, frames and checkpoints: none is used twice.

What was damaged, set aside, removed or superseded keeps its number: a checkpoint states how many
lines and frames came before it, and would otherwise count later ones as its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import FilePath, InnerPath, inner_folder
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout, run_info
from dgn_engine.storage.runs.log import CONTINUED, LogLine, LogScan
from dgn_engine.storage.runs.manifest import NOTHING, Manifest, known_manifest
from dgn_engine.storage.runs.run_ranges import is_count

_MOST = 1 << 53  # larger numbers are damaged


@dataclass(frozen=True)
class NextNumbers:
    """The first number of each kind that was never used."""

    lines: int
    frames: int
    checkpoints: int


def find_next_numbers(folder: FilePath, manifest: Manifest, log: Iterable[LogLine]) -> NextNumbers:
    """Return the next numbers, by every number in a run's folder; raises `OSError`."""
    root = inner_folder(folder)
    folders = (root, root / folder_layout.DAMAGED)
    states = [
        state
        for inner in folders
        for state in _checkpoint_states(inner / folder_layout.CHECKPOINTS)
    ]
    continued = [line.fields for line in log if line.name == "RunContinued"]
    serials = [
        serial for inner in folders for serial in _frame_serials(inner / folder_layout.FRAMES)
    ]
    frames = [*_numbers_in(states, "frames"), *_numbers_in(continued, "frames")]
    frames += [1 + serial for serial in (*serials, *manifest.frame_serials)]
    checkpoints = [1 + order for order in _numbers_in(states, "order")]
    checkpoints += _numbers_in(continued, "checkpoints")
    return NextNumbers(
        lines=max((manifest.lines, *_numbers_in(states, "lines"))),
        frames=max(frames, default=0),
        checkpoints=max(checkpoints, default=0),
    )


def count_all(folder: FilePath) -> tuple[int, int, int]:
    """Return how many lines, frames and checkpoints a run has ever had; raises `OSError`."""
    root = inner_folder(folder)
    try:
        known = known_manifest(run_info.read_run_info(root)) or NOTHING
    except UserError:
        known = NOTHING
    log = LogScan(root / folder_layout.LOG, {CONTINUED: None})
    try:
        continued = [line for line in log if line.name == CONTINUED]
    except FileNotFoundError:
        continued = []
    numbers = find_next_numbers(root, known, continued)
    return max(numbers.lines, log.end), numbers.frames, numbers.checkpoints


def _numbers_in(tables: Iterable[Mapping[str, Any]], name: str) -> Iterator[int]:
    for table in tables:
        number = table.get(name)
        if is_count(number, _MOST - 1):
            yield number


def _checkpoint_states(checkpoints: InnerPath) -> Iterator[Mapping[str, Any]]:
    """Yield the states of all checkpoints, intact or not, as far as they can be read."""
    for name in checkpoints.list_entries():
        try:
            state = parse_json(read_regular(checkpoints / name / folder_layout.STATE))
        except (OSError, ValueError):
            continue
        if isinstance(state, dict):
            yield state


def _frame_serials(frames: InnerPath) -> Iterator[int]:
    ending = ".safetensors"
    for name in frames.list_entries():
        # Another one of the same name was set aside before: '….safetensors.1'.
        key = folder_layout.frame_key(name.partition(ending)[0] + ending)
        if key is not None:
            yield key[1]
