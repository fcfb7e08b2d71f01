"""Whether two parts of scenes show the same: what did not change is not painted again."""

from __future__ import annotations

import dataclasses

import numpy as np


def same(one: object, other: object) -> bool:
    """Equality that looks into arrays and takes NaN for equal to NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        names = (field.name for field in dataclasses.fields(one))
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return one == other
