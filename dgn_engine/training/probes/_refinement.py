"""How heavy kernels are read step by step: few examples, an estimate of all of them, the exact one.

Every `next` of what is written here is one slice of work. How long a slice took says how many
examples the next one passes at once, how much is left, and whether the exact kernel is feasible.
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
    numpy,
)

Clock = Callable[[], float]

AT_ONCE = 0.1  # seconds: a reading that costs less is not worth an estimate
FEWEST = 8  # probe examples of a first picture
FIRST_PICTURE = 0.8  # seconds that it may take, if it is to be one of more than these
FIRST_DRAWS = 2
TRUSTED = 8  # draws that their scatter is believed of: two or three may agree by chance
SLICE = 0.25  # seconds
ROUGH = 0.05  # relative error from which on it is seen how long the exact kernel takes
LOOK_AFTER = 10.0  # seconds of draws after which that is seen anyway
TOO_ROUGH = 0.2  # relative error above which an exact picture of fewer examples says more
FEW_EXACT = 3.0  # seconds that such a picture may take
SHARP = 0.01  # relative error at which an estimate is good enough
LONGEST = 600.0  # seconds for the exact kernel, or for an estimate that nothing exact follows
SHARE = 0.25  # of the exact kernel's time that goes into sharpening the estimate before it
NEWS = 1.3  # an estimate is shown anew when it has so many times the draws
NOT_EXACT = 1e-9  # the least relative error that is told of an estimate: 0 means exact
SWEEPS = 3.0  # forward passes that the backward sweep of one logit costs, about


@dataclass(frozen=True)
class WorkSlice:
    """One slice: how many seconds are expected to be left, and what it made, if anything new."""

    left: float
    result: ProbeResult | None = None
    error: float = 0.0


@dataclass
class Spent:
    """Seconds of all slices so far by `clock`; what passes between two of them does not count."""

    clock: Clock
    seconds: float = 0.0


@dataclass(frozen=True)
class PathReading:
    """What a probe makes of path kernels. `passes`: forward passes that one draw costs;
    `estimated` gives the relative error besides."""

    inputs: Callable[[ProbeContext], k.PathInputs]
    estimated: Callable[[ProbeContext, k.PathEstimator], tuple[ProbeResult, float]]
    exact: Callable[[ProbeContext, k.PathBlocks], ProbeResult]
    passes: float


def device_clock(device: torch.device) -> Clock:
    """Return a clock of what a device has done: on a card it first waits for the current stream,
    since kernels are only queued when a call returns."""
    if device.type != "cuda":
        return time.monotonic

    def seconds() -> float:
        torch.cuda.current_stream(device).synchronize()
        return time.monotonic()

    return seconds


def refinements(
    steps: Callable[[Spent], Iterator[WorkSlice]],
    device: torch.device,
    clock: Clock | None = None,
) -> Iterator[Refinement]:
    """The steps with the share of the work that is done: the time spent of the time expected.

    Slices before the first picture, whose length is bounded, are taken together. `clock`: that of
    the device, where none is given.
    """
    clock = clock or device_clock(device)
    spent, done = Spent(clock), 0.0
    under_way = steps(spent)
    shown: WorkSlice | None = None
    while True:
        began = clock()
        step = next(under_way, None)
        spent.seconds += clock() - began
        if step is None:
            return
        if step.result is not None and takes_over(step, shown):
            shown = step
        if shown is None or shown.result is None:
            continue
        share = spent.seconds / max(spent.seconds + step.left, 1e-9)
        done = 1.0 if step.left <= 0.0 else max(done, min(share, 0.999), 1e-6)
        yield Refinement(shown.result, done, shown.error)


def takes_over(made: WorkSlice, shown: WorkSlice | None) -> bool:
    """Whether a new picture is shown in the place of the one before: more examples say more, but
    not where they are a rough estimate and the fewer are none."""
    if shown is None:
        return True
    more = _examples(made) - _examples(shown)
    rough, was_rough = _is_rough(made), _is_rough(shown)
    if more < 0:
        return was_rough and not rough
    return more == 0 or was_rough or not rough


def _is_rough(step: WorkSlice) -> bool:
    """An estimate whose error is above `TOO_ROUGH`, or leaves fewer than `FEWEST` eigenvalues."""
    values = step.result.arrays.get("eigenvalues") if step.result is not None else None
    if step.error > 0.0 and values is not None and np.isfinite(values).sum() < FEWEST:
        return True
    return step.error > TOO_ROUGH


def _examples(step: WorkSlice) -> int:
    return len(step.result.arrays.get("labels", ())) if step.result is not None else 0


def path_steps(
    context: ProbeContext,
    reading: PathReading,
    generator: torch.Generator,
    spent: Spent,
) -> Iterator[WorkSlice]:
    """Path kernels: draws over a few examples, these pair by pair where that is quick, draws over
    all of them, at last all of them pair by pair."""
    clock = spent.clock
    expected = k.npk_cost(context.architecture, len(context.x)) / assumed_flops(context.x.device)
    pace, few = first_look(context, 1.0 + FIRST_DRAWS * reading.passes, clock)
    if few is not None:
        estimator = _path_estimator(few, reading, generator)
        estimator.draw(FIRST_DRAWS)
        yield WorkSlice(max(expected, SLICE), *reading.estimated(few, estimator))
        yield from _fewest(context, reading, max(expected, SLICE), clock)
    yield from _passing(context, pace, expected)
    estimator = _path_estimator(context, reading, generator)
    estimator.at_once = min(estimator.at_once, _at_once(pace * reading.passes))
    draws = _Draws(context, reading, estimator, spent)
    yield from draws.until(ROUGH, LOOK_AFTER, expected)
    blocks = k.PathBlocks(context.architecture, reading.inputs(context), clock=clock)
    slices = blocks.slices(SLICE)
    for _ in slices:
        yield WorkSlice(blocks.seconds_left or expected)
        if blocks.seconds_per_pair:
            break
    left = blocks.seconds_left
    if left > LONGEST:
        yield from draws.until(SHARP, LONGEST, 0.0)
        yield WorkSlice(0.0, *draws.result())
        return
    yield from draws.until(SHARP, SHARE * left, left)
    for _ in slices:
        yield WorkSlice(max(blocks.seconds_left, 1e-3))
    yield WorkSlice(0.0, reading.exact(context, blocks))


def _fewest(
    context: ProbeContext, reading: PathReading, after: float, clock: Clock
) -> Iterator[WorkSlice]:
    """The exact kernel of the fewest examples, unless that takes long; `after`: what follows."""
    few = context.subsample(max(len(context.x) // FEWEST, 1))
    blocks = k.PathBlocks(few.architecture, reading.inputs(few), clock=clock)
    for _ in blocks.slices(SLICE):
        if blocks.seconds_left > FEW_EXACT:
            return
        yield WorkSlice(blocks.seconds_left + after)
    found = reading.exact(few, blocks)
    if not found.absent:
        yield WorkSlice(after, found)


def tangent_steps(
    context: ProbeContext,
    made: Callable[[ProbeContext, k.TangentEstimator], tuple[ProbeResult, float]],
    generator: torch.Generator,
    spent: Spent,
) -> Iterator[WorkSlice]:
    """Tangent kernels: two sketched logits over a few examples, then one after the other over all
    of them; after the last one they are exact."""
    expected = k.ntk_cost(context.architecture, len(context.x)) / assumed_flops(context.x.device)
    pace, few = first_look(context, 1.0 + 2.0 * SWEEPS, spent.clock)
    if few is not None:
        estimator = _tangent_estimator(few, generator)
        estimator.draw(2)
        yield WorkSlice(max(expected, SLICE), *made(few, estimator))
    yield from _passing(context, pace, expected)
    estimator = _tangent_estimator(context, generator)
    before, each = spent.seconds, expected / estimator.logits
    while True:
        for share in estimator.slices():
            yield WorkSlice(max((estimator.logits - estimator.draws - share) * each, 1e-3))
        each = (spent.seconds - before) / estimator.draws
        if estimator.draws == 1 and not estimator.exact:  # one has no error
            continue
        result, error = made(context, estimator)
        left = (estimator.logits - estimator.draws) * each
        if left + spent.seconds > LONGEST:  # never all of them: until it is sharp
            wanted = max(estimator.draws * (error / SHARP) ** 2, TRUSTED)
            needed = (min(wanted, estimator.logits) - estimator.draws) * each
            left = min(max(needed, 0.0), max(LONGEST - spent.seconds, 0.0))
        yield WorkSlice(left, result, error)
        if left <= 0.0:
            return


def first_look(
    context: ProbeContext, passes: float, clock: Clock
) -> tuple[float, ProbeContext | None]:
    """Seconds of the forward pass of one example, and the part of the examples for a first picture
    that costs so many passes; None where all of them fit into its time."""
    n = len(context.x)
    every = max(n // FEWEST, 1)
    few = context.subsample(every) if every > 1 else context
    began = clock()
    for _ in few.kernels.passes(len(few.x)):
        pass
    pace = (clock() - began) / len(few.x)
    chosen = every
    while chosen > 1 and (n / (chosen // 2)) * passes * pace <= FIRST_PICTURE:
        chosen //= 2
    if chosen == 1:
        return pace, None
    return pace, few if chosen == every else context.subsample(chosen)


def widened(estimate: k.KernelEstimate) -> k.KernelEstimate:
    """With errors that hold as often as one standard error does, 68 times of 100, also where few
    draws say how far they scatter: Student's factor, by its series in one over the freedoms."""
    each = 1.0 / max(estimate.draws - 1, 1)
    factor = 1.0 + each / 2.0 + each**2 / 4.0 + each**3 / 16.0
    return replace(estimate, error=estimate.error * factor, relative=estimate.relative * factor)


