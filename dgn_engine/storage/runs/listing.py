"""The user's runs as the window lists them."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.protocol.events import RecordedRun, RunsListed
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.index import IndexEntry, runs


def listed(root: str) -> RunsListed:
    """Every run below a folder, the one last written to first; none where there is no folder."""
    if not root:
        return RunsListed("", ())
    found = [_recorded(Path(root) / entry.name, entry) for entry in runs(Path(root))]
    return RunsListed(root, tuple(sorted(found, key=lambda one: one.touched, reverse=True)))


def _recorded(folder: Path, entry: IndexEntry) -> RecordedRun:
    return RecordedRun(
        folder=str(folder),
        name=entry.name,
        status=entry.status,
        step=entry.step,
        total_steps=entry.total_steps,
        regime=entry.regime,
        net=entry.net,
        data=entry.data,
        seed=entry.seed,
        best=entry.best,
        touched=_touched(folder),
        resumable=any((folder / folder_layout.CHECKPOINTS).glob("[0-9]*")),
    )


def _touched(folder: Path) -> float:
    for name in (folder_layout.LOG, folder_layout.RUN):
        try:
            return (folder / name).stat().st_mtime
        except OSError:
            continue
    return 0.0
