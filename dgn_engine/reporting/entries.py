"""The experiments as a menu and a list show them, with their estimated costs in words."""

from __future__ import annotations

from dgn_engine.experiments import Experiment, all_experiments
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.reporting import words

UNKNOWN = "not measured"


def experiment_entries() -> tuple[ExperimentEntry, ...]:
    """In the order of their names."""
    return tuple(
        ExperimentEntry(
            name,
            experiment.title,
            experiment.paper,
            experiment.about,
            tuple(experiment.protocols),
            quick_words(experiment),
            full_words(experiment),
        )
        for name, experiment in all_experiments().items()
    )


def quick_words(experiment: Experiment) -> str:
    """'2 min' on two CPU cores."""
    minutes = experiment.quick_minutes
    return words.duration(60 * minutes) if minutes else UNKNOWN


def full_words(experiment: Experiment) -> str:
    """'3.5 h' on one CPU core."""
    hours = experiment.full_hours
    return words.duration(3600 * hours) if hours else UNKNOWN
