"""Disks that fail below the program, and places that are missing: `/tmp`, `/dev/shm`, `HOME`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dgn_engine.storage.runs.run_reader import RunReader
from tests.faults.failing_disk import compiled
from tests.faults.reference_runs import (
    Reference,
    assert_equal,
    assert_sound,
    continue_run,
    fill_disk,
)
from tests.faults.tables import Table
from tests.faults.victims import Victim, environment_with_path, fork_dgn

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

STRIDE = int(os.environ.get("FAULT_STRIDE", "1"))  # every n-th write fails
NEW_MOUNTS = 0x00020000  # CLONE_NEWNS: mounts of this process are its own
TINY = ["--width", "8", "--depth", "3", "--train-limit", "64", "--epochs", "2", "--quiet"]


@pytest.mark.parametrize("lasts", ["once", "from then on"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_every_write_of_a_run_fails_in_turn(
    quick_disk: Path, table: Table, error: int, lasts: str
) -> None:
    row = table.row(f"{errno.errorcode[error]} at each write of a run in turn, {lasts}")
    shim = compiled(quick_disk)
    if shim is None:
        pytest.skip("there is no C compiler here")
    place = quick_disk / "runs"
    place.mkdir()
    child = [sys.executable, "-m", "tests.faults.failing_runs", str(place), str(error), str(STRIDE)]
    child += ["--on"] if lasts == "from then on" else []
    environment = environment_with_path(LD_PRELOAD=str(shim))
    done = subprocess.run(child, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    row.injected = found["injected"]
    row.survived = row.injected - len(found["wrong"])
    codes = ", ".join(f"{count} with {code}" for code, count in sorted(found["codes"].items()))
    row.remark = f"ended {codes}; each goes on to the same weights and scores"
    assert found["wrong"] == []
    assert row.injected > 0


@pytest.fixture
def loop_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 32 MiB in a file; only root can mount one."""
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, place]):
        if shutil.which(command[0]) is None:  # type: ignore[type-var]
            pytest.skip(f"there is no {command[0]} here")
        if subprocess.run(command, capture_output=True, check=False).returncode:  # type: ignore[arg-type]
            pytest.skip("a file cannot be mounted as a file system here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_becomes_read_only_in_mid_run(
    loop_disk: Path, references: dict[str, Reference], table: Table
) -> None:
    """As ext4 does after an error: what was not on disk by then is lost, nothing can be written."""
    row = table.row("ext4 turns read-only in mid-run")
    reference = references["SGD, frames"]
    path = loop_disk / "run"
    row.injected += 1
    victim = fork_dgn(*reference.arguments, "--out", path)
    victim.await_step(reference.steps // 3)
    at = victim.last_step
    abort = ["mount", "-o", "remount,abort", loop_disk]
    if subprocess.run(abort, capture_output=True, check=False).returncode:
        victim.wait()
        pytest.skip("this file system cannot be made to fail")
    code = victim.wait()
    assert code == 4  # trained to its end, but not all of it is on disk
    subprocess.run(["umount", loop_disk], check=True)
    subprocess.run(["e2fsck", "-fy", loop_disk.parent / "image"], capture_output=True, check=False)
    subprocess.run(["mount", "-o", "loop", loop_disk.parent / "image", loop_disk], check=True)
    assert_sound(path)
    newest = RunReader(path).checkpoints[-1:]
    row.lost = max(0, at - (newest[0].step if newest else 0))
    assert continue_run(path, reference).wait() == 0
    assert_equal(path, reference.path)
    row.survived += 1


def test_a_clock_that_jumps_both_ways(
    quick_disk: Path, references: dict[str, Reference], table: Table
) -> None:
    """At every look by up to a year, and once back by a year while a killed run goes on."""
    row = table.row("the clock jumps by up to a year, both ways, at every look")
    reference = references["FL"]
    path, killed = quick_disk / "run", quick_disk / "killed"
    victim = continue_run(killed, reference)
    victim.await_step(reference.steps // 3)
    victim.kill()
    victim.wait()
    chance, now = random.Random(5), time.time

    def work(clock: Callable[[], float], *words: str) -> int:
        from dgn_engine.cli import main

        time.time = clock
        return main([*words])

    jumping = partial(work, lambda: now() + chance.uniform(-365, 365) * 86_400)
    before = partial(work, lambda: now() - 365 * 86_400)
    for one, act in (
        (path, partial(jumping, *reference.arguments, "--out", str(path))),
        (killed, partial(before, "train", "--resume", str(killed), "--quiet")),
    ):
        row.injected += 1
        assert Victim(act).wait() == 0
        for file in one.rglob("*"):
            os.utime(file, (1.0, 1.0))
        assert_equal(one, reference.path)
        row.survived += 1


def in_own_mounts(prepare: Callable[[], None], *arguments: str) -> Victim:
    """`dgn …` in a child that sees mounts of its own; 77 where it may have none."""

    def work() -> int:
        from dgn_engine.cli import main

        if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS):
            return 77
        if subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode:
            return 77
        prepare()
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            return main(list(arguments))

    return Victim(work)


def tmpfs(place: str, *options: str) -> None:
    mounted = ["mount", "-t", "tmpfs", "-o", ",".join(("size=64k", *options)), "tmpfs", place]
    subprocess.run(mounted, check=True)


def survived(victim: Victim, codes: tuple[int, ...]) -> int:
    code = victim.wait()
    if code == 77:
        pytest.skip("a process may not have mounts of its own here")
    assert code in codes, code
    return code


def test_a_full_temporary_folder(tmp_path: Path, table: Table) -> None:
    row = table.row("/tmp full")
    place = tmp_path / "full"
    place.mkdir()

    def prepare() -> None:
        tmpfs(str(place))
        fill_disk(place / "ballast")
        os.environ["TMPDIR"], tempfile.tempdir = str(place), None

    run, session = tmp_path / "run", tmp_path / "run.dgn"
    row.injected += 3
    survived(in_own_mounts(prepare, "train", *TINY, "--out", str(run)), (0,))
    assert_sound(run)
    survived(in_own_mounts(prepare, "runs", "export", str(run), str(session)), (0,))
    survived(in_own_mounts(prepare, "runs", "show", str(session)), (0, 2))
    row.survived += 3
    row.remark = "a run trains and is exported; a session that cannot be unpacked is refused"


def test_without_shared_memory(tmp_path: Path, table: Table) -> None:
    row = table.row("no /dev/shm")

    def prepare() -> None:
        tmpfs("/dev/shm", "ro")

    row.injected += 2
    survived(in_own_mounts(prepare, "train", *TINY, "--out", str(tmp_path / "run")), (0,))
    assert_sound(tmp_path / "run")
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        '[base.data]\nname = "digits"\ntrain_limit = 64\n[base.training]\nepochs = 1\n'
        "[grid]\nseed = [0, 1]\n",
        "utf-8",
    )
    words = ("sweep", str(sweep), "--out", str(tmp_path / "sweep"))
    victim = in_own_mounts(prepare, *words, "--executor", "processes", "--workers", "2")
    row.remark = f"a sweep in two processes ends with {survived(victim, (0, 2))}"
    row.survived += 2


def test_a_home_that_cannot_be_written(tmp_path: Path, table: Table) -> None:
    row = table.row("HOME not writable")
    home = tmp_path / "home"
    home.mkdir()

    def prepare() -> None:
        tmpfs(str(home), "ro")
        os.environ["HOME"] = str(home)
        for name in ("DGN_RUNS_ROOT", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)

    out = str(tmp_path / "run")
    row.injected += 4
    survived(in_own_mounts(prepare, "train", *TINY, "--out", out), (0,))
    assert_sound(tmp_path / "run")
    survived(in_own_mounts(prepare, "train", *TINY), (0, 2))
    survived(in_own_mounts(prepare, "runs", "list"), (0,))
    survived(in_own_mounts(prepare, "runs", "limits", "--run", "1GiB"), (2,))
    row.survived += 4
    row.remark = "with --out a run trains; where its folder cannot be made, one sentence says so"
