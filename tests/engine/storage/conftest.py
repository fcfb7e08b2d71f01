"""A place for files that nobody waits for, and a disk that is recorded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.storage.recorded_disk import RecordedDisk

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where there is such a place: a sync costs nothing there."""
    place = Path(tempfile.mkdtemp(prefix="dgn-disk-", dir=MEMORY if MEMORY.is_dir() else None))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def disk(memory: Path) -> RecordedDisk:
    """A folder whose changes are recorded: `with disk: …`."""
    root = memory / "disk"
    root.mkdir()
    return RecordedDisk(root)
