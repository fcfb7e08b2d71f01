"""Frames: the readings of all probes at one step. The newest wins; a frame may be dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn_engine.frozen_data import dataclass
from dgn_engine.text.written_numbers import format_number

Array = NDArray[Any]
MISFIT = "does not fit in memory"  # the fact 'fault' of a reading that is too large for memory
NOT_RECORDED = "not recorded"  # of a reading that is missing at an earlier step


@dataclass(frozen=True)
class Reading:
    """The result of one probe at one step.

    `arrays` are read-only copies; the probe documents their names and shapes. `absent` is empty, or
    one sentence: why there is nothing in this regime, and which regime shows it.
    """

    probe: str
    step: int
    seconds: float = 0.0  # that it took
    interval: float = 0.0  # seconds until it is due again
    arrays: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""
    remark: str = ""  # its sample: '16 of 64 probe examples', '64 probe examples, exact', …
    examples: int = 0  # probe examples used, if not all of them
    error: float = 0.0  # relative standard error of an estimate; 0: exact
    progress: float = 1.0  # of the work on a better estimate; 1: none in progress
    left: float = 0.0  # estimated seconds until it is done; 0: unknown
    doing: str = ""  # what delays it instead: 'compiling, once'
    cancelled: bool = False  # that work was stopped, and can be resumed

    @property
    def pending(self) -> bool:
        """True if there is nothing to show yet, but an estimate is being computed."""
        return bool(self.absent) and self.progress < 1.0

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"<{self.probe} of step {self.step:,}: {self.absent or shapes or 'no arrays'}>"


SURE = 2.0  # standard errors from zero that count as significant


@dataclass(frozen=True)
class Watching:
    """The time that watching takes and may take of a run, as fractions (0…1).

    `taken` and `parts` are by category; part of it is time that a paced run would have waited.
    `every` is the time in seconds between two rounds in which everything watched is read and drawn.
    `overhead` is the measured loss of the step rate, with its standard error `noise`; None if not
    measured, for the reason `unmeasured`. `slowed` is the factor by which frames without new
    readings are delayed.
    """

    share: float
    taken: float = 0.0
    every: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    overhead: float | None = None
    noise: float = 0.0
    unmeasured: str = ""
    slowed: float = 1.0

    @property
    def is_measured(self) -> bool:
        """True if the overhead is known and significantly above zero."""
        return self.overhead is not None and self.overhead > SURE * self.noise


@dataclass(frozen=True)
class Frame:
    """The newest state of a run: position, speed, and the newest reading of each probe."""

    run: int  # counts the runs of a session from 1
    step: int
    epoch: float  # steps done / steps in an epoch
    steps_per_second: float
    eta_seconds: float | None  # None: trains until stopped
    readings: Mapping[str, Reading] = field(default_factory=dict)
    compared: Mapping[str, Reading] = field(default_factory=dict)  # of the other network
    doing: str = ""  # what delays the steps by a second or more: 'reading Neural path kernel'
    watching: Watching | None = None  # while the run trains
    regime: str = ""  # of the network that was read; '' in records of earlier versions
    wiring: tuple[int, ...] = ()  # as in `Rewired`
    probe_digest: str = ""  # of the probe set that was read; '' in records of earlier versions
    comparison: int = 0  # the `ComparisonOpened.number` that `compared` belongs to

    def __repr__(self) -> str:
        probes = ", ".join(f"{r.probe} of step {r.step:,}" for r in self.readings.values())
        return (
            f"<frame of step {self.step:,}, epoch {format_number(self.epoch)}: "
            f"{probes or 'no readings'}>"
        )


def read_only_copy(array: Array) -> Array:
    """Return a contiguous, read-only copy; a view of a tensor would change with it."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy
