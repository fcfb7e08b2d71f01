"""Drawn coordinates: powers of ten on a logarithmic axis, data units on others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dgn_viewer.scene.axes import Range
from dgn_viewer.scene.elements import Axis


def drawn_values(values: Any, axis: Axis) -> Any:
    """Drawn coordinates: powers of ten on a logarithmic axis, nothing where there is no power."""
    if not axis.log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def drawn_range(reach: Range, axis: Axis) -> Range:
    """A range of data units (positive on a logarithmic axis) in drawn coordinates."""
    return (math.log10(reach[0]), math.log10(reach[1])) if axis.log else reach


def undrawn(value: float, axis: Axis) -> float:
    """The data unit of a drawn coordinate."""
    return float(10.0 ** max(min(value, 300.0), -300.0)) if axis.log else value
