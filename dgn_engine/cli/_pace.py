"""The pace that a window asks of the `dgn train` that it started; nobody asks for one else."""

from __future__ import annotations


class Pace:
    """`value`: steps a second at most, 0 for no limit. Another thread may set it."""

    value = 0.0


PACE = Pace()
