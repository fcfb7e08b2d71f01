"""The pace that a window sets for the `dgn train` that it started; 0 without a window."""

from __future__ import annotations


class Pace:
    """`value`: steps a second at most, 0 for no limit. Another thread may set it."""

    value = 0.0


PACE = Pace()
