"""What was read at any recorded step: the last frame at or before it, or a sentence."""

from __future__ import annotations

import copy
import os
import pickle
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.storage.runs import frame_content, frame_files, packed_arrays
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps, readings_at, size_of
from tests.refusals import refused


def _frame(step: int, values: float) -> Frame:
    arrays = {"layer_0": np.full((20, 10), values, dtype=np.float64)}
    return Frame(1, step, 0.0, 0.0, None, {"gates": Reading("gates", step, arrays=arrays)})


def _recorded(folder: Path, *steps: int) -> list[frame_files.StoredFrame]:
    return [
        frame_files.write_frame(folder / "frames", _frame(step, float(place)), place)
        for place, step in enumerate(steps)
    ]


def _value(frame: Frame | None) -> float:
    assert frame is not None
    return float(frame.readings["gates"].arrays["layer_0"][0, 0])


def test_a_step_shows_the_last_frame_at_or_before_it(tmp_path: Path) -> None:
    _recorded(tmp_path, 0, 10, 10, 30)
    steps = RecordedSteps(tmp_path)
    assert steps.steps == (0, 10, 30)
    assert [_value(steps.frame_at(step)) for step in (0, 9, 10, 29, 30, 10**9)] == [
        0,
        0,
        2,
        2,
        3,
        3,
    ]
    assert (steps.nearest_step(29), steps.frame_at(-1)) == (10, None)


def test_what_came_and_went_since_is_seen_when_it_is_asked_for(tmp_path: Path) -> None:
    steps = RecordedSteps(tmp_path)
    assert (steps.steps, steps.frame_at(5)) == ((), None)
    stored = _recorded(tmp_path, 0, 10, 20)
    assert steps.refresh_steps()
    assert not steps.refresh_steps()
    for number, left in ((1, (0, 20)), (2, (0,))):
        os.utime(tmp_path / "frames", (1000, 1000))  # a clock too coarse to see what follows
        steps.refresh_steps()
        stored[number].path.unlink()  # thinned out, and not yet looked at again
        os.utime(tmp_path / "frames", (1000, 1000))
        assert _value(steps.frame_at(10 * number + 5)) == 0.0
        assert steps.steps == left


def test_a_folder_that_was_removed_is_not_one_in_which_nothing_was_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    _recorded(folder, 0, 10)
    steps = RecordedSteps(folder)
    steps.frame_at(10)
    rmtree(folder)
    for look in (lambda: steps.frame_at(5), steps.refresh_steps, lambda: RecordedSteps(folder)):
        with refused("no-folder"):
            look()
    assert steps.steps == (0, 10)  # one can go on where it is, and the slider keeps its marks


def test_few_bytes_of_frames_are_held_and_the_newest_read_ones(tmp_path: Path) -> None:
    _recorded(tmp_path, *range(6))
    steps = RecordedSteps(tmp_path, held=2 * size_of(_frame(0, 0.0)))
    frames = [steps.frame_at(step) for step in range(6)]
    assert steps.frame_at(5) is frames[5]
    assert steps.frame_at(4) is frames[4]
    assert steps.frame_at(0) is not frames[0]
    assert steps.frame_at(4) is frames[4]  # it was read after the other one
    assert steps.frame_at(5) is not frames[5]


def test_a_damaged_frame_is_refused_in_a_sentence(tmp_path: Path) -> None:
    stored = _recorded(tmp_path, 3)[0]
    Path(str(stored.path)).write_bytes(b"no tensors")
    with refused("damaged"):
        RecordedSteps(tmp_path).frame_at(3)


def test_what_was_not_recorded_says_so_and_is_not_taken_from_another_step() -> None:
    frame = _frame(40, 1.0)
    found = readings_at(frame, 45, ["gates", "npk"])
    assert found["gates"] is frame.readings["gates"]
    assert "40" in found["npk"].absent
    assert (found["npk"].step, dict(found["npk"].arrays)) == (40, {})
    assert "3" in readings_at(None, 3, ["npk"])["npk"].absent


