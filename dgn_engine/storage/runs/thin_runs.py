"""All runs of a folder together: their total size, and thinning the oldest of them.

Nothing happens automatically: `plan_thinning` proposes, `thin_folders` acts once the user agrees.
Logs, scores, newest checkpoints and weights stay.
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
from dgn_engine.storage.runs.storage_limits import effective_limits
from dgn_engine.text.byte_counts import binary_size_in_words

SHARE = 1 / 8  # of a run's frames, and of its checkpoints before changes, to keep
ROOM = 0.9  # thin to this share of the limit, so that it does not happen every day


@dataclass(frozen=True)
class ThinningPlan:
    """A proposal for thinning.

    Attributes:
        total: Bytes of all runs.
        limit: Bytes they may take.
        folders: The runs to thin, the oldest first.
        freed: Approximate bytes freed.
    """

    total: int
    limit: int
    folders: tuple[Path, ...]
    freed: int

    @property
    def is_over_limit(self) -> bool:
        return self.total > self.limit

    @property
    def sentence(self) -> str:
        """A message if the runs take too much: how much, and what to do; also if nothing helps."""
        taken, limit = binary_size_in_words(self.total), binary_size_in_words(self.limit)
        words = f"Your recorded runs take up {taken}; the limit is {limit}."
        if not self.folders:
            return f"{words} None of them can be thinned out: delete some, or raise the limit."
        runs = "oldest run" if len(self.folders) == 1 else f"{len(self.folders)} oldest runs"
        freed = binary_size_in_words(self.freed)
        return f"{words} Thinning out the {runs} would free about {freed}."

    def describe_outcome(self, freed: int) -> str:
        """Describe the result of thinning; `freed`: bytes."""
        left = f"All runs now take up {binary_size_in_words(self.total - freed)}"
        left = f"{left} of {binary_size_in_words(self.limit)}."
        if not self.is_over_limit:
            return f"Nothing needs to be thinned out. {left}"
        if not self.folders:
            return self.sentence
        runs = "The oldest run was" if len(self.folders) == 1 else f"{len(self.folders)} runs were"
        words = f"{runs} thinned out, {binary_size_in_words(freed)} freed. {left}"
        if self.total - freed <= self.limit:
            return words
        return f"{words} That is still too much: delete some, or raise the limit."


def plan_thinning(root: Path) -> ThinningPlan:
    """Propose which runs to thin to get below their limit; none if they are.

    A run is left alone if it is being written, has a name or notes, has a checkpoint that the user
    keeps, or has nothing to spare.
    """
    entries = read_index(root)
    total, limit = sum(entry.bytes for entry in entries), effective_limits(root).all
    folders: list[Path] = []
    freed = 0
    if total > limit:
        for entry in entries:  # the oldest first
            spared = 0 if is_pinned(root, entry) else _estimate_freed(root / entry.name)
            if spared:
                folders.append(root / entry.name)
                freed += spared
            if total - freed <= ROOM * limit:
                break
    return ThinningPlan(total, limit, tuple(folders), freed)


def thin_folders(folders: Sequence[Path], report: Callable[[str], None] = lambda _: None) -> int:
    """Thin these runs and return the bytes freed; `report` gets a sentence about each."""
    freed = 0
    for path in folders:
        before = folder_layout.bytes_of(path)
        try:
            _thin_folder(path)
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


def _thin_folder(path: Path) -> None:
    """Thin a run, keeping the modification time of its log."""
    log = path / folder_layout.LOG
    touched = log.lstat()
    folder = RunFolder(path)
    try:
        folder.thin_record(SHARE)
    finally:
        folder.close()
    os.utime(log, ns=(touched.st_atime_ns, touched.st_mtime_ns), follow_symlinks=False)


def is_pinned(root: Path, entry: IndexEntry) -> bool:
    """Return whether a run is left alone: it is being written, or the user marked it."""
    folder = root / entry.name
    notes = read_notes(folder)
    if entry.status in ("running", "damaged") or notes.name or notes.notes:
        return True
    return any((folder / folder_layout.CHECKPOINTS).glob(f"*/{folder_layout.KEEP}"))


def _estimate_freed(folder: Path) -> int:
    """Estimate the bytes that thinning would free; 0 if it was already thinned."""
    frames = frame_files.scan_frames(folder / folder_layout.FRAMES)
    size = 0
    if len(frames) > 2 * frame_files.NEWEST:
        size = sum(frame.bytes for frame in frames)
    checkpoints = run_checkpoints.scan_checkpoints(
        folder / folder_layout.CHECKPOINTS, thorough=False
    )
    before = [
        checkpoint
        for checkpoint in checkpoints[: -run_checkpoints.NEWEST]
        if checkpoint.kept.startswith("before")
    ]
    if len(before) > 2:
        size += sum(folder_layout.bytes_of(checkpoint.path) for checkpoint in before)
    return int(size * (1 - SHARE))
