"""Folders of runs that others attack, move, remove or want to write too, with real processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event, Refused
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.storage.lock import find_lock_holder
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.session_file.session_writer import save_session
from tests.faults.reference_runs import assert_sound
from tests.faults.tables import Table
from tests.faults.victims import environment_with_path

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
ATTACKED = 12.0  # seconds for each act
RUN = ("--data", "digits", "--net", "fc", "--width", "8", "--depth", "3")
EVER = ("--epochs", "1000000", "--quiet")


def started(*words: str | Path) -> subprocess.Popen[str]:
    """`dgn …` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dgn_engine.cli", *map(str, words)],
        env=environment_with_path(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], code: int) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, (out, err)
    return err


@pytest.fixture
def training(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A training that has written a checkpoint, and its folder."""
    path = tmp_path / "runs" / "one"
    often = ("--checkpoint-every", "0.2", "--record", "gates")
    process = started("train", *RUN, *EVER, "--out", path, *often)
    try:
        await_checkpoint(path, process)
        yield process, path
    finally:
        process.kill()
        process.communicate()


def await_checkpoint(path: Path, process: subprocess.Popen[str], beyond: int = 0) -> int:
    """Until there is one of a later step; its step."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for one in sorted((path / folder_layout.CHECKPOINTS).glob("[0-9]*")):
            if int(one.name[:9]) > beyond:
                return int(one.name[:9])
        time.sleep(0.02)
    raise AssertionError("no checkpoint came")


def stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    return said(process, 130)


def test_a_second_writer_gets_one_sentence_and_changes_nothing(
    training: tuple[subprocess.Popen[str], Path], tmp_path: Path, table: Table
) -> None:
    """Another `dgn train`, the engine of a window in a process, `repair`, `delete`."""
    process, path = training
    row = table.row("a second writer of a run")
    written = re.compile(rf"written by process {process.pid} on ")
    for words in (("train", "--resume", path), ("runs", "repair", path)):
        sentence = said(started(*words), 2)
        assert written.search(sentence), sentence
        assert sentence.count("\n") == 1
        row.injected += 1
    assert "being written" in said(started("runs", "delete", "--yes", path), 2)
    for _ in range(2):
        session = ProcessSession(runs_root=str(tmp_path / "runs"))
        session.start()
        try:
            session.send(ContinueRun(str(path)))
            deadline = time.monotonic() + 600
            heard: list[Event] = []
            while not (refused := [e for e in heard if isinstance(e, Refused)]):
                assert time.monotonic() < deadline, heard
                heard += session.drain_events()
                time.sleep(0.01)
            assert any(written.search(str(one)) for one in refused), refused
        finally:
            assert session.close()
        row.injected += 1
    owner = find_lock_holder(path / folder_layout.LOCK)
    assert owner is not None
    assert owner.pid == process.pid
    await_checkpoint(path, process, RunReader(path).checkpoints[-1].step)
    stop(process)
    assert_sound(path)
    row.survived = row.injected


def test_a_training_whose_folder_is_renamed_ends_in_the_new_one(
    training: tuple[subprocess.Popen[str], Path], table: Table
) -> None:
    process, path = training
    row = table.row("a folder renamed in mid-run")
    moved = path.with_name("two")
    path.rename(moved)
    row.injected += 1
    await_checkpoint(moved, process, RunReader(moved).checkpoints[-1].step)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130, (out, err)
    assert "was moved to" in out + err
    assert not path.exists()
    assert_sound(moved)
    reader = RunReader(moved)
    assert "RecordingMended" in [line.name for line in reader.log.lines]
    assert reader.status == "stopped"
    assert (moved / folder_layout.WEIGHTS).exists()
    row.survived += 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_training_whose_folder_is_removed_is_saved_beside_it_and_into_no_other(
    replaced: bool, training: tuple[subprocess.Popen[str], Path], table: Table
) -> None:
    process, path = training
    row = table.row("a folder removed in mid-run" + (", and replaced" if replaced else ""))
    while path.exists():  # a file may be written while it is removed
        shutil.rmtree(path, ignore_errors=True)
    row.injected += 1
    if replaced:
        path.mkdir()
        (path / "mine").write_text("precious")
    time.sleep(3.0)  # it is looked at every second
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130, (out, err)
    assert "was removed" in out + err
    assert "Traceback" not in out + err
    saved = path.with_name(f"{path.name}-recovered")
    assert str(saved) in out + err
    assert [one.name for one in path.parent.iterdir() if one != saved] == [path.name] * replaced
    assert [one.name for one in path.glob("*")] == ["mine"] * replaced
    assert_sound(saved)
    reader = RunReader(saved)
    assert reader.status == "stopped"
    assert reader.checkpoints[-1].step == reader.step
    assert (saved / folder_layout.WEIGHTS).exists()
    row.survived += 1


# Links that are swapped in while the folder is used.


class Attacker:
    """A process that puts links in the place of inner folders and takes them away again, as fast
    as it can."""

    def __init__(self, run: Path, elsewhere: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                while True:
                    for name in (*folder_layout.FOLDERS, folder_layout.LOG, folder_layout.RUN):
                        swap(run / name, elsewhere / name)
            finally:
                os._exit(1)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def swap(path: Path, target: Path) -> None:
    away = path.with_name(f".{path.name}.away")
    with contextlib.suppress(OSError):
        path.rename(away)
    with contextlib.suppress(OSError):
        path.symlink_to(target)
    with contextlib.suppress(OSError):
        if path.is_symlink():
            path.unlink()
    with contextlib.suppress(OSError):
        away.rename(path)


def snapshot(step: int) -> Snapshot:
    state = {"format": 1, "step": step, "finished": False, "config": RunConfig().to_dict()}
    return Snapshot({"value.weights.0": torch.ones(3)}, state)


def frame(step: int) -> Frame:
    return Frame(1, step, 0.1, 0.0, None, {"a": Reading("a", step, 0, 0, {"x": np.ones(3)})})


def made(path: Path) -> Path:
    """A run with damage to repair."""
    folder = RunFolder.create(path, RunConfig(), frames_cap=2000)
    for step in (1, 2, 3):
        folder.add_frame(frame(step))
        folder.add_checkpoint(snapshot(step), "")
    folder.close()
    for broken in (*path.glob("frames/*"), *path.glob("checkpoints/*/tensors.safetensors")):
        broken.write_bytes(b"broken")
        break
    return path


def go_on(path: Path) -> None:
    folder = RunFolder(path, frames_cap=2000)
    try:
        folder.resume_from_newest({"step": 1})
        for step in (4, 5, 6):
            for act in (lambda s: folder.add_frame(frame(s)), note(folder), store(folder)):
                with contextlib.suppress(OSError):
                    act(step)
    finally:
        folder.close()


def note(folder: RunFolder) -> Callable[[int], None]:
    return lambda step: folder.write_note("Measured", {"step": step})


def store(folder: RunFolder) -> Callable[[int], None]:
    return lambda step: folder.add_checkpoint(snapshot(step), "")


def read_all(path: Path) -> None:
    reader = RunReader(path)
    assert b"precious" not in repr((reader.info, reader.log.lines)).encode()
    for one in reader.frames:
        with contextlib.suppress(UserError):
            assert "precious" not in repr(reader.frame_of_step(one.step))
    save_session(path, path.parent / "x.dgn")
    assert b"precious" not in (path.parent / "x.dgn").read_bytes()


ACTS: dict[str, Callable[[Path], object]] = {
    "repair": repair_run_folder,
    "resume": go_on,
    "verify": find_damage,
    "read and export": read_all,
    "delete": delete_run,
}


def place_elsewhere(place: Path) -> dict[str, bytes]:
    """What the links name: folders and files as in a run, each of them precious."""
    made(place)
    (place / "weights").mkdir()
    (place / "damaged").mkdir()
    for path in [place, *place.rglob("*")]:
        if path.is_dir():
            (path / ".x.part").write_text("precious")
            (path / "precious").write_text("precious")
    return contents(place)


def contents(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("act", ACTS)
def test_links_that_come_and_go_are_never_followed(act: str, tmp_path: Path, table: Table) -> None:
    row = table.row(f"links swapped in: {act}")
    elsewhere = tmp_path / "elsewhere"
    before = place_elsewhere(elsewhere)
    end = time.monotonic() + ATTACKED
    while time.monotonic() < end:
        run = made(tmp_path / "runs" / "one")
        attacker = Attacker(run, elsewhere)
        try:
            for _ in range(5):
                with contextlib.suppress(UserError, OSError):
                    ACTS[act](run)
                row.injected += 1
        finally:
            attacker.stop()
        assert contents(elsewhere) == before
        shutil.rmtree(tmp_path / "runs")
        row.survived += 5
