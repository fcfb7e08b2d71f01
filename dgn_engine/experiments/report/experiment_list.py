"""The experiments as a menu and a list show them, with their estimated costs in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgn_engine import experiments
from dgn_engine.experiments import Experiment, all_experiments
from dgn_engine.experiments.report import formatting
from dgn_engine.protocol.catalogue import ExperimentEntry

UNKNOWN = "not measured"


def experiment_entries() -> tuple[ExperimentEntry, ...]:
    """In the order of their names; read from their sources, because importing them takes seconds
    in which a window waits. Imported after all where the sources are not there or say it otherwise.
    """
    try:
        told = [(name, _declared(text)) for name, text in _sources()]
    except (OSError, SyntaxError, ValueError, LookupError):
        told = [(name, vars(found)) for name, found in all_experiments().items()]
    if not told:
        told = [(name, vars(found)) for name, found in all_experiments().items()]
    return tuple(
        ExperimentEntry(
            name,
            fields["title"],
            fields["paper"],
            fields["about"],
            tuple(fields.get("protocols", ("as-published",))),
            _minutes(fields["quick_minutes"]),
            _minutes(60 * fields["full_hours"]),
            tuple(fields.get("rows", ())),
            tuple(fields.get("asks", ())),
        )
        for name, fields in told
    )


def _sources() -> Iterator[tuple[str, str]]:
    folder = Path(experiments.__file__).parent
    for path in sorted(folder.glob("[a-z]*.py")):
        yield path.stem.replace("_", "-"), path.read_text(encoding="utf-8")


def _declared(source: str) -> dict[str, Any]:
    """What `EXPERIMENT = Experiment(…)` says in literals; functions are left out."""
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="EXPERIMENT")], value=ast.Call(keywords=said)):
                wanted = [one for one in said if one.arg not in ("plan", "findings", "claims")]
                return {str(one.arg): ast.literal_eval(one.value) for one in wanted}
    raise LookupError("it has no EXPERIMENT")


def _minutes(minutes: float) -> str:
    return formatting.duration(60 * minutes) if minutes else UNKNOWN


def quick_words(experiment: Experiment) -> str:
    """'2 min' on two CPU cores."""
    minutes = experiment.quick_minutes
    return formatting.duration(60 * minutes) if minutes else UNKNOWN


def full_words(experiment: Experiment) -> str:
    """'3.5 h' on one CPU core."""
    hours = experiment.full_hours
    return formatting.duration(3600 * hours) if hours else UNKNOWN
