"""Estimate the cost of a reproduction before it starts: runs, hours and storage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes
from dgn_engine.experiments.report.data_sizes import sizes_of
from dgn_engine.experiments.report.experiment_list import (
    UNKNOWN,
    format_full_cost,
    format_quick_cost,
)
from dgn_engine.experiments.report.reproduce import epochs_in_words, plan_of
from dgn_engine.experiments.report.reproduction_progress import work_of
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.architecture import Architecture
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.workers.batched_workers import find_stacks
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.written_numbers import format_duration
from dgn_engine.training.devices import choose_device
from dgn_engine.training.step_cost import (
    feature_passes,
    iterate_weight_shapes,
    seconds_a_step,
    seconds_to_test,
    time_steps,
)
from dgn_engine.training.steps.optimizer import count_moments

BYTES = 4
WORTH = 0.9  # mention packing only if it reduces the time to less than this share
_CHECKPOINTS = 2  # checkpoints on disk at a time
_TIMED = 3  # maximum number of kinds of runs whose steps are timed: the longest ones
_SHORT = 60.0  # seconds below which the time to start processes is worth mentioning
_LONGEST = 1.0  # seconds; longer steps are estimated instead of timed


@dataclass(frozen=True)
class Cost:
    """The estimated cost of an experiment.

    Attributes:
        runs, calculations: how many there are.
        seconds: time on one CPU core.
        packed: the same if runs are trained in stacks.
        storage: bytes on disk.
        timed: whether steps were timed on this machine.
    """

    runs: int
    calculations: int
    seconds: float
    packed: float
    storage: float
    timed: bool = False


def cost_of(
    task: ReproductionTask,
    sizes: Callable[[DataConfig], DataSizes] = sizes_of,
    timed: bool = False,
) -> Cost:
    """Estimate the cost from the operations per step and the number of steps.

    Calculations are not included.

    Args:
        task: the experiment.
        sizes: returns the sizes of a data set; by default it loads them, which fails early if a
            data set is missing.
        timed: also time a few steps, for up to a second, to measure the speed of this machine.
    """
    units = plan_of(task).units
    runs = [unit for unit in units if isinstance(unit, Training)]
    stacks = find_stacks(units, task.folder, 1, gaining=True)
    size = {name: len(stack) for stack in stacks for name in stack}
    alone = [_run_cost(unit, sizes(unit.config.data)) for unit in runs]
    seconds = sum(seconds for seconds, _ in alone)
    pace = _measure_pace(runs, [seconds for seconds, _ in alone], sizes) if timed else None
    times = pace or 1.0
    return Cost(
        len(runs),
        len(units) - len(runs),
        times * seconds,
        times * sum(_run_cost(u, sizes(u.config.data), size.get(u.id, 1))[0] for u in runs),
        sum(storage for _, storage in alone),
        pace is not None,
    )


def _measure_pace(
    runs: Iterable[Training], seconds: Iterable[float], sizes: Callable[[DataConfig], DataSizes]
) -> float | None:
    """Return measured over estimated time of steps on this machine; None if none was timed.

    It is averaged over the longest kinds of runs, weighted by their share of the time.
    """
    share: dict[RunConfig, float] = {}
    for unit, unit_seconds in zip(runs, seconds, strict=True):
        config = unit.config
        gating = replace(config.gating, gates_from="")
        training = replace(config.training, learning_rate=1e-6, weights_from="")
        data = config.data.without_variant()
        kind = RunConfig(data=data, net=config.net, gating=gating, training=training, device="cpu")
        share[kind] = share.get(kind, 0.0) + unit_seconds
        if choose_device(config.device).type != "cpu":
            return None
    estimated = measured = 0.0
    longest = sorted(share.items(), key=lambda item: -item[1])[:_TIMED]
    for kind, weight in longest:
        size = sizes(kind.data)
        architecture = architecture_for(kind.net, size.shape, size.classes)
        step = seconds_a_step(kind, architecture, size.train)
        if step <= _LONGEST:
            estimated += weight
            measured += weight * time_steps(kind, size.shape, architecture, size.train) / step
    return measured / estimated if estimated else None


def cost_in_words(task: ReproductionTask, timed: bool = False) -> str:
    """Format the cost as 'npf-table2, full: 150 runs; about 40 h of one CPU core …'.

    Args:
        task: the experiment.
        timed: see `cost_of`.
    """
    cost = cost_of(task, timed=timed)
    word = scale_of(task.experiment, task.request).word
    scale = f", {word}" if task.experiment.reproduces else ""
    counts = ((cost.runs, "run"), (cost.calculations, "calculation"))
    work = ", ".join(f"{n:,} {noun}{'s' * (n > 1)}" for n, noun in counts if n)
    parts = [f"{task.name}{scale}: {work or 'nothing to do'}"]
    if cost.runs:
        parts.append(f"; about {format_duration(cost.seconds)} of one CPU core to train")
        if cost.timed and cost.seconds < _SHORT:
            parts.append(" (and a few seconds to start each process)")
        if cost.packed < WORTH * cost.seconds:
            parts.append(f", {format_duration(cost.packed)} packed")
        source = "from steps timed here" if cost.timed else "estimated"
        parts.append(f", {bytes_in_words(cost.storage)} of storage ({source})")
        parts += [f"; {words}" for words in epochs_in_words(task, plan_of(task))]
    else:
        quick = task.request.quick
        own = format_quick_cost(task.experiment) if quick else format_full_cost(task.experiment)
        parts.append("; time unknown" if own == UNKNOWN else f"; about {own}")
    return "".join([*parts, f". Folder: {task.folder}."])


def _run_cost(unit: Training, sizes: DataSizes, stack: int = 1) -> tuple[float, float]:
    """Return seconds and bytes of one run that is trained in a stack of `stack` runs."""
    config = unit.config
    architecture = architecture_for(config.net, sizes.shape, sizes.classes)
    steps = math.ceil(sizes.train / config.training.batch)
    epoch = steps * seconds_a_step(config, architecture, sizes.train, stack)
    epoch += seconds_to_test(config, architecture, sizes.test, stack)
    return work_of(unit) * epoch, _storage_bytes(config, architecture)


def _storage_bytes(config: RunConfig, architecture: Architecture) -> float:
    weights = sum(math.prod(weight) for weight, _ in iterate_weight_shapes(architecture))
    networks = 1 + bool(feature_passes(config))
    training = config.training
    kept_files = 1 + len(training.keep_epochs) * (1 + training.keep_best) + training.keep_best
    moments = count_moments(training)
    return BYTES * weights * networks * (kept_files + _CHECKPOINTS * (1 + moments)) + 3e4
