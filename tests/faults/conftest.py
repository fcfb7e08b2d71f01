"""The table of faults: one for all of `make faults`, printed at its end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.storage.runs.run_reader import RunReader
from tests.faults.reference_runs import RUNS, Reference
from tests.faults.tables import Table, keep_table
from tests.faults.victims import dgn


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    found.show()
    keep_table(found)


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """In memory where there is such a place: a kill does not care, and waiting would be all."""
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reference]:
    root = tmp_path_factory.mktemp("undisturbed")
    load_examples(DataConfig())  # what it imports is then there in every child
    found = {}
    for name, arguments in RUNS.items():
        path = root / name.replace(", ", "-")
        began = time.monotonic()
        assert dgn(*arguments, "--out", path).wait() == 0
        seconds = time.monotonic() - began
        found[name] = Reference(arguments, path, seconds, RunReader(path).step)
    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KiB; only root can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)
