"""A circle inside a circle, points of the plane in two classes."""

from __future__ import annotations

import numpy as np

from dgn_engine.data._dataset import Labels
from dgn_engine.data._plane import Points, plane_set


def draw_circles(labels: Labels, stream: np.random.RandomState) -> Points:
    """Draw points with radius 0.9 for the first class, 0.4 for the second."""
    angle = 2.0 * np.pi * stream.uniform(size=len(labels))
    radius = np.where(labels == 0, 0.9, 0.4)
    points: Points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points


DATA = plane_set("circles", "Two circles (2-D)", draw_circles)
