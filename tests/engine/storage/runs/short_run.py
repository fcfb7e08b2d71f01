"""A short recorded run, and what of it has to be there after a crash at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import frame_files
from dgn_engine.storage.runs.manifest import Damage, find_damage
from dgn_engine.storage.runs.recorder import Recorder
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.recorded_disk import RecordedDisk

CONFIG = RunConfig()
NAME = "run"
CAP = 3000  # bytes of frames: the fourth one makes the first ones go


@dataclass(frozen=True)
class Promise:
    """What was finished: synced lines of the log, orders of checkpoints, serials of frames."""

    lines: int
    checkpoints: frozenset[int]
    frames: frozenset[int]

    def common(self, other: Promise) -> Promise:
        """What two moments have in common: a crash between them may not take it."""
        return Promise(
            min(self.lines, other.lines),
            self.checkpoints & other.checkpoints,
            self.frames & other.frames,
        )


class SteppedRecorder(Recorder):
    """Does its jobs when it is told, in the thread of the test."""

    def _run_thread(self) -> None:
        pass

    def work(self, tries: int = 0) -> None:
        """All that was asked; what had to wait is tried so often, until it is done."""
        while not self._jobs.empty():
            job = self._jobs.get()
            assert job is not None
            self._handle_job(job)
        for _ in range(tries):
            if not self.paused:
                return
            self.retry()
        assert not (tries and self.paused)

    def retry(self, last: bool = False) -> None:
        self._try_again(last)

    def end(self) -> bool:
        if self.paused:
            self.retry(last=True)
        self.folder.close()
        return not self.paused


def make_snapshot(step: int, value: float = math.nan, **state: Any) -> Snapshot:
    """Its weights say of which step it is, or have this value."""
    whole = {"format": 1, "step": step, "finished": False, "config": CONFIG.to_dict(), **state}
    number = float(step) if math.isnan(value) else value
    return Snapshot({"value.weights.0": torch.full((2, 2), number)}, whole)


def make_frame(step: int, value: float = math.nan) -> Frame:
    number = step if math.isnan(value) else value
    arrays = {"layer_0": np.full((2, 3), number, dtype=np.float32)}
    reading = Reading("gates", step, 0.1, 0.2, arrays, {"nu": math.nan})
    return Frame(1, step, step / 45, 0.0, None, {"gates": reading})


def write_score(folder: RunFolder, step: int, loss: float = math.nan) -> None:
    folder.write_note("Measured", to_plain(Measured(step, 0.0, loss, 0.5)))


def current_promise(folder: RunFolder, lines: int) -> Promise:
    return Promise(
        lines,
        frozenset(one.order for one in folder.checkpoints if one.is_intact),
        frozenset(one.serial for one in folder._frames),
    )


def record_run(disk: RecordedDisk, until: Callable[[RunFolder], bool] = lambda _: False) -> Path:
    """Scores, frames and checkpoints of nine steps, closed in between and gone on with; then the
    folder is closed. Each step is promised when it is done.
    """
    path = disk.root / "runs" / NAME
    folder = RunFolder.create(path, CONFIG, frames_cap=CAP)
    disk.promise(current_promise(folder, 0))
    folder = record_first_part(disk, folder)
    folder.close()
    disk.promise(current_promise(folder, folder.log.line_count))
    folder = RunFolder(path, frames_cap=CAP)
    folder.resume_from_newest({"step": 6})
    disk.promise(current_promise(folder, 7))
    for step in (7, 8, 9):
        write_score(folder, step)
        folder.add_frame(make_frame(step))
        disk.promise(current_promise(folder, 7))
    folder.add_checkpoint(make_snapshot(9), "final")
    disk.promise(current_promise(folder, folder.log.line_count))
    folder.close()
    disk.promise(current_promise(folder, folder.log.line_count))
    return path


def record_first_part(disk: RecordedDisk, folder: RunFolder) -> RunFolder:
    for step in (1, 2):
        write_score(folder, step)
    folder.add_frame(make_frame(2))
    disk.promise(current_promise(folder, 0))
    folder.add_checkpoint(make_snapshot(2), "before FL")
    disk.promise(current_promise(folder, folder.log.line_count))
    for step in (3, 4):
        write_score(folder, step)
        folder.add_checkpoint(make_snapshot(step), "")
        disk.promise(current_promise(folder, folder.log.line_count))
    write_score(folder, 5)
    folder.add_frame(make_frame(5))
    folder.sync()
    disk.promise(current_promise(folder, folder.log.line_count))
    write_score(folder, 6)
    folder.add_checkpoint(make_snapshot(6), "")
    disk.promise(current_promise(folder, folder.log.line_count))
    write_score(folder, 7)
    folder.add_frame(make_frame(7))
    folder.sync()
    disk.promise(current_promise(folder, folder.log.line_count))
    return folder


def find_harm(path: Path, ordered: bool = True) -> Iterator[Damage]:
    """What `verify` names that is lost; `ordered`: else unsynced lines of the log may be."""
    for damage in find_damage(path):
        if not damage.harmless and (ordered or damage.path != "log.jsonl"):
            yield damage


def assert_kept(path: Path, promise: Promise, ordered: bool) -> None:
    """Everything that was promised is there and sound, and each checkpoint has its lines."""
    assert list(find_harm(path, ordered)) == []
    reader = RunReader(path)
    seqs = {line.seq for line in reader.log.all_contents.lines}
    assert seqs.issuperset(range(promise.lines))
    assert {one.order for one in reader.checkpoints} >= promise.checkpoints
    assert {one.serial for one in reader.frames} >= promise.frames
    for one in reader.checkpoints:
        assert seqs.issuperset(range(one.lines)), f"{one.path.name} without its log"
    for stored in reader.frames:
        assert frame_files.check_frame(stored) == ""
        step = frame_files.read_frame(stored).readings["gates"].arrays["layer_0"][0, 0]
        assert step == stored.step


def assert_goes_on(path: Path, promise: Promise, ordered: bool) -> None:
    """The run opens, goes on from its newest checkpoint, and is whole afterwards."""
    folder = RunFolder(path, frames_cap=CAP)
    try:
        newest, held = folder.newest_checkpoint, folder.newest_snapshot()
        if promise.checkpoints:
            assert newest is not None
            assert newest.order >= max(promise.checkpoints)
        step = 0
        if held is not None:
            step = held.step
            assert torch.equal(held.tensors["value.weights.0"], torch.full((2, 2), float(step)))
        orders = {one.order for one in folder.checkpoints}
        serials = {one.serial for one in frame_files.scan_frames(path / "frames")}
        folder.resume_from_newest({"step": step})
        write_score(folder, step + 1)
        folder.add_frame(make_frame(step + 1))
        folder.add_checkpoint(make_snapshot(step + 1), "")
        assert folder.newest_checkpoint is not None
        assert folder.newest_checkpoint.order not in orders
        assert folder._frames[-1].serial not in serials
    finally:
        folder.close()
    assert list(find_harm(path, ordered)) == []
    reader = RunReader(path)
    steps = [event.step for event in reader.measured_events]
    assert steps == sorted(set(steps)), "a score of a part that was done again counts twice"
    assert steps[-1] == step + 1
    assert [one.step for one in reader.frames] == sorted({one.step for one in reader.frames})
    assert reader.checkpoints[-1].step == step + 1
