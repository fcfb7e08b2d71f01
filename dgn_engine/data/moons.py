"""Two interleaving half circles, points of the plane in two classes."""

from __future__ import annotations

import numpy as np

from dgn_engine.data._dataset import Labels
from dgn_engine.data._plane import Points, plane_set


def draw_moons(labels: Labels, stream: np.random.RandomState) -> Points:
    """Draw the upper half circle for the first class, the shifted lower one for the second."""
    angle = np.pi * stream.uniform(size=len(labels))
    side = np.where(labels == 0, 1.0, -1.0)
    x = side * np.cos(angle) + (labels == 1)
    y = side * np.sin(angle) + 0.5 * (labels == 1)
    points: Points = np.stack([(x - 0.5) / 1.5, (y - 0.25) / 1.5], axis=1)
    return points


DATA = plane_set("moons", "Two moons (2-D)", draw_moons)
