"""Estimates what a reproduction costs before it begins: runs, hours, storage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes
from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.data_sizes import sizes_of
from dgn_engine.experiments.report.experiment_list import UNKNOWN, full_words, quick_words
from dgn_engine.experiments.report.reproduce import epochs_in_words, plan_of
from dgn_engine.experiments.report.reproduction_progress import work_of
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.model.importing.from_file import architecture_for
from dgn_engine.regimes import find_regime
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.workers.batched_workers import find_stacks

# Fitted to steps that were timed on one core of a Xeon at 2.5 GHz (docs/scale.md says how well).
LAYER = 1.1e-4  # seconds of a layer in one pass, however small: Python, the optimiser, the log
DENSE, CONV = 5.5e10, 7e10  # floating-point operations a second of one core, by itself
PACKED = 3.6e10  # and of dense networks in a stack, which share what a layer costs in Python
BYTES = 4
WORTH = 0.9  # of the time: packing that saves less is not mentioned
_CHECKPOINTS = 2  # that are there at a time


@dataclass(frozen=True)
class Cost:
    """The cost of runs: seconds of one CPU core, one by one and in stacks; bytes of folders."""

    runs: int
    calculations: int
    seconds: float
    packed: float
    storage: float


def cost_of(task: ReproductionTask, sizes: Callable[[DataConfig], DataSizes] = sizes_of) -> Cost:
    """Estimate by the operations of the networks and the steps; calculations are not counted.

    `sizes_of` loads each data set once, so that a missing one is refused before anything begins.
    """
    units = plan_of(task).units
    runs = [unit for unit in units if isinstance(unit, Training)]
    stacks = find_stacks(units, task.folder, 1, gaining=True)
    size = {name: len(stack) for stack in stacks for name in stack}
    alone = [_run_cost(unit, sizes(unit.config.data)) for unit in runs]
    return Cost(
        len(runs),
        len(units) - len(runs),
        sum(seconds for seconds, _ in alone),
        sum(_run_cost(u, sizes(u.config.data), size.get(u.id, 1))[0] for u in runs),
        sum(storage for _, storage in alone),
    )


def cost_in_words(task: ReproductionTask) -> str:
    """Say it in a sentence: 'npf-table2, full: 150 runs; about 40 h of one CPU core …'."""
    cost = cost_of(task)
    word = scale_of(task.experiment, task.request).word
    scale = f", {word}" if task.experiment.reproduces else ""
    parts = [f"{task.name}{scale}: {cost.runs:,} runs"]
    if cost.calculations:
        parts.append(f", {cost.calculations:,} calculations")
    if cost.runs:
        parts.append(f"; about {formatting.duration(cost.seconds)} of one CPU core to train")
        if cost.packed < WORTH * cost.seconds:
            parts.append(f", {formatting.duration(cost.packed)} packed")
        parts.append(f", {storage_in_words(cost.storage)} of storage (estimated)")
        parts += [f"; {words}" for words in epochs_in_words(task, plan_of(task))]
    else:
        quick = task.request.quick
        own = quick_words(task.experiment) if quick else full_words(task.experiment)
        parts.append("; how long is not measured" if own == UNKNOWN else f"; about {own}")
    return "".join([*parts, f". In {task.folder}."])


def storage_in_words(size: float) -> str:
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.2g} {unit}" if size < 10 else f"{size:.0f} {unit}"
    return f"{size / 1000:.1f} TB"


def operations(architecture: Architecture) -> float:
    """Return the floating-point operations of one example in one forward pass."""
    return float(sum(2 * math.prod(weight) * places for weight, places in _layers(architecture)))


def _run_cost(unit: Training, sizes: DataSizes, stack: int = 1) -> tuple[float, float]:
    """Return seconds and bytes of one run, trained in a stack of so many."""
    config = unit.config
    architecture = architecture_for(config.net, sizes.shape, sizes.classes)
    regime = find_regime(config.gating.regime)
    feature = 0 if regime.own_gates or regime.open_gates else 3 if regime.trains_feature else 1
    tabled = stack > 1 and feature == 1  # a stack computes frozen gates once
    passes = 3 + (0 if tabled else feature)  # backward is twice forward
    epochs = work_of(unit)
    steps = epochs * math.ceil(sizes.train / config.training.batch)
    trained = passes * operations(architecture) * sizes.train * epochs
    tested = (1 + bool(feature)) * operations(architecture) * sizes.test * epochs
    layers = list(_layers(architecture))
    maps = any(len(weight) > 2 for weight, _ in layers)
    rate = CONV if maps else PACKED if stack > 1 else DENSE
    seconds = steps * passes * len(layers) * LAYER / stack + (trained + tested) / rate
    return seconds, _storage(config, architecture, feature)


def _storage(config: RunConfig, architecture: Architecture, feature: int) -> float:
    weights = sum(math.prod(weight) for weight, _ in _layers(architecture))
    networks = 1 + bool(feature)
    training = config.training
    kept = 1 + len(training.keep_epochs) * (1 + training.keep_best) + training.keep_best
    moments = {"adam": 2, "rmsprop": 1, "sgd": 0}[config.training.optimiser]
    return BYTES * weights * networks * (kept + _CHECKPOINTS * (1 + moments)) + 3e4


def _layers(architecture: Architecture) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the weight shape of each layer, and at how many positions it is applied."""
    weighted = set(map(id, architecture.weighted))
    for node, shape in architecture.shapes():
        if id(node) in weighted:
            yield weight_shape(node), math.prod(shape[1:])  # type: ignore[arg-type]
