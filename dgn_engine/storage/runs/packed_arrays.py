"""Store large arrays of a frame in fewer bytes, with bounded errors.

- Zeros and ones: one bit each, exact.
- Shares (all between 0 and 1; the gates of soft regimes): 256 levels, each within 1/510 of its
  value and on the same side of ½.
- Other numbers: half precision after division by the largest magnitude m, each within 2⁻¹¹ of
  itself (0.05 %) or, if very small, within 2⁻²⁵ m. For a matrix that is symmetric up to 10⁻⁶ m,
  the rounding error of products, only the upper triangle.

Small arrays, one-dimensional ones (eigenvalues) and those with infinities stay unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dgn_engine.protocol.frames import Array
from dgn_engine.storage.runs.run_ranges import is_count

LEAST = 1024  # smaller arrays are stored exactly
SIDES = 32  # of an array
_SYMMETRIC = 1e-6  # of the largest magnitude: rounding error of a product
_TONES = 255
_MATRICES = "matrices stored to 0.05 %"
_WORDS = {"half": _MATRICES, "triangle": _MATRICES, "tones": "stored to 0.002"}
_RESTORED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}


def is_bits(array: Array) -> bool:
    return bool(array.dtype in (np.uint8, np.bool_) and array.size and array.max() <= 1)


def shrink_array(array: Array) -> tuple[Array, dict[str, Any]] | None:
    """Return the smaller array and how to restore it; None to store the array as is."""
    if array.dtype.name not in _RESTORED or array.ndim < 2 or array.size < LEAST:
        return None
    if np.isinf(array).any():
        return None
    about: dict[str, Any] = {"shape": list(array.shape), "dtype": array.dtype.name}
    symmetric = _is_symmetric(array)
    low, high = float(np.min(array)), float(np.max(array))  # NaN if there is one
    if not symmetric and low >= 0.0 and high <= 1.0:
        tones = np.rint(array.astype(np.float64) * _TONES).astype(np.uint8)
        return tones.reshape(-1), about | {"as": "tones"}
    numbers = array[_upper_triangle(len(array))] if symmetric else array.reshape(-1)
    scale = float(np.nanmax(np.abs(numbers))) if not np.isnan(numbers).all() else 1.0
    scale = scale or 1.0
    halves = (numbers.astype(np.float64) / scale).astype(np.float16)
    return halves, about | {"as": "triangle" if symmetric else "half", "scale": scale}


def restore_array(stored: Array, about: Mapping[str, Any]) -> Array:
    """Restore an array as exactly as stored.

    Raises:
        ValueError, KeyError, TypeError: What is stored is invalid.
    """
    shape, kind = tuple(about["shape"]), about["as"]
    dtype = _RESTORED[about["dtype"]]
    count = count_of(shape)
    side = shape[0] if shape else 0
    expected = side * (side + 1) // 2 if kind == "triangle" else count
    expected_dtype = np.dtype(np.uint8 if kind == "tones" else np.float16)
    if kind not in _WORDS or stored.shape != (expected,) or stored.dtype != expected_dtype:
        raise ValueError("the shape of an array does not match its numbers")
    if kind == "tones":
        shares: Array = stored.astype(np.float64) / _TONES
        return shares.astype(dtype).reshape(shape)
    scale = float(about["scale"])
    if not (math.isfinite(scale) and scale > 0.0):
        raise ValueError("the scale of an array")
    with np.errstate(over="ignore"):  # float32 at its own limit
        numbers: Array = np.asarray(stored.astype(np.float64) * scale, dtype=dtype)
    if kind == "half":
        return numbers.reshape(shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError("a triangle of a non-square array")
    whole: Array = np.empty((side, side), dtype=dtype)
    upper = _upper_triangle(side)
    whole[upper] = numbers
    whole.T[upper] = numbers
    return whole


def count_of(shape: tuple[Any, ...]) -> int:
    """Return the number of elements; raises `ValueError` if the shape is invalid."""
    if len(shape) > SIDES or not all(map(is_count, shape)):
        raise ValueError("the shape of an array")
    return math.prod(shape)


def words_of(kinds: list[str]) -> str:
    """Describe how exactly the arrays of a reading are restored; '' if all are exact."""
    return ", ".join(dict.fromkeys(_WORDS[kind] for kind in kinds if kind in _WORDS))


def _upper_triangle(side: int) -> Array:
    """Return the mask of the upper triangle, including the diagonal."""
    upper: Array = np.tri(side, dtype=np.bool_).T
    return upper


def _is_symmetric(array: Array) -> bool:
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return False
    holes = np.isnan(array)
    if not np.array_equal(holes, holes.T):
        return False
    most = float(np.nanmax(np.abs(array))) if not holes.all() else 0.0
    apart = np.abs(array - array.T)
    return bool((apart[~holes] <= _SYMMETRIC * most).all())
