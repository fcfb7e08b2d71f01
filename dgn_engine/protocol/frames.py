"""Frames: what the probes read at one step. Newest wins; a frame may be dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn_engine.text.written_numbers import number

Array = NDArray[Any]
MISFIT = "does not fit in memory"  # the fact 'fault' of a reading for which memory is too small
NOT_RECORDED = "not recorded"  # of one that is missing at a step that is looked back at


@dataclass(frozen=True)
class Reading:
    """What one probe saw at one step.

    `arrays` are read-only copies; their names and shapes are documented by the probe.
    `absent` is empty, or one sentence: why there is nothing in this regime and which shows it.
    """

    probe: str
    step: int
    seconds: float = 0.0  # what it cost
    interval: float = 0.0  # seconds until it is due again
    arrays: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""
    remark: str = ""  # what it is made of: '16 of 64 probe examples', '64 probe examples, exact', …
    examples: int = 0  # probe examples that it shows, where that is not all of them
    error: float = 0.0  # relative standard error of an estimate; 0: exact
    progress: float = 1.0  # share of the work on a better one that is done; 1: none is under way
    left: float = 0.0  # seconds that this work will still take as measured so far; 0: not known
    cancelled: bool = False  # that work was stopped, and goes on when it is asked for

    @property
    def pending(self) -> bool:
        """There is no picture yet, but one is being made."""
        return bool(self.absent) and self.progress < 1.0

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"<{self.probe} of step {self.step:,}: {self.absent or shapes or 'no arrays'}>"


SURE = 2.0  # standard errors: what is less than that from nothing cannot be told from it


@dataclass(frozen=True)
class Watching:
    """What watching takes of a run's time at present, and may take: shares (0…1).

    `taken`, `parts`: by what is charged, some of it in time that a paced run would have waited.
    `every`: seconds between two rounds, in each of which all that is watched is read and drawn.
    `overhead`: the share of the step rate that is lost, as measured, with its standard error
    `noise`; None where it is not measured, for the reason `unmeasured`. `slowed`: how many times
    as long as usual frames wait that bring no new reading.
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
        """Whether the overhead is known, and can be told from nothing."""
        return self.overhead is not None and self.overhead > SURE * self.noise


@dataclass(frozen=True)
class Frame:
    """The newest state of a run: where it is, how fast, and the newest reading of each probe."""

    run: int  # counts the runs of a session from 1
    step: int
    epoch: float  # steps done / steps in an epoch
    steps_per_second: float
    eta_seconds: float | None  # None: trains until stopped
    readings: Mapping[str, Reading] = field(default_factory=dict)
    compared: Mapping[str, Reading] = field(default_factory=dict)  # of the other network
    doing: str = ""  # instead of steps, for a second or more: 'reading Neural path kernel'
    watching: Watching | None = None  # while the run trains
    regime: str = ""  # of the network that was read; '' in records of earlier versions
    wiring: tuple[int, ...] = ()  # as in `Rewired`
    probe_digest: str = ""  # of the probe set that was read; '' in records of earlier versions
    comparison: int = 0  # in which `compared` was read: `ComparisonOpened.number`

    def __repr__(self) -> str:
        seen = ", ".join(f"{r.probe} of step {r.step:,}" for r in self.readings.values())
        return f"<frame of step {self.step:,}, epoch {number(self.epoch)}: {seen or 'no readings'}>"


def freeze(array: Array) -> Array:
    """A contiguous copy that nobody can write to (a view of a tensor would change under us)."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy
