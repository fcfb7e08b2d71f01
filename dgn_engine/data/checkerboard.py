"""Sixteen squares in two classes, a target that jumps at every line between two of them.

The papers mention synthetic data with discontinuities without defining them; this board is ours.
"""

from __future__ import annotations

import numpy as np

from dgn_engine.data._dataset import Labels
from dgn_engine.data._plane import Points, plane_set

CELLS = 4  # along a side of the square from -1 to 1
MARGIN = 0.1  # of a cell, left empty at each of its sides


def draw_checkerboard(labels: Labels, stream: np.random.RandomState) -> Points:
    """Draw points uniformly from the cells of a class, without margins.

    The first class has the cells whose row and column sum to an even number.
    """
    rows = stream.randint(CELLS, size=len(labels))
    columns = 2 * stream.randint(CELLS // 2, size=len(labels)) + (rows + labels) % 2
    within = stream.uniform(MARGIN, 1.0 - MARGIN, size=(len(labels), 2))
    points: Points = -1.0 + 2.0 / CELLS * (np.stack([columns, rows], axis=1) + within)
    return points


DATA = plane_set("checkerboard", "Checkerboard (2-D)", draw_checkerboard)
