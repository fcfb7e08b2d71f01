"""Free memory is what the machine and the limits of control groups leave, whichever is less."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dgn_engine.storage import free_memory as module
from dgn_engine.storage.free_memory import free_memory


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /proc and /sys/fs/cgroup: 8 GiB are free, there is no group."""
    for name, place in (("_MACHINE", "meminfo"), ("_MEMBERSHIP", "cgroup"), ("_GROUPS", "groups")):
        monkeypatch.setattr(module, name, tmp_path / place)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8388608 kB\n")
    return tmp_path


def group(folder: Path, limit: str, used: int, files: int, version: int = 2) -> None:
    names = ("max", "current", "inactive_file")
    if version == 1:
        names = ("limit_in_bytes", "usage_in_bytes", "total_inactive_file")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
    (folder / f"memory.{names[1]}").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {files}\n")


def test_without_a_group_the_machine_says_it(system: Path) -> None:
    assert free_memory() == 8 << 30
    (system / "cgroup").write_text("0::/\n")
    assert free_memory() == 8 << 30


def test_a_machine_that_does_not_say_it_has_enough(system: Path) -> None:
    (system / "meminfo").unlink()
    assert free_memory() == math.inf


def test_the_limit_of_a_group_counts_less_what_it_uses_and_may_drop(system: Path) -> None:
    (system / "cgroup").write_text("0::/user/job\n")
    group(system / "groups/user/job", str(4 << 30), 3 << 30, 1 << 30)
    assert free_memory() == 2 << 30
    group(system / "groups/user/job", "max", 3 << 30, 1 << 30)
    assert free_memory() == 8 << 30


def test_the_limit_of_a_group_around_it_counts(system: Path) -> None:
    (system / "cgroup").write_text("0::/user/job\n")
    group(system / "groups/user/job", "max", 0, 0)
    group(system / "groups/user", str(1 << 30), 0, 0)
    assert free_memory() == 1 << 30


def test_groups_of_version_1_count_also_where_the_path_is_the_hosts(system: Path) -> None:
    (system / "cgroup").write_text("5:cpu:/a\n4:memory:/elsewhere/a\n0::/\n")
    group(system / "groups/memory", str(3 << 30), 2 << 30, 0, version=1)
    assert free_memory() == 1 << 30
