"""List the experiments with their estimated costs, for menus and tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgn_engine import experiments
from dgn_engine.experiments import all_experiments
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.text.written_numbers import format_duration

UNKNOWN = "not measured"


def experiment_entries() -> tuple[ExperimentEntry, ...]:
    """Return the experiments sorted by name.

    They are read from the source files, because importing them takes seconds; if the sources are
    missing or not literal, they are imported.
    """
    try:
        entries = [(name, _literal_fields(text)) for name, text in _experiment_sources()]
    except (OSError, SyntaxError, ValueError, LookupError):
        entries = []
    if not entries:
        entries = [(name, vars(experiment)) for name, experiment in all_experiments().items()]
    return tuple(
        ExperimentEntry(
            name,
            fields["title"],
            fields["paper"],
            fields["about"],
            tuple(fields.get("protocols", ("as-published",))),
            format_cost(fields["quick_minutes"]),
            format_cost(60 * fields["full_hours"]),
            tuple(fields.get("rows", ())),
            tuple(fields.get("asks", ())),
            fields.get("question", ""),
        )
        for name, fields in entries
    )


def _experiment_sources() -> Iterator[tuple[str, str]]:
    folder = Path(experiments.__file__).parent
    for path in sorted(folder.glob("[a-z]*.py")):
        yield path.stem.replace("_", "-"), path.read_text(encoding="utf-8")


def _literal_fields(source: str) -> dict[str, Any]:
    """Return the literal fields of `EXPERIMENT = Experiment(…)` in a source, without functions."""
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="EXPERIMENT")], value=ast.Call(keywords=said)):
                wanted = [
                    keyword for keyword in said if keyword.arg not in ("plan", "findings", "claims")
                ]
                return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in wanted}
    raise LookupError("EXPERIMENT is missing")


def format_cost(minutes: float) -> str:
    """Format an estimated time of an experiment; 0 is unknown."""
    return format_duration(60 * minutes) if minutes else UNKNOWN
