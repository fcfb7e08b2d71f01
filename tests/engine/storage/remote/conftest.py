"""A recorded run that is served: its frames and its notes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dgn_engine as dgn
from dgn_engine.storage.runs import folder_layout as layout
from tests.engine.attachment.loops import examples, mlp, train


def record_watched_run(folder: Path, steps: int) -> Path:
    network = mlp()
    with dgn.watch(network, probe=examples(), out=folder, probes=("gates",)) as w:
        train(network, steps, w.step)
    return folder


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs, the second has the longer log; the first has notes."""
    root = tmp_path_factory.mktemp("both")
    runs = record_watched_run(root / "run", 3), record_watched_run(root / "two", 9)
    (runs[0] / layout.NOTES).write_text("secret")
    return runs


@pytest.fixture
def recorded(two_runs: tuple[Path, Path]) -> Path:
    return two_runs[0]


@pytest.fixture
def served(recorded: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(recorded, tmp_path / "served" / "run"))
