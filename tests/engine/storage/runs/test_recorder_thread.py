"""The recorder over a folder that is made up: order, pauses, what is held and what is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import RecordingPaused, RecordingResumed
from dgn_engine.storage.runs.recorder import Recorder
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training import recording
from dgn_engine.training.readings.watch_budget import WatchBudget

FULL = OSError(28, "No space left on device")
PAUSED = "Recording to /runs/a is paused: No space left on device."


class Folder:
    """A run's folder that fails as long as `trouble` is set; `done`: what was written."""

    path = Path("/runs/a")

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.trouble: Exception | None = None
        self.closed = False
        self.may = threading.Event()
        self.may.set()
        self.line_count = 7
        self.folder = self.log = self  # what a folder has of its own

    def _write(self, what: Any) -> None:
        assert self.may.wait(60)
        if self.trouble is not None:
            raise self.trouble
        self.done.append(what)

    def write_note(self, name: str, fields: Any) -> None:
        self._write((name, dict(fields).get("step")))

    def note_all(self, notes: list[tuple[str, Any]]) -> None:
        for name, fields in notes:
            self.write_note(name, fields)

    def add_frame(self, frame: Frame) -> None:
        self._write(("frame", frame.step))

    def add_checkpoint(self, snapshot: Snapshot, kept: str) -> None:
        self._write((kept, snapshot.step))

    def sync(self) -> None:
        self._write("sync")

    def recover_folder(self, last: bool = False) -> None:
        self._write("recover")

    def take_remarks(self) -> list[str]:
        return []

    def reason_unwritable(self, error: OSError) -> str:
        return error.strerror or str(error)

    def close(self) -> None:
        self.closed = True

    @property
    def written(self) -> list[Any]:
        return [one for one in self.done if one not in ("sync", "recover")]


@pytest.fixture
def folder() -> Folder:
    return Folder()


@pytest.fixture
def begin(folder: Folder) -> Iterator[Callable[[float], Recorder]]:
    """A recorder that tries again after so long; it is closed afterwards."""
    made: list[Recorder] = []

    def begun(retry: float = 1e9, **given: Any) -> Recorder:
        made.append(Recorder(folder, retry, **given))  # type: ignore[arg-type] # a made-up one
        return made[-1]

    yield begun
    folder.trouble = None
    folder.may.set()
    for one in made:
        one.close()
        assert folder.closed


def snapshot(step: int, value: float = 1.0) -> Snapshot:
    return Snapshot({"value.weights.0": torch.full((2,), value)}, {"step": step})


