"""Refine expensive kernels: estimated on a few examples, estimated on all, exact on all.

Each `next` of these generators is one slice of work. Its duration decides how many examples the
next slice takes, how much time is left, and whether the exact kernel is feasible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from dgn_engine import kernels as k
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import (
    ProbeContext,
    ProbeResult,
    Refinement,
    assumed_flops,
    to_numpy,
)

Clock = Callable[[], float]

AT_ONCE = 0.1  # seconds: a cheaper reading needs no estimate
FEWEST = 8  # probe examples of a first picture
FIRST_PICTURE = 0.5  # seconds it may take with more examples or draws than the fewest
FEWEST_DRAWS = 2  # one draw has no error
TRUSTED = 8  # draws before their scatter is trusted: two or three may agree by chance
GROUPS = 8  # of draws, for the errors of eigenvalues; of many examples, whose …
MANY = 1024  # … spectra take long, as few as there can be
SLICE = 0.25  # seconds
ROUGH = 0.05  # relative error at which the exact kernel is timed
LOOK_AFTER = 10.0  # seconds of draws after which it is timed anyway
TOO_ROUGH = 0.2  # relative error above which a better picture of fewer examples is kept
SHARP = 0.01  # relative error at which an estimate is good enough
LONGEST = 600.0  # seconds for the exact kernel, or for an estimate instead of it
SHARE = 0.25  # of the exact kernel's time, spent on sharpening the estimate first
NEWS = 1.3  # growth of the number of draws after which an estimate is shown again
NOT_EXACT = 1e-9  # smallest reported error of an estimate, since 0 means exact
SWEEPS = 3.0  # approximate cost of one logit's backward sweep, in forward passes


@dataclass(frozen=True)
class WorkSlice:
    """One slice of work.

    Attributes:
        left: Expected seconds until everything is done.
        result: New result, if any.
        error: Relative standard error of the result.
    """

    left: float
    result: ProbeResult | None = None
    error: float = 0.0


@dataclass
class Spent:
    """Seconds of all slices so far, by `clock`; time between slices does not count."""

    clock: Clock
    seconds: float = 0.0


@dataclass(frozen=True)
class PathReading:
    """Functions by which a probe uses path kernels.

    Attributes:
        inputs: Returns the inputs of the recursion.
        estimated: Returns the result of an estimate, and its relative error.
        exact: Returns the result of the exact kernel.
        passes: Forward passes that one draw costs.
    """

    inputs: Callable[[ProbeContext], k.PathInputs]
    estimated: Callable[[ProbeContext, k.PathEstimator], tuple[ProbeResult, float]]
    exact: Callable[[ProbeContext, k.PathBlocks], ProbeResult]
    passes: float


def device_clock(device: torch.device) -> Clock:
    """Return a clock of the work a device has done.

    On a card it synchronises the current stream first, since calls return before their kernels run.

    Args:
        device: The device.

    Returns:
        A function without arguments that returns wall seconds.
    """
    if device.type != "cuda":
        return time.monotonic

    def synchronized_seconds() -> float:
        torch.cuda.current_stream(device).synchronize()
        return time.monotonic()

    return synchronized_seconds


def first_clock(device: torch.device) -> Clock:
    """Return the clock of first pictures, for each of which there is a moment.

    On a CPU that is processor time, so that a busy machine has a later picture, not a worse one.

    Args:
        device: Device of the computation.

    Returns:
        A function without arguments that returns seconds.
    """
    return time.thread_time if device.type == "cpu" else device_clock(device)


def iterate_refinements(
    steps: Callable[[Spent], Iterator[WorkSlice]],
    device: torch.device,
    clock: Clock | None = None,
) -> Iterator[Refinement]:
    """Convert slices to refinements: `done` is the time spent over the time expected.

    Slices before the first picture are merged; their length is bounded.

    Args:
        steps: Yields slices; reads the time spent from its argument.
        device: Device of the computation.
        clock: Returns seconds; the clock of the device if None.

    Yields:
        The best result so far, after each slice.
    """
    clock = clock or device_clock(device)
    spent, done = Spent(clock), 0.0
    slices = steps(spent)
    shown: WorkSlice | None = None
    while True:
        began = clock()
        step = next(slices, None)
        spent.seconds += clock() - began
        if step is None:
            return
        if step.result is not None and should_show(step, shown):
            shown = step
        if shown is None or shown.result is None:
            continue
        share = spent.seconds / max(spent.seconds + step.left, 1e-9)
        done = 1.0 if step.left <= 0.0 else max(done, min(share, 0.999), 1e-6)
        yield Refinement(shown.result, done, shown.error)


def should_show(new: WorkSlice, shown: WorkSlice | None) -> bool:
    """Return whether a new picture replaces the displayed one.

    More examples are better, unless they are a rough estimate and the fewer ones are not.

    Args:
        new: The new slice, with a result.
        shown: The displayed slice, or None.

    Returns:
        True to show the new one.
    """
    if shown is None:
        return True
    more = _count_examples(new) - _count_examples(shown)
    rough, was_rough = _is_rough(new), _is_rough(shown)
    if more < 0:
        return was_rough and not rough
    return more == 0 or was_rough or not rough


def _is_rough(step: WorkSlice) -> bool:
    """Return whether an estimate has an error above `TOO_ROUGH`, or too few eigenvalues."""
    values = step.result.arrays.get("eigenvalues") if step.result is not None else None
    if step.error > 0.0 and values is not None and np.isfinite(values).sum() < FEWEST:
        return True
    return step.error > TOO_ROUGH


def _count_examples(step: WorkSlice) -> int:
    return len(step.result.arrays.get("labels", ())) if step.result is not None else 0


def path_steps(
    context: ProbeContext,
    reading: PathReading,
    generator: torch.Generator,
    spent: Spent,
) -> Iterator[WorkSlice]:
    """Refine path kernels: draws on a few examples, draws on all, exact on all.

    Args:
        context: All probe examples.
        reading: How the probe uses the kernels.
        generator: Source of the random value weights.
        spent: Time of the slices so far.

    Yields:
        Slices of work.
    """
    clock = spent.clock
    expected = k.npk_cost(context.architecture, len(context.x)) / assumed_flops(context.x.device)
    pace, subset = measure_pace(context, 1.0 + TRUSTED * reading.passes, clock)
    if subset is not None:
        estimator = _path_estimator(subset, reading, generator)
        _draw_first(estimator, TRUSTED, context.x.device)
        yield WorkSlice(max(expected, SLICE), *reading.estimated(subset, estimator))
    yield from _forward_slices(context, pace, expected)
    estimator = _path_estimator(context, reading, generator)
    estimator.at_once = min(estimator.at_once, _examples_per_slice(pace * reading.passes))
    draws = _Draws(context, reading, estimator, spent)
    yield from draws.draw_until(ROUGH, LOOK_AFTER, expected)
    blocks = k.PathBlocks(context.architecture, reading.inputs(context), clock=clock)
    slices = blocks.slices(SLICE)
    for _ in slices:
        yield WorkSlice(blocks.seconds_left or expected)
        if blocks.seconds_per_pair:
            break
    left = blocks.seconds_left
    if left > LONGEST:
        yield from draws.draw_until(SHARP, LONGEST, 0.0)
        yield WorkSlice(0.0, *draws.estimate_result())
        return
    yield from draws.draw_until(SHARP, SHARE * left, left)
    for _ in slices:
        yield WorkSlice(max(blocks.seconds_left, 1e-3))
    yield WorkSlice(0.0, reading.exact(context, blocks))


def _draw_first(
    estimator: k.PathEstimator | k.TangentEstimator, most: int, device: torch.device
) -> None:
    """Add the draws of a first picture: `most`, or as many as `FIRST_PICTURE` allows."""
    clock = first_clock(device)
    began = clock()
    while estimator.draws < most:
        estimator.add_draws(1)
        if _is_first(estimator.draws, most, clock() - began):
            return


def _is_first(draws: int, most: int, seconds: float) -> bool:
    """Return whether an estimate has enough draws, or took long enough, to be shown first."""
    return draws >= most or (draws >= FEWEST_DRAWS and seconds >= FIRST_PICTURE)


def tangent_steps(
    context: ProbeContext,
    made: Callable[[ProbeContext, k.TangentEstimator], tuple[ProbeResult, float]],
    generator: torch.Generator,
    spent: Spent,
) -> Iterator[WorkSlice]:
    """Refine tangent kernels: sketched logits on a few examples, then logit after logit on all.

    After the last logit the kernel is exact, so it is at once where the logits are few.

    Args:
        context: All probe examples.
        made: Returns the result of an estimate, and its relative error.
        generator: Source of the sketches.
        spent: Time of the slices so far.

    Yields:
        Slices of work.
    """
    expected = k.ntk_cost(context.architecture, len(context.x)) / assumed_flops(context.x.device)
    logits = context.architecture.classes
    pace, few = measure_pace(context, 1.0 + min(logits, TRUSTED) * SWEEPS, spent.clock)
    if few is not None:
        estimator = _tangent_estimator(few, generator)
        _draw_first(estimator, estimator.logits, context.x.device)
        yield WorkSlice(max(expected, SLICE), *made(few, estimator))
    yield from _forward_slices(context, pace, expected)
    estimator = _tangent_estimator(context, generator)
    before, per_logit = spent.seconds, expected / estimator.logits
    shown, clock = False, first_clock(context.x.device)
    began = clock()
    while True:
        for share in estimator.slices():
            yield WorkSlice(max((estimator.logits - estimator.draws - share) * per_logit, 1e-3))
        per_logit = (spent.seconds - before) / estimator.draws
        shown |= _is_first(estimator.draws, estimator.logits, clock() - began)
        if not shown:
            continue
        result, error = made(context, estimator)
        left = (estimator.logits - estimator.draws) * per_logit
        if left + spent.seconds > LONGEST:  # not all logits: stop once it is sharp
            wanted = max(estimator.draws * (error / SHARP) ** 2, TRUSTED)
            needed = (min(wanted, estimator.logits) - estimator.draws) * per_logit
            left = min(max(needed, 0.0), max(LONGEST - spent.seconds, 0.0))
        yield WorkSlice(left, result, error)
        if left <= 0.0:
            return


def measure_pace(
    context: ProbeContext, passes: float, clock: Clock
) -> tuple[float, ProbeContext | None]:
    """Time a forward pass, and choose the examples of a first picture.

    Args:
        context: All probe examples.
        passes: Cost of the picture in forward passes.
        clock: Returns seconds.

    Returns:
        Seconds of a forward pass per example, and the subset for a picture within `FIRST_PICTURE`;
        None if all examples fit.
    """
    n = len(context.x)
    every = max(n // FEWEST, 1)
    few = context.subsample(every) if every > 1 else context
    began = clock()
    for _ in few.kernels.trace_in_slices(len(few.x)):
        pass
    pace = (clock() - began) / len(few.x)
    chosen = every
    while chosen > 1 and (n / (chosen // 2)) * passes * pace <= FIRST_PICTURE:
        chosen //= 2
    if chosen == 1:
        return pace, None
    return pace, few if chosen == every else context.subsample(chosen)


def widen_errors(estimate: k.KernelEstimate) -> k.KernelEstimate:
    """Widen the errors of an estimate by `student_factor`.

    Args:
        estimate: Estimate with the scatter of its draws.

    Returns:
        The same estimate with wider errors.
    """
    factor = student_factor(estimate.draws)
    return replace(estimate, error=estimate.error * factor, relative=estimate.relative * factor)


def student_factor(draws: int) -> float:
    """Return Student's t over the normal quantile for one standard error (68 %).

    With ν = draws - 1, it is 1 + 1/(2ν) + 1/(4ν²) + 1/(16ν³), a series in 1/ν.

    Args:
        draws: Number of independent samples that an error was computed from.

    Returns:
        The factor, above 1.
    """
    step = 1.0 / max(draws - 1, 1)
    return 1.0 + step / 2.0 + step**2 / 4.0 + step**3 / 16.0


def with_errors(arrays: Mapping[str, k.KernelEstimate]) -> dict[str, Array]:
    """Return estimates and their standard errors as arrays.

    Args:
        arrays: Estimates by name.

    Returns:
        Each kernel under its name, (n, n), and its errors under '<name>_error'.
    """
    named: dict[str, Array] = {}
    for name, estimate in arrays.items():
        named[name] = to_numpy(estimate.kernel)
        named[f"{name}_error"] = to_numpy(estimate.error)
    return named


def _examples_per_slice(seconds: float) -> int:
    """Return how many examples of this duration fit into one slice."""
    return max(1, int(SLICE / seconds)) if seconds > 0.0 else 1 << 20


def _forward_slices(context: ProbeContext, pace: float, after: float) -> Iterator[WorkSlice]:
    """Run the forward pass of all examples in slices."""
    whole = len(context.x) * pace
    for share in context.kernels.trace_in_slices(_examples_per_slice(pace)):
        yield WorkSlice(after + (1.0 - share) * whole)


def _path_estimator(
    context: ProbeContext, reading: PathReading, generator: torch.Generator
) -> k.PathEstimator:
    groups = GROUPS if len(context.x) <= MANY else FEWEST_DRAWS
    inputs = reading.inputs(context)
    return k.PathEstimator(context.architecture, inputs, generator, groups=groups)


def _tangent_estimator(context: ProbeContext, generator: torch.Generator) -> k.TangentEstimator:
    trace = context.kernels.trace
    return k.TangentEstimator(context.network, context.x, generator, trace=trace)


class _Draws:
    """Draws of one estimate on all examples, reported as it gets sharper."""

    def __init__(
        self,
        context: ProbeContext,
        reading: PathReading,
        estimator: k.PathEstimator,
        spent: Spent,
    ) -> None:
        self._context, self._reading = context, reading
        self._estimator, self._spent = estimator, spent
        self._seconds, self._shown, self._error = 0.0, 0, float("inf")
        self._clock = first_clock(context.x.device)
        self._began = self._clock()

    def estimate_result(self) -> tuple[ProbeResult, float]:
        return self._reading.estimated(self._context, self._estimator)

    def draw_until(self, error: float, seconds: float, after: float) -> Iterator[WorkSlice]:
        """Draw until the relative error is small enough or the time is up.

        `after` is the expected time of the work that follows.
        """
        before, began = self._spent.seconds, self._seconds
        while self._seconds - began < seconds:
            if self._error <= error and self._estimator.draws >= TRUSTED:
                return
            for _ in self._estimator.slices():
                yield WorkSlice(
                    self._seconds_left(error, seconds - (self._seconds - began)) + after
                )
                self._seconds = began + self._spent.seconds - before
            draws = self._estimator.draws
            if self._shown:
                is_news = draws >= NEWS * self._shown
            else:
                is_news = _is_first(draws, TRUSTED, self._clock() - self._began)
            if is_news:
                result, self._error = self.estimate_result()
                self._shown = draws
                left = self._seconds_left(error, seconds - (self._seconds - began)) + after
                yield WorkSlice(max(left, 1e-3), result, self._error)

    def _seconds_left(self, error: float, most: float) -> float:
        """Return the seconds until the error is reached, at most `most`."""
        draws = self._estimator.draws
        if not draws or self._error == float("inf"):
            return max(min(most, LOOK_AFTER), 1e-3)
        needed = (self._error / error) ** 2 - draws / self._shown
        return max(min(needed * self._shown * self._seconds / draws, most), 1e-3)
