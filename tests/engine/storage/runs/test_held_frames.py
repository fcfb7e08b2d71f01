"""Frames in memory are those that a folder would have, and thin out as it does."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.storage.runs import frame_files
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps


def frame(step: int) -> Frame:
    numbers = np.random.default_rng(step)
    kernel = numbers.standard_normal((40, 40)).astype(np.float32)
    arrays = {
        "bits": numbers.integers(0, 2, (40, 30)).astype(np.uint8),
        "soft": numbers.random((40, 30)).astype(np.float32),
        "kernel": kernel + kernel.T,
        "few": numbers.standard_normal(7),
    }
    reading = Reading("gates", step, scalars={"open": step / 7}, arrays=arrays)
    return Frame(1, step, 0.0, 0.0, None, {"gates": reading}, regime="FR-II", wiring=(1, 0))


def test_a_frame_in_memory_is_the_frame_that_a_folder_gives_back(tmp_path: Path) -> None:
    held = HeldFrames()
    for serial, step in enumerate((0, 10, 25)):
        frame_files.write(tmp_path / "frames", frame(step), serial)
        held.add(frame(step))
    recorded = RecordedSteps(tmp_path)
    assert held.steps == recorded.steps == (0, 10, 25)
    for step in (0, 9, 10, 24, 25, 99):
        found, twin = held.at(step), recorded.at(step)
        assert found is not None
        assert twin is not None
        assert (found.step, found.regime, found.wiring) == (twin.step, "FR-II", (1, 0))
        mine, other = found.readings["gates"], twin.readings["gates"]
        assert (mine.scalars, mine.remark) == (other.scalars, other.remark)
        for name, array in other.arrays.items():
            np.testing.assert_array_equal(mine.arrays[name], array)
            assert not mine.arrays[name].flags.writeable


def test_of_one_step_the_newest_is_held_and_none_before_the_first() -> None:
    held = HeldFrames()
    for step in (10, 20, 20):
        held.add(frame(step))
    assert held.steps == (10, 20)
    assert held.at(9) is None
    held.add(frame(15))  # the run has gone back
    assert held.steps == (10, 15)


def test_a_copy_is_of_its_moment_and_both_go_on() -> None:
    """As it is sent to another process."""
    held = HeldFrames()
    held.add(frame(10))
    for give in (copy.copy, lambda one: pickle.loads(pickle.dumps(one))):
        other = give(held)
        other.add(frame(20))
        other.note_event(20)
        assert (held.steps, other.steps) == ((10,), (10, 20))
        held.add(frame(15))
        assert (held.steps, other.steps) == ((10, 15), (10, 20))
        held.add(frame(10))
        assert held.steps == (10,)


@pytest.mark.parametrize("events", [(), (300, 710)])
def test_the_cap_is_kept_by_the_rule_of_a_folder(events: tuple[int, ...]) -> None:
    one = HeldFrames()
    one.add(frame(0))
    held = HeldFrames(most=50 * one.bytes)
    for step in events:
        held.note_event(step)
    for step in range(0, 1000, 10):
        held.add(frame(step))
        assert held.bytes <= held.most
    assert held.left_out == 100 - len(held.steps) > 0
    assert (held.steps[0], held.steps[-frame_files.NEWEST :]) == (
        0,
        tuple(range(990 - 10 * (frame_files.NEWEST - 1), 1000, 10)),
    )
    assert {*events} <= {*held.steps}
    gaps = np.diff([step for step in held.steps if not any(abs(step - e) <= 20 for e in events)])
    assert gaps[-1] == 10 < gaps.max()