def frame(step: int) -> Frame:
    return Frame(1, step, 0.0, 0.0, None)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_all_is_written_in_order_and_a_mark_says_when(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin()
    recorder.write_note("Measured", {"step": 3})
    assert recorder.add_frame(frame(3))
    recorder.save_checkpoint(snapshot(3), "before FL")
    recorder.save_checkpoint(snapshot(4, float("nan")))  # not finite: the last finite one stays
    mark = recorder.mark_written()
    assert mark.done.wait(60)
    assert mark.lines == 7
    assert folder.written == [("Measured", 3), ("frame", 3), ("before FL", 3)]
    assert folder.done[-1] == "sync"
    assert not recorder.is_saving
    assert recorder.flush()
    assert recorder.take_events() == []
    assert recorder.close()
    assert not recorder.flush(0.01)
    recorder.write_note("Measured", {"step": 9})  # too late, and no harm
    assert len(folder.written) == 3
    assert recorder._thread.daemon


def test_scores_wait_for_the_next_frame_or_checkpoint_and_no_longer(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin()
    recorder.write_note("Measured", {"step": 1}, soon=False)
    recorder.add_frame(frame(1))
    recorder.write_note("Measured", {"step": 2}, soon=False)
    recorder.save_checkpoint(snapshot(2))
    recorder.write_note("Measured", {"step": 3}, soon=False)
    assert recorder.mark_written().done.wait(60)
    one, two, three = (("Measured", step) for step in (1, 2, 3))
    assert folder.written == [one, ("frame", 1), two, ("", 2), three]


def test_a_checkpoint_is_being_saved_until_it_is_on_disk(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin()
    folder.may.clear()
    recorder.save_checkpoint(snapshot(3))
    assert recorder.is_saving
    folder.may.set()
    assert recorder.flush()
    assert not recorder.is_saving


def test_frames_that_the_disk_cannot_follow_are_dropped(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin()
    folder.may.clear()
    recorder.write_note("Measured", {"step": 1})  # the disk is busy with it
    taken = [recorder.add_frame(frame(step)) for step in range(6)]
    assert taken == [True] * 4 + [False] * 2
    folder.may.set()
    assert recorder.flush()
    assert [one[1] for one in folder.written[1:]] == [0, 1, 2, 3]
    assert recorder.add_frame(frame(9), patience=1.0)


def test_what_comes_while_the_disk_is_full_is_held_and_written_when_it_is_not(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin(0.001)
    folder.trouble = FULL
    recorder.write_note("Measured", {"step": 5})
    until(lambda: recorder.paused)
    assert recorder.paused == PAUSED
    assert recorder.take_events() == [RecordingPaused(PAUSED, 5)]
    assert not recorder.add_frame(frame(6))
    assert not recorder.flush(1.0)
    mark = recorder.mark_written()
    assert mark.done.wait(60)
    assert mark.lines == -1
    for step in (6, 7):
        recorder.write_note("Measured", {"step": step})
        recorder.save_checkpoint(snapshot(step), f"at {step}")
    assert not recorder.is_saving  # nobody waits for it
    recorder.write_note("Other", {})
    assert recorder.mark_written().done.wait(60)
    folder.trouble = None
    until(lambda: not recorder.paused)
    assert folder.written == [
        ("RecordingPaused", 5),
        ("Measured", 5),
        ("Measured", 6),
        ("Measured", 7),
        ("at 7", 7),
        ("Other", None),
        ("RecordingResumed", 7),
    ]
    assert recorder.take_events() == [RecordingResumed(7, 0)]
    recorder.write_note("Measured", {"step": 8})
    assert recorder.flush()
    assert folder.written[-1] == ("Measured", 8)


def test_the_oldest_lines_go_where_too_many_are_held_and_they_are_counted(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    """Twice: what was lost the first time is not lost again."""
    recorder = begin(0.001, held_lines=3)
    folder.trouble = FULL
    for step in range(1, 6):
        recorder.write_note("Measured", {"step": step})
    recorder.save_checkpoint(snapshot(6), "kept")
    recorder.write_note("Measured", {"step": 7})
    assert recorder.mark_written().done.wait(60)
    folder.trouble = None
    until(lambda: not recorder.paused)
    assert folder.written == [
        ("RecordingPaused", 1),
        ("Measured", 5),
        ("kept", 6),
        ("Measured", 7),
        ("RecordingResumed", 7),
    ]
    folder.trouble = FULL
    recorder.write_note("Measured", {"step": 9})
    assert recorder.mark_written().done.wait(60)
    folder.trouble = None
    assert recorder.close()
    lost = [one.lost for one in recorder.take_events() if isinstance(one, RecordingResumed)]
    assert lost == [4, 0]


def test_a_fault_of_ours_ends_the_record_and_is_told(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin()
    folder.trouble = ValueError("a fault made for the test")
    recorder.save_checkpoint(snapshot(3))
    until(lambda: folder.closed)
    until(lambda: recorder._ended.is_set())
    events: list[Event] = recorder.take_events()
    assert isinstance(events[0], Failed)
    assert events[0].what == "The recorder failed: a fault made for the test."
    assert "Traceback" in events[0].traceback
    assert not recorder.is_saving
    assert not recorder.close()


def test_the_log_is_synced_while_nothing_comes(
    folder: Folder, begin: Callable[..., Recorder]
) -> None:
    recorder = begin(0.001)
    until(lambda: "sync" in folder.done)
    folder.trouble = FULL
    until(lambda: recorder.paused)
    assert recorder.take_events() == [RecordingPaused(PAUSED, 0)]


@pytest.mark.parametrize(
    ("spent", "every"), [(0.0, 1.0), (0.005, 1.0), (0.02, 3.0), (9.0, recording.FRAME_LATEST)]
)
def test_frames_are_further_apart_where_writing_takes_more_than_its_share(
    spent: float, every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a budget of 5 % a fifth is the recorder's, whose seconds count half as much again:
    0.02 s are those of 3 s."""
    clock = SimpleNamespace(monotonic=lambda: 1000.0 + clock.now, now=0.0)
    monkeypatch.setattr(recording, "time", clock)
    run = SimpleNamespace(budget=WatchBudget(share=0.05, busy=lambda: 0.0))
    one = recording.Recording.__new__(recording.Recording)
    taken: list[float] = []
    recorder = SimpleNamespace(
        busy=0.0, add_frame=lambda frame, patience: taken.append(clock.now) or True
    )
    vars(one).update(_run=run, _recorder=recorder, _framed=1000.0, _framed_at=0.0, _frame_due=False)
    recorder.busy = spent
    while not taken:
        clock.now += 0.25
        one.on_frame(None)  # type: ignore[arg-type]  # it is only passed on
    assert taken == [pytest.approx(every, abs=0.25)]
