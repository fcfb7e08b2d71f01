"""Two spirals, one rotated by half a turn, points of the plane in two classes."""

from __future__ import annotations

import numpy as np

from dgn_engine.data._dataset import Labels
from dgn_engine.data._plane import Points, plane_set

TURNS = 1.5


def draw_spirals(labels: Labels, stream: np.random.RandomState) -> Points:
    """Draw along spirals from radius 0.1 to 1, evenly by area, so that outer turns are as dense."""
    along = np.sqrt(stream.uniform(size=len(labels)))
    angle = 2.0 * np.pi * TURNS * along + np.pi * labels
    radius = 0.1 + 0.9 * along
    points: Points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points


DATA = plane_set("spirals", "Two spirals (2-D)", draw_spirals)