def test_a_frame_says_which_network_it_is_of(tmp_path: Path) -> None:
    written = replace(_frame(7, 1.0), regime="DLN", wiring=(1, 0))
    frame_files.write_frame(tmp_path / "frames", written, 0)
    read = RecordedSteps(tmp_path).frame_at(7)
    assert read is not None
    assert (read.regime, read.wiring) == ("DLN", (1, 0))


# Frames in memory are those that a folder would have, and thin out as it does.


def drawn_frame(step: int) -> Frame:
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
        frame_files.write_frame(tmp_path / "frames", drawn_frame(step), serial)
        held.pack_frame(drawn_frame(step))
    recorded = RecordedSteps(tmp_path)
    assert held.steps == recorded.steps == (0, 10, 25)
    for step in (0, 9, 10, 24, 25, 99):
        found, twin = held.frame_at(step), recorded.frame_at(step)
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
        held.pack_frame(drawn_frame(step))
    assert held.steps == (10, 20)
    assert held.frame_at(9) is None
    held.pack_frame(drawn_frame(15))  # the run has gone back
    assert held.steps == (10, 15)


def test_a_copy_is_of_its_moment_and_both_go_on() -> None:
    """As it is sent to another process."""
    held = HeldFrames()
    held.pack_frame(drawn_frame(10))
    for give in (copy.copy, lambda one: pickle.loads(pickle.dumps(one))):
        other = give(held)
        other.pack_frame(drawn_frame(20))
        other.note_event(20)
        assert (held.steps, other.steps) == ((10,), (10, 20))
        assert (held._events, other._events) == ([], [20])
        held.pack_frame(drawn_frame(15))
        assert (held.steps, other.steps) == ((10, 15), (10, 20))
        held.pack_frame(drawn_frame(10))
        assert held.steps == (10,)


@pytest.mark.parametrize("events", [(), (300, 710)])
def test_the_cap_is_kept_by_the_rule_of_a_folder(events: tuple[int, ...]) -> None:
    one = HeldFrames()
    one.pack_frame(drawn_frame(0))
    held = HeldFrames(most=50 * one.bytes)
    for step in events:
        held.note_event(step)
    for step in range(0, 1000, 10):
        held.pack_frame(drawn_frame(step))
        assert held.bytes <= held.most
    assert held.left_out == 100 - len(held.steps) > 0
    assert (held.steps[0], held.steps[-frame_files.NEWEST :]) == (
        0,
        tuple(range(990 - 10 * (frame_files.NEWEST - 1), 1000, 10)),
    )
    assert {*events} <= {*held.steps}
    gaps = np.diff([step for step in held.steps if not any(abs(step - e) <= 20 for e in events)])
    assert gaps[-1] == 10 < gaps.max()


# Large arrays of frames in fewer bytes: how exactly they come back.

_random = np.random.default_rng(0)


def _back(array: Array) -> tuple[Array, str]:
    small = packed_arrays.shrink_array(array)
    assert small is not None
    assert small[0].nbytes < array.nbytes
    return packed_arrays.restore_array(*small), small[1]["as"]


