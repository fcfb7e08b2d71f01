"""Points without lines between them, and separate lines, as curves with breaks."""

from __future__ import annotations

import numpy as np

from dgn_engine.scene.elements import Array, Curve, Dash, Role


def scatter_curve(name: str, x: Array, y: Array, role: Role, thick: bool = False) -> Curve:
    """Return a marker at each (x, y), sorted by x because curves are searched by x."""
    order = np.argsort(x, kind="stable")
    doubled_x = np.repeat(np.asarray(x, dtype=np.float64)[order], 2)
    doubled_y = np.full(doubled_x.size, np.nan)
    doubled_y[::2] = np.asarray(y, dtype=np.float64)[order]
    return Curve(name, doubled_x, doubled_y, role, thick=thick, marker=True)


def is_scattered(curve: Curve) -> bool:
    """Return whether the curve has markers only."""
    return curve.marker and curve.y.size > 1 and bool(np.isnan(curve.y[1::2]).all())


def segment_curve(name: str, starts: Array, ends: Array, role: Role, dash: Dash = "solid") -> Curve:
    """Return a line from each point (x, y) of `starts` (m, 2) to that of `ends` (m, 2)."""
    points = np.full((3 * len(starts), 2), np.nan)
    points[::3], points[1::3] = starts, ends
    return Curve(name, points[:, 0], points[:, 1], role, dash, segments=True)
