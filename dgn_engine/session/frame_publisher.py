"""Frames of the run in progress: newest readings, position, and steps per second."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dgn_engine.protocol.frames import Frame
from dgn_engine.session.comparison import Comparison
from dgn_engine.training.run import Run

PUBLISH_EVERY = 0.8  # seconds, for position and rate; new readings are published at once
# Each frame wakes the window, which costs some steps:
AT_FULL_SPEED = 2.0  # seconds if nothing limits the speed, and
QUICK = 0.02  # … a step takes less than this


class FramePublisher:
    """Computes the probes that are due, and publishes frames of the run and its comparison."""

    def __init__(self, publish: Callable[[Frame], None], comparison: Comparison) -> None:
        self._publish = publish
        self._comparison = comparison
        self._published = 0.0
        self.rate = StepRate()

    def publish_due(self, run: Run, running: bool, heard: bool = False) -> Frame | None:
        """Read and publish what is due; called after each step, and repeatedly while paused.

        `heard`: a reading that was computed elsewhere has arrived. Returns the frame if it has new
        readings.
        """
        # A diverged run has no gates to read: its last readings stay.
        due = () if run.diverged else run.probe_schedule.due_probes(run.step_count, not running)
        if due:
            other = self._comparison
            context = run.probed.probe_context(other.other_gates, other.other_network)
            long = run.probe_schedule.slow_titles(due, context)
            if long:
                frame = self.make_frame(run, running)
                self._publish(replace(frame, doing=f"reading {', '.join(long)}"))
            # Publish each while the next is computed, unless a frame names a slow one.
            after_each = None if long else partial(self._publish_frame, run, running)
            if run.probe_schedule.read_probes(
                due, context, run.step_count, not running, after_each
            ):
                run.stop_overflowed()
        new = heard or bool(due)
        if not new and running and self._is_too_early(run):
            return None
        frame = self._publish_frame(run, running)
        return frame if new else None

    def _is_too_early(self, run: Run) -> bool:
        every = run.budget.background_interval(PUBLISH_EVERY)
        if not run.control.pace and 0.0 < self.rate.newest_step_seconds < QUICK:
            every = max(every, AT_FULL_SPEED)
        return time.monotonic() - self._published < every

    def _publish_frame(self, run: Run, running: bool) -> Frame:
        self._published, began = time.monotonic(), run.budget.busy()
        frame = self.make_frame(run, running)
        self._publish(frame)
        run.budget.charge("frames", run.budget.busy() - began)
        return frame

    def make_frame(self, run: Run, running: bool) -> Frame:
        rate = self.rate.per_second() if running else 0.0
        remaining = run.total_steps - run.step_count
        return replace(
            run.make_frame(),
            steps_per_second=rate,
            eta_seconds=remaining / rate if run.total_steps and rate > 0 else None,
            compared=self._comparison.readings,
            comparison=self._comparison.number,
            watching=run.budget.account if running else None,
        )


WINDOW = 2.0  # seconds


class StepRate:
    """Measures the rate of steps, and times them to the run's pace."""

    def __init__(self) -> None:
        # Steps that followed each other directly: when they ended, how many, seconds of each.
        self._taken: deque[tuple[float, int, float]] = deque()
        self._began = time.monotonic()
        self._next = self._began

    def record_steps(self, count: int, pace: float, seconds: float) -> None:
        """Record steps that took `seconds` together; `pace`: at most so many steps per second, 0
        for no limit."""
        now = time.monotonic()
        self._taken.append((now, count, seconds / count))
        while len(self._taken) > 1 and self._taken[1][0] < now - WINDOW:
            self._taken.popleft()  # keep the last ones before the window
        # Steps missed during a pause are not made up for.
        self._next = max(self._next + 1.0 / pace, now) if pace > 0.0 else now

    def per_second(self) -> float:
        """Return the step rate over the last `WINDOW` seconds, timed from the step before them."""
        now = time.monotonic()
        before, steps = self._began, 0
        for ended, count, _ in self._taken:
            if ended < now - WINDOW:
                before = ended
            else:
                steps += count
        return steps / max(now - before, 1e-3)

    def seconds_a_step(self) -> float | None:
        """Return the median time of a step alone; None before the first."""
        return statistics.median(each for _, _, each in self._taken) if self._taken else None

    @property
    def newest_step_seconds(self) -> float:
        """The time of the newest step; 0 before the first."""
        return self._taken[-1][2] if self._taken else 0.0

    def seconds_to_wait(self) -> float:
        return max(0.0, self._next - time.monotonic())
