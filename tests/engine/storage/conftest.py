"""A place for files that nobody waits for, a disk that is recorded, a run without training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.storage.runs.run_folder import RunFolder
from tests.engine.storage.places import folder_in_memory
from tests.engine.storage.recorded_disk import RecordedDisk
from tests.engine.storage.runs.short_run import make_frame, make_snapshot, write_score


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as place:
        yield place


@pytest.fixture(scope="module")
def module_path() -> Iterator[Path]:
    """A folder for the files of all tests of a module."""
    with folder_in_memory() as place:
        yield place


@pytest.fixture
def disk(tmp_path: Path) -> RecordedDisk:
    """A folder whose changes are recorded: `with disk: …`."""
    root = tmp_path / "disk"
    root.mkdir()
    return RecordedDisk(root)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two lines, a frame and a checkpoint; nothing was trained."""
    folder = RunFolder.create(tmp_path / "runs" / "one", RunConfig())
    for step in (1, 2):
        write_score(folder, step)
    folder.add_frame(make_frame(2))
    folder.add_checkpoint(make_snapshot(2), "")
    folder.close()
    return folder.path
