"""The axis of training steps, the same in every panel that shows something over them."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_viewer.scene.elements import Axis, Curve

_LEAST = 4.0  # steps, so that no tick stands at half a step


def step_axis(curves: Sequence[Curve]) -> Axis:
    """From step 0 to the last one; first points stand inside the frame, where they are seen."""
    last = max((float(curve.x[-1]) for curve in curves if curve.x.size), default=0.0)
    alone = all(curve.x.size <= 1 for curve in curves)
    return Axis(label="step", limits=(0.0, max(2 * last if alone else last, _LEAST)))