def with_errors(arrays: Mapping[str, k.KernelEstimate]) -> dict[str, Array]:
    """Each estimate under its name, and its standard errors under '<name>_error'."""
    found: dict[str, Array] = {}
    for name, estimate in arrays.items():
        found[name] = numpy(estimate.kernel)
        found[f"{name}_error"] = numpy(estimate.error)
    return found


def _at_once(seconds: float) -> int:
    """How many examples that take so many seconds each are one slice."""
    return max(1, int(SLICE / seconds)) if seconds > 0.0 else 1 << 20


def _passing(context: ProbeContext, pace: float, after: float) -> Iterator[WorkSlice]:
    """The forward pass of all examples in slices."""
    whole = len(context.x) * pace
    for share in context.kernels.passes(_at_once(pace)):
        yield WorkSlice(after + (1.0 - share) * whole)


def _path_estimator(
    context: ProbeContext, reading: PathReading, generator: torch.Generator
) -> k.PathEstimator:
    return k.PathEstimator(context.architecture, reading.inputs(context), generator)


def _tangent_estimator(context: ProbeContext, generator: torch.Generator) -> k.TangentEstimator:
    trace = context.kernels.trace
    return k.TangentEstimator(context.network, context.x, generator, trace=trace)


class _Draws:
    """Draws of one estimate of all examples, shown anew as it grows sharper."""

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

    def result(self) -> tuple[ProbeResult, float]:
        return self._reading.estimated(self._context, self._estimator)

    def until(self, error: float, seconds: float, after: float) -> Iterator[WorkSlice]:
        """Draw until the relative error is so small, or for so many seconds; `after`: what is
        expected to follow takes."""
        before, began = self._spent.seconds, self._seconds
        while self._seconds - began < seconds:
            if self._error <= error and self._estimator.draws >= TRUSTED:
                return
            for _ in self._estimator.slices():
                yield WorkSlice(self._left(error, seconds - (self._seconds - began)) + after)
                self._seconds = began + self._spent.seconds - before
            draws = self._estimator.draws
            if draws >= max(2.0, NEWS * self._shown):
                result, self._error = self.result()
                self._shown = draws
                left = self._left(error, seconds - (self._seconds - began)) + after
                yield WorkSlice(max(left, 1e-3), result, self._error)

    def _left(self, error: float, most: float) -> float:
        """Seconds until the error is so small, as far as they are there."""
        draws = self._estimator.draws
        if not draws or self._error == float("inf"):
            return max(min(most, LOOK_AFTER), 1e-3)
        needed = (self._error / error) ** 2 - draws / self._shown
        return max(min(needed * self._shown * self._seconds / draws, most), 1e-3)
