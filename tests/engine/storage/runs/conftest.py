"""Runs on a recorded disk: quick, and always the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.numpy

from dgn_engine.storage.checkpoints import checkpoint_reader
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import log
from tests.engine.storage.recorded_disk import RecordedDisk


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedDisk:
    """A folder whose changes are recorded: `with disk: …`.

    No line is synced by the clock, so that more may be missing, always the same; and no child
    reads the tensors of a checkpoint, because it is slow, and tested elsewhere.
    """

    def read(path: FilePath) -> SimpleNamespace:
        return SimpleNamespace(arrays=safetensors.numpy.load(read_regular(path)))

    monkeypatch.setattr(log, "SYNC_EVERY", float("inf"))
    monkeypatch.setattr(checkpoint_reader, "read_tensors", read)
    root = tmp_path / "disk"
    root.mkdir()
    return RecordedDisk(root)
