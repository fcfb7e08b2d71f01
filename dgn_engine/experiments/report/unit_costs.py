"""Estimate the time and storage of units: trainings from their steps, calculations as measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes
from dgn_engine.experiments._experiment import Scale
from dgn_engine.experiments.report.data_sizes import sizes_of
from dgn_engine.experiments.report.reproduction_progress import work_of
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.architecture import Architecture
from dgn_engine.sweep.unit import Calculation, Training, Unit
from dgn_engine.sweep.workers.batched_workers import find_stacks
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
START = 6.0  # seconds: two Python processes that import torch, and the report
RUN = 0.05  # seconds per run: its folder, checkpoint and weights
_CHECKPOINTS = 2  # checkpoints on disk at a time
_TIMED = 3  # maximum number of kinds of runs whose steps are timed: the longest ones
_LONGEST = 1.0  # seconds; longer steps are estimated instead of timed

# Seconds of one calculation at quick and at full scale, as measured on one core of an AMD EPYC:
# means over the units of the plan.
CALCULATIONS: Mapping[str, tuple[float, float]] = {
    "composite_hidden_outputs:pictures": (0.1, 0.5),
    "composite_resnet_kernel:shares": (0.13, 0.25),
    "convex_gates:compare": (9.0, 600.0),
    "dgn_adaptable_gates:nus_of_stages": (0.3, 0.8),
    "dgn_frg_convergence:convergence": (0.02, 0.07),
    "dgn_frg_spectrum:spectrum_of": (0.03, 0.07),
    "dgn_galu_relu:trained": (0.16, 30.0),
    "half_spaces:measured": (3.5, 35.0),
    "galu_memorisation:memorise": (4.2, 80.0),
    "kernel_ridge:convolutional": (3.0, 600.0),
    "kernel_ridge:regressions": (0.4, 4.0),
    "npf_eigenvalue_bound:bound_while_training": (1.3, 2.5),
    "npf_kernels:kernels_of_stages": (0.4, 0.9),
    "npf_nu:nu_of_stages": (0.4, 1.2),
    "silent_alignment:alignment_in_training": (1.9, 200.0),
    "region_phases:complexity_of_stages": (0.25, 1.0),
    "path_pruning:prune": (3.0, 180.0),
    "theory_depth:speed": (0.09, 8.0),
    "theory_dynamics:dynamics": (0.17, 3.9),
    "theory_dynamics:soft_dynamics": (0.12, 1.0),
    "theory_infinite_width:angles": (0.15, 1.1),
    "theory_infinite_width:distances": (0.45, 2.5),
    "theory_ntk_npk:distances": (0.3, 1.2),
    "theory_ntk_npk:exact": (6.0, 6.5),
    "theory_ntk_npk:variances": (1.0, 6.5),
}


@dataclass(frozen=True)
class Cost:
    """The estimated cost of an experiment.

    Attributes:
        runs, calculations: how many there are.
        seconds: time on one CPU core.
        packed: the same if runs are trained in stacks.
        storage: bytes on disk.
        timed: whether steps were timed on this machine.
        unknown: number of calculations whose time is unknown and not included.
        jobs: number of units, of which a stack is one.
        device: 'cpu', or the type of another device, where the times do not apply.
    """

    runs: int
    calculations: int
    seconds: float
    packed: float
    storage: float
    timed: bool = False
    unknown: int = 0
    jobs: int = 1
    device: str = "cpu"

    def seconds_with(self, workers: int, *, packed: bool = True) -> float:
        """Return the duration with a number of processes, from their start to the report.

        Args:
            workers: number of CPU cores that are used.
            packed: whether stacks are used.
        """
        jobs = self.jobs if packed else self.runs + self.calculations
        return START + (self.packed if packed else self.seconds) / max(1, min(workers, jobs))


def cost_of_units(
    units: Sequence[Unit],
    scale: Scale,
    sizes: Callable[[DataConfig], DataSizes] = sizes_of,
    timed: bool = False,
) -> Cost:
    """Estimate the cost from the operations per step and the number of steps.

    Args:
        units: the units.
        scale: the scale at which calculations were measured.
        sizes: returns the sizes of a data set; by default it loads them, which fails early if a
            data set is missing.
        timed: also time a few steps, for up to a second, to measure the speed of this machine.

    Raises:
        UserError: a data set is missing.
    """
    runs = [unit for unit in units if isinstance(unit, Training)]
    stacks = find_stacks(units, Path(), 1, gaining=True)
    size = {name: len(stack) for stack in stacks for name in stack}
    alone = [_run_cost(unit, sizes(unit.config.data)) for unit in runs]
    seconds = [cost[0] for cost in alone]
    devices = {choose_device(unit.config.device).type for unit in runs} - {"cpu"}
    pace = _measure_pace(runs, seconds, sizes) if timed and not devices else None
    others = [_calculation_seconds(unit, scale) for unit in units if isinstance(unit, Calculation)]
    calculated = sum(known for known in others if known is not None)
    stacked = sum(
        _run_cost(unit, sizes(unit.config.data), size[unit.id])[0] if unit.id in size else own
        for unit, own in zip(runs, seconds, strict=True)
    )
    times = pace or 1.0
    return Cost(
        len(runs),
        len(others),
        times * (sum(seconds) + calculated),
        times * (stacked + calculated),
        sum(storage for _, storage in alone),
        pace is not None,
        others.count(None),
        len(units) - len(size) + len(stacks),
        next(iter(devices), "cpu"),
    )


def _calculation_seconds(unit: Calculation, scale: Scale) -> float | None:
    """Return the measured time of a calculation; None if there is none."""
    measured = CALCULATIONS.get(unit.function.removeprefix("dgn_engine.experiments."))
    return None if measured is None else measured[scale == "full"]


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


def _run_cost(unit: Training, sizes: DataSizes, stack: int = 1) -> tuple[float, float]:
    """Return seconds and bytes of one run that is trained in a stack of `stack` runs."""
    config = unit.config
    architecture = architecture_for(config.net, sizes.shape, sizes.classes)
    steps = math.ceil(sizes.train / config.training.batch)
    epoch = steps * seconds_a_step(config, architecture, sizes.train, stack)
    epoch += seconds_to_test(config, architecture, sizes.test, stack)
    return RUN + work_of(unit) * epoch, _storage_bytes(config, architecture)


def _storage_bytes(config: RunConfig, architecture: Architecture) -> float:
    weights = sum(math.prod(weight) for weight, _ in iterate_weight_shapes(architecture))
    networks = 1 + bool(feature_passes(config))
    training = config.training
    kept_files = 1 + len(training.keep_epochs) * (1 + training.keep_best) + training.keep_best
    moments = count_moments(training)
    return BYTES * weights * networks * (kept_files + _CHECKPOINTS * (1 + moments)) + 3e4
