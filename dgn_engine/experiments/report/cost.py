"""Say what a reproduction is estimated to cost, before it starts."""

from __future__ import annotations

from collections.abc import Callable

from dgn_engine.config import DataConfig
from dgn_engine.confinement.child_process import usable_cores
from dgn_engine.data import DataSizes
from dgn_engine.experiments.report.data_sizes import sizes_of
from dgn_engine.experiments.report.reproduce import epochs_in_words, plan_of
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.experiments.report.unit_costs import Cost, cost_of_units
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.written_numbers import format_duration

WORTH = 0.9  # mention packing only if it reduces the time to less than this share


def cost_of(
    task: ReproductionTask,
    sizes: Callable[[DataConfig], DataSizes] = sizes_of,
    timed: bool = False,
) -> Cost:
    """Estimate the cost of all units of a task; arguments as for `cost_of_units`."""
    return cost_of_units(plan_of(task).units, task.request.scale, sizes, timed)


def cost_in_words(
    task: ReproductionTask, timed: bool = False, workers: int = 0, packed: bool = True
) -> str:
    """Format the cost as 'npf-table2, full: 150 runs; about 40 h of one CPU core …'.

    Args:
        task: the experiment.
        timed: see `cost_of_units`.
        workers: number of processes on this machine, which share its cores; 0 if unknown.
        packed: whether stacks are used.
    """
    cost = cost_of(task, timed=timed)
    word = scale_of(task.experiment, task.request).word
    scale = f", {word}" if task.experiment.reproduces else ""
    counts = ((cost.runs, "run"), (cost.calculations, "calculation"))
    work = ", ".join(f"{n:,} {noun}{'s' * (n > 1)}" for n, noun in counts if n)
    parts = [f"{task.name}{scale}: {work or 'nothing to do'}"]
    if cost.unknown < cost.calculations or cost.runs:
        parts.append(f"; about {format_duration(cost.seconds)} of one CPU core")
        if cost.packed < WORTH * cost.seconds:
            parts.append(f", {format_duration(cost.packed)} packed")
        if cost.device != "cpu":
            parts.append(f" (not estimated for {cost.device})")
        elif workers:
            cores = min(workers, usable_cores())
            wall = format_duration(cost.seconds_with(cores, packed=packed))
            parts.append(f", {wall} with {workers} worker{'s' * (workers > 1)}")
        if cost.unknown:
            noun = f"calculation{'s' * (cost.unknown > 1)}"
            parts.append(f", without {cost.unknown:,} {noun} of unknown time")
        if cost.runs:
            parts.append(f"; {bytes_in_words(cost.storage)} of storage")
        parts.append(" (from steps timed here)" if cost.timed else " (estimated)")
        parts += [f"; {words}" for words in epochs_in_words(task, plan_of(task))]
    else:
        parts.append("; time unknown")
    return "".join([*parts, f". Folder: {task.folder}."])
