"""What was read at any recorded step: the last frame at or before it, or a sentence."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import numpy as np

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.storage.runs import frame_files
from dgn_engine.storage.runs.recorded_steps import RecordedSteps, readings_at, size_of
from tests.refusals import refused


def _frame(step: int, values: float) -> Frame:
    arrays = {"layer_0": np.full((20, 10), values, dtype=np.float64)}
    return Frame(1, step, 0.0, 0.0, None, {"gates": Reading("gates", step, arrays=arrays)})


def _recorded(folder: Path, *steps: int) -> list[frame_files.StoredFrame]:
    return [
        frame_files.write(folder / "frames", _frame(step, float(place)), place)
        for place, step in enumerate(steps)
    ]


def _value(frame: Frame | None) -> float:
    assert frame is not None
    return float(frame.readings["gates"].arrays["layer_0"][0, 0])


def test_a_step_shows_the_last_frame_at_or_before_it(tmp_path: Path) -> None:
    _recorded(tmp_path, 0, 10, 10, 30)
    steps = RecordedSteps(tmp_path)
    assert steps.steps == (0, 10, 30)
    assert [_value(steps.at(step)) for step in (0, 9, 10, 29, 30, 10**9)] == [0, 0, 2, 2, 3, 3]
    assert (steps.nearest(29), steps.at(-1)) == (10, None)


def test_what_came_and_went_since_is_seen_when_it_is_asked_for(tmp_path: Path) -> None:
    steps = RecordedSteps(tmp_path)
    assert (steps.steps, steps.at(5)) == ((), None)
    stored = _recorded(tmp_path, 0, 10, 20)
    assert steps.renew()
    assert not steps.renew()
    for number, left in ((1, (0, 20)), (2, (0,))):
        os.utime(tmp_path / "frames", (1000, 1000))  # a clock too coarse to see what follows
        steps.renew()
        stored[number].path.unlink()  # thinned out, and not yet looked at again
        os.utime(tmp_path / "frames", (1000, 1000))
        assert _value(steps.at(10 * number + 5)) == 0.0
        assert steps.steps == left


def test_a_folder_that_was_removed_is_not_one_in_which_nothing_was_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    _recorded(folder, 0, 10)
    steps = RecordedSteps(folder)
    steps.at(10)
    rmtree(folder)
    for look in (lambda: steps.at(5), steps.renew, lambda: RecordedSteps(folder)):
        with refused("no-folder"):
            look()
    assert steps.steps == (0, 10)  # one can go on where it is, and the slider keeps its marks


def test_few_bytes_of_frames_are_held_and_the_newest_read_ones(tmp_path: Path) -> None:
    _recorded(tmp_path, *range(6))
    steps = RecordedSteps(tmp_path, held=2 * size_of(_frame(0, 0.0)))
    frames = [steps.at(step) for step in range(6)]
    assert steps.at(5) is frames[5]
    assert steps.at(4) is frames[4]
    assert steps.at(0) is not frames[0]
    assert steps.at(4) is frames[4]  # it was read after the other one
    assert steps.at(5) is not frames[5]


def test_a_damaged_frame_is_refused_in_a_sentence(tmp_path: Path) -> None:
    stored = _recorded(tmp_path, 3)[0]
    Path(str(stored.path)).write_bytes(b"no tensors")
    with refused("damaged"):
        RecordedSteps(tmp_path).at(3)


def test_what_was_not_recorded_says_so_and_is_not_taken_from_another_step() -> None:
    frame = _frame(40, 1.0)
    found = readings_at(frame, 45, ["gates", "npk"])
    assert found["gates"] is frame.readings["gates"]
    assert "40" in found["npk"].absent
    assert (found["npk"].step, dict(found["npk"].arrays)) == (40, {})
    assert "3" in readings_at(None, 3, ["npk"])["npk"].absent


def test_a_frame_says_which_network_it_is_of(tmp_path: Path) -> None:
    written = replace(_frame(7, 1.0), regime="DLN", wiring=(1, 0))
    frame_files.write(tmp_path / "frames", written, 0)
    read = RecordedSteps(tmp_path).at(7)
    assert read is not None
    assert (read.regime, read.wiring) == ("DLN", (1, 0))
