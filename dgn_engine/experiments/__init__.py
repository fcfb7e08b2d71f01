"""The experiments of the papers: one module each, with the constant EXPERIMENT."""

from __future__ import annotations

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.experiments._experiment import (
    Experiment,
    Plan,
    Request,
    check_options,
    effective_request,
)
from dgn_engine.plugins import discover_plugins
from dgn_engine.protocol.experiments import Claim, Figure, Findings, PlottedLine, Printed, Row

__all__ = [
    "Claim",
    "Experiment",
    "Figure",
    "Findings",
    "Plan",
    "PlottedLine",
    "Printed",
    "Request",
    "Row",
    "all_experiments",
    "check_options",
    "effective_request",
    "find_experiment",
]


def all_experiments() -> dict[str, Experiment]:
    """Return all experiments by name ('npf-table2', …)."""
    modules = discover_plugins("dgn_engine.experiments", "EXPERIMENT", Experiment)
    return {module.replace("_", "-"): experiment for module, experiment in modules.items()}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by name; raises `UserError` if there is none."""
    experiments = all_experiments()
    if name not in experiments:
        raise UserError(
            f"There is no experiment '{name}'. Available: {', '.join(experiments)}."
            f"{did_you_mean(name, experiments)}",
            kind="unknown-name",
            value=name,
        )
    return experiments[name]
