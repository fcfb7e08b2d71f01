"""A place for files that nobody waits for, a disk that is recorded, a run without training."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
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


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two lines, a frame and a checkpoint; nothing was trained."""
    folder = RunFolder.create(tmp_path / "runs" / "one", RunConfig())
    for step in (1, 2):
        folder.note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
    folder.add_frame(Frame(1, 2, 0.1, 0.0, None, {"a": Reading("a", 2, 0, 0, {"x": np.ones(3)})}))
    state = {"format": 1, "step": 2, "finished": False, "config": RunConfig().to_dict()}
    folder.checkpoint(Snapshot({"value.weights.0": torch.ones(3)}, state), "")
    folder.close()
    return folder.path
