"""The table of faults, printed at the end of `make faults`; the outcome of each test is kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.reference_runs import RUNS, Reference, train_reference
from tests.faults.tables import Table, append_rows, append_table
from tests.faults.victims import warm_up


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of each test of `make faults`, so that a failure is in its report too."""
    report = yield
    if item.get_closest_marker("faults") and (report.when == "call" or not report.passed):
        reason = call.excinfo.exconly().splitlines()[0][:200] if call.excinfo else ""
        row = {"test": item.nodeid, "outcome": report.outcome, "reason": reason}
        append_rows("tests", [{**row, "seconds": round(report.duration, 1)}])
    return report


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """SIGINT ends the children as it should, also where a shell began all of this with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    found.show()
    append_table(found)


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
    warm_up()  # else the first would take longest
    found = {}
    for name, arguments in RUNS.items():
        found[name] = train_reference(arguments, root / name.replace(", ", "-"))
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
