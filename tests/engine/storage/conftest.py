"""A place for files that nobody waits for, a disk that is recorded, a run without training."""

from __future__ import annotations

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
from tests.engine.storage.places import folder_in_memory
from tests.engine.storage.recorded_disk import RecordedDisk


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
        folder.note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
    folder.add_frame(Frame(1, 2, 0.1, 0.0, None, {"a": Reading("a", 2, 0, 0, {"x": np.ones(3)})}))
    state = {"format": 1, "step": 2, "finished": False, "config": RunConfig().to_dict()}
    folder.checkpoint(Snapshot({"value.weights.0": torch.ones(3)}, state), "")
    folder.close()
    return folder.path