def _kernel(n: int, dtype: type) -> Array:
    factors = _random.standard_normal((n, 5))
    return np.asarray(1e7 * factors @ factors.T, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_comes_back_symmetric_and_within_its_error(dtype: type) -> None:
    kernel = _kernel(40, dtype)
    kernel[3] = kernel[:, 3] = np.nan
    found, kind = _back(kernel)
    assert (kind, found.dtype, found.shape) == ("triangle", kernel.dtype, kernel.shape)
    most = float(np.nanmax(np.abs(kernel)))
    for i in range(40):  # number by number
        for j in range(40):
            old, new = float(kernel[i, j]), float(found[i, j])
            assert np.isnan(old) == np.isnan(new)
            if not np.isnan(old):
                assert abs(new - old) <= abs(old) * 2.0**-11 * 1.001 + most * (2.0**-25 + 1e-6)
    assert np.array_equal(found, found.T, equal_nan=True)


def test_shares_come_back_on_the_same_side_of_a_half() -> None:
    gates = _random.random((64, 32)).astype(np.float32)
    gates[0, :3] = 0.5, np.nextafter(np.float32(0.5), np.float32(0)), 1.0
    found, kind = _back(gates)
    assert kind == "tones"
    assert float(np.abs(found - gates).max()) <= 1 / 510 + 1e-7
    assert np.array_equal(found >= 0.5, gates >= 0.5)


def test_other_numbers_come_back_within_half_precision() -> None:
    values = _random.standard_normal((50, 30)) * 1e-30
    found, kind = _back(values)
    assert kind == "half"
    tolerance = np.abs(values) * 2.0**-11 * 1.001 + np.abs(values).max() * 2.0**-25
    assert bool((np.abs(found - values) <= tolerance).all())
    zeros, _ = _back(np.full((64, 64), 2.0) * 0.0)
    assert not zeros.any()
    holes, _ = _back(np.full((64, 64), np.nan))
    assert np.isnan(holes).all()


@pytest.mark.parametrize(
    "array",
    [
        _kernel(20, np.float64),
        _random.standard_normal(4096),
        np.full((64, 64), np.inf),
        np.arange(4096).reshape(64, 64),
    ],
)
def test_few_numbers_vectors_infinities_and_integers_stay_as_they_are(array: Array) -> None:
    assert packed_arrays.shrink_array(array) is None


def test_a_frame_says_how_exactly_it_was_stored_and_takes_a_fifth() -> None:
    """As a run of DL with 5 layers of 128 units, read on 64 examples, records it."""
    kernels: dict[str, Array] = {f"active_{i}": _kernel(64, np.float32) for i in range(10)}
    kernels |= {name: _kernel(64, np.float64) for name in ("active", "sensitive", "npk")}
    gates: dict[str, Array] = {
        f"layer_{i}": _random.random((64, 128), np.float32) for i in range(5)
    }
    values = np.linspace(1.0, 0.0, 64)
    readings = {
        "overlap": Reading("overlap", 7, arrays=kernels | {"eigenvalues": values}, remark="exact"),
        "gates": Reading("gates", 7, arrays=gates),
    }
    before = sum(a.nbytes for r in readings.values() for a in r.arrays.values())
    content = frame_content.encode_frame(Frame(1, 7, 0.0, 0.0, None, readings))
    assert 4 * len(content) < before
    found = frame_content.decode_frame(content).readings
    assert found["overlap"].remark == "exact · matrices stored to 0.05 %"
    assert found["gates"].remark == "stored to 0.002"
    assert np.array_equal(found["overlap"].arrays["eigenvalues"], values)
    assert not found["gates"].arrays["layer_0"].flags.writeable


def test_hard_gates_come_back_exactly_and_without_a_word() -> None:
    gates = (_random.random((64, 128)) < 0.5).astype(np.uint8)
    frame = Frame(1, 7, 0.0, 0.0, None, {"gates": Reading("gates", 7, arrays={"layer_0": gates})})
    found = frame_content.decode_frame(frame_content.encode_frame(frame)).readings["gates"]
    assert np.array_equal(found.arrays["layer_0"], gates)
    assert found.remark == ""


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [64, 63]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [-1, 4]},
        {"as": "half"},
        {"as": "pickle"},
        {"dtype": "object"},
        {"scale": 0.0},
        {"scale": float("inf")},
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    small = packed_arrays.shrink_array(_kernel(64, np.float32))
    assert small is not None
    with pytest.raises((ValueError, KeyError, TypeError)):
        packed_arrays.restore_array(small[0], small[1] | change)
