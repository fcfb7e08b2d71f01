"""Large arrays of frames in fewer bytes: how exactly they come back, and what stays exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.storage.runs import frame_content, packed_arrays

_random = np.random.default_rng(0)


def _back(array: Array) -> tuple[Array, str]:
    small = packed_arrays.shrink(array)
    assert small is not None
    assert small[0].nbytes < array.nbytes
    return packed_arrays.restore(*small), small[1]["as"]


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
    assert packed_arrays.shrink(array) is None


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
    content = frame_content.encode(Frame(1, 7, 0.0, 0.0, None, readings))
    assert 4 * len(content) < before
    found = frame_content.decode(content).readings
    assert found["overlap"].remark == "exact · matrices stored to 0.05 %"
    assert found["gates"].remark == "stored to 0.002"
    assert np.array_equal(found["overlap"].arrays["eigenvalues"], values)
    assert not found["gates"].arrays["layer_0"].flags.writeable


def test_hard_gates_come_back_exactly_and_without_a_word() -> None:
    gates = (_random.random((64, 128)) < 0.5).astype(np.uint8)
    frame = Frame(1, 7, 0.0, 0.0, None, {"gates": Reading("gates", 7, arrays={"layer_0": gates})})
    found = frame_content.decode(frame_content.encode(frame)).readings["gates"]
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
    small = packed_arrays.shrink(_kernel(64, np.float32))
    assert small is not None
    with pytest.raises((ValueError, KeyError, TypeError)):
        packed_arrays.restore(small[0], small[1] | change)
