"""What a reproduction costs before it is begun: runs, hours, storage; estimates that say so."""

from __future__ import annotations

from dgn_engine.reporting.conducting import Task, plan_of
from dgn_engine.reporting.entries import full_words, quick_words
from dgn_engine.sweep.unit import Training


def cost_in_words(task: Task) -> str:
    """Runs, hours and where it goes."""
    units = plan_of(task).units
    runs = sum(isinstance(unit, Training) for unit in units)
    if task.request.quick:
        cost = f"about {quick_words(task.experiment)} on two CPU cores"
    else:
        cost = f"about {full_words(task.experiment)} of one CPU core with the paper's settings"
    counted = f"{runs:,} runs and {len(units) - runs:,} calculations"
    return f"{task.name}, {task.request.scale}: {counted}; {cost}. In {task.folder}."
