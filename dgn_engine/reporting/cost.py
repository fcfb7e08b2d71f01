"""What a reproduction costs before it is begun: runs, hours, storage; estimates that say so."""

from __future__ import annotations

from dgn_engine.experiments import Experiment
from dgn_engine.reporting import words
from dgn_engine.reporting.conducting import Task, plan_of
from dgn_engine.sweep.unit import Training


def quick_words(experiment: Experiment) -> str:
    """'2 min' on two CPU cores."""
    minutes = experiment.quick_minutes
    return words.duration(60 * minutes) if minutes else "not measured"


def full_words(experiment: Experiment) -> str:
    """'3.5 h' on one CPU core."""
    hours = experiment.full_hours
    return words.duration(3600 * hours) if hours else "not measured"


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
