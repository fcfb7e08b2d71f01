"""All runs of a folder of runs together: what they take, and thinning the oldest of them.

Nothing here acts by itself: `plan` says what would be thinned, `thin` does it when the user has
said so. Logs, scores, newest checkpoints and weights stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints
from dgn_engine.storage.runs.index import read_index
from dgn_engine.storage.runs.index_entry import IndexEntry
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.storage_limits import limits_that_hold
from dgn_engine.text.byte_counts import binary_size_in_words

SHARE = 1 / 8  # of a run's frames, and of its checkpoints before changes, that are left
ROOM = 0.9  # runs are thinned to this share of the limit, so that it is not done every day


@dataclass(frozen=True)
class ThinningPlan:
    """`total`: bytes of all runs, `limit`: what they may take; `folders`: the runs to thin, the
    oldest first; `freed`: about so many bytes."""

    total: int
    limit: int
    folders: tuple[Path, ...]
    freed: int

    @property
    def over(self) -> bool:
        return self.total > self.limit

    @property
    def sentence(self) -> str:
        """Where the runs take too much: how much, and what can be done about it."""
        taken, limit = binary_size_in_words(self.total), binary_size_in_words(self.limit)
        words = f"All recorded runs together take {taken}, over their limit of {limit}."
        if not self.folders:
            return f"{words} None of them can be thinned out: delete some, or raise the limit."
        runs = "oldest run" if len(self.folders) == 1 else f"{len(self.folders)} oldest runs"
        freed = binary_size_in_words(self.freed)
        return f"{words} Thinning out the {runs} would free about {freed}."

    def outcome(self, freed: int) -> str:
        """What came of thinning out its runs; `freed`: bytes."""
        left = f"All runs together take {binary_size_in_words(self.total - freed)}"
        left = f"{left} of {binary_size_in_words(self.limit)}."
        if not self.over:
            return f"Nothing has to be thinned out. {left}"
        if not self.folders:
            return self.sentence
        runs = "The oldest run was" if len(self.folders) == 1 else f"{len(self.folders)} runs were"
        words = f"{runs} thinned out, {binary_size_in_words(freed)} freed. {left}"
        if self.total - freed <= self.limit:
            return words
        return f"{words} That is still too much: delete some, or raise the limit."


def plan(root: Path) -> ThinningPlan:
    """What should be thinned out so that the runs come under their limit; nothing where they are.

    A run stays as it is where it is written now, was given a name or notes, has a checkpoint that
    the user keeps, or has nothing more to spare.
    """
    entries = read_index(root)
    total, limit = sum(entry.bytes for entry in entries), limits_that_hold(root).all
    folders: list[Path] = []
    freed = 0
    if total > limit:
        for entry in entries:  # the oldest first
            spared = 0 if is_pinned(root, entry) else _spare(root / entry.name)
            if spared:
                folders.append(root / entry.name)
                freed += spared
            if total - freed <= ROOM * limit:
                break
    return ThinningPlan(total, limit, tuple(folders), freed)


def thin(folders: Sequence[Path], report: Callable[[str], None] = lambda _: None) -> int:
    """Thin out these runs; returns the bytes that this freed. `report`: a sentence about each."""
    freed = 0
    for path in folders:
        before = folder_layout.bytes_of(path)
        try:
            _thin(path)
        except UserError as refusal:
            report(str(refusal))
            continue
        except OSError as error:
            report(f"{path} cannot be thinned out: {error.strerror}.")
            continue
        spared = max(0, before - folder_layout.bytes_of(path))
        freed += spared
        report(f"{path.name}: {binary_size_in_words(spared)} freed.")
    return freed


def _thin(path: Path) -> None:
    """It was written to last when it was: the time of the log stays."""
    log = path / folder_layout.LOG
    touched = log.lstat()
    folder = RunFolder(path)
    try:
        folder.thin(SHARE)
    finally:
        folder.close()
    os.utime(log, ns=(touched.st_atime_ns, touched.st_mtime_ns), follow_symlinks=False)


def is_pinned(root: Path, entry: IndexEntry) -> bool:
    """Whether a run is left alone: it is written, or the user has said that it matters."""
    folder = root / entry.name
    notes = read_notes(folder)
    if entry.status in ("running", "damaged") or notes.name or notes.notes:
        return True
    return any((folder / folder_layout.CHECKPOINTS).glob(f"*/{folder_layout.KEEP}"))


def _spare(folder: Path) -> int:
    """About how many bytes thinning would free; 0 where it was thinned out already."""
    frames = frame_files.scan(folder / folder_layout.FRAMES)
    taken = 0
    if len(frames) > 2 * frame_files.NEWEST:
        taken = sum(frame.bytes for frame in frames)
    places = run_checkpoints.scan(folder / folder_layout.CHECKPOINTS, thorough=False)
    before = [one for one in places[: -run_checkpoints.NEWEST] if one.kept.startswith("before")]
    if len(before) > 2:
        taken += sum(folder_layout.bytes_of(one.path) for one in before)
    return int(taken * (1 - SHARE))
