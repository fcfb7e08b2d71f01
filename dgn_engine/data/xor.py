"""Four squares, opposite ones in one class: exclusive or, points of the plane in two classes."""

from __future__ import annotations

import numpy as np

from dgn_engine.data._dataset import Labels
from dgn_engine.data._plane import Points, plane_set


def draw_xor(labels: Labels, stream: np.random.RandomState) -> Points:
    """Draw coordinates of magnitude 0.15 to 1; in the first class both have the same sign."""
    sizes = stream.uniform(0.15, 1.0, size=(len(labels), 2))
    first = np.where(stream.uniform(size=len(labels)) < 0.5, 1.0, -1.0)
    second = np.where(labels == 0, first, -first)
    points: Points = sizes * np.stack([first, second], axis=1)
    return points


DATA = plane_set("xor", "XOR (2-D)", draw_xor)
