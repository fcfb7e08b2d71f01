"""Points without a line between them, as a curve that is broken everywhere."""

from __future__ import annotations

import numpy as np

from dgn_viewer.scene.elements import Array, Curve, Role


def scattered(name: str, x: Array, y: Array, role: Role) -> Curve:
    """A marker at each (x, y), from left to right: curves are searched by their x."""
    order = np.argsort(x, kind="stable")
    doubled_x = np.repeat(np.asarray(x, dtype=np.float64)[order], 2)
    doubled_y = np.full(doubled_x.size, np.nan)
    doubled_y[::2] = np.asarray(y, dtype=np.float64)[order]
    return Curve(name, doubled_x, doubled_y, role, marker=True)
