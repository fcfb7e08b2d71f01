"""The Experiments menu: one entry per experiment of the papers, and results."""

from __future__ import annotations

from functools import partial

from dgn_engine.experiments.report.papers import paper_title, place_in_paper
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Family, Menu, shows_run
from dgn_viewer.shell.experiment_runner import ExperimentRunner


def experiments_menu(experiments: ExperimentRunner) -> Menu:
    """Return the Experiments menu."""
    return Menu(
        "Experiments",
        (
            Family("experiment.*", submenus=True),
            SEPARATOR,
            ActionRow(
                id="experiments.gate_information",
                title="Gate information of a checkpoint…",
                callback=experiments.ask_checkpoint,
                tip="Compare value networks trained with its gates and with random gates, on "
                "this run's data",
                enabled=lambda now: shows_run(now) and not experiments.is_running,
            ),
            SEPARATOR,
            ActionRow(
                id="experiments.show",
                title="Show results",
                callback=experiments.results.open,
                keys=("Ctrl+Shift+X",),
                tip="Open the panel of the running experiment, or of the last result",
            ),
            ActionRow(
                id="experiments.stop",
                title="Stop experiment",
                callback=experiments.stop,
                icon="stop",
                tip="Stop now; you can resume later",
                enabled=lambda _: experiments.is_running,
            ),
        ),
        opening=experiments.refresh_results,
    )


def experiment_rows(catalogue: Catalogue, experiments: ExperimentRunner) -> tuple[ActionRow, ...]:
    """Return one row per experiment of the papers; each opens the page that starts it."""
    return tuple(
        ActionRow(
            id=f"experiment.{entry.id}",
            title=f"{entry.title}…",
            callback=partial(experiments.open_page, entry),
            tip=f"{entry.paper}. {entry.about}",
            text_now=partial(_experiment_text, experiments, entry),
            group=paper_title(entry.paper),
        )
        for entry in catalogue.experiments
    )


def _experiment_text(experiments: ExperimentRunner, entry: ExperimentEntry, _now: RunState) -> str:
    """Return a text such as 'Table 2: FLNPF beside FRNPF… · about 4 min · ✓ result from
    2026-11-02'."""
    location, day = place_in_paper(entry.paper), experiments.latest_result_day(entry.id)
    title = f"{location}: {entry.title}" if location else entry.title
    cost = "" if entry.quick_cost in ("", "not measured") else f" · about {entry.quick_cost}"
    return f"{title}…{cost}{f' · ✓ result from {day}' if day else ''}".replace("&", "&&")
