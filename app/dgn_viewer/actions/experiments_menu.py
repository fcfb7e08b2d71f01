"""The Experiments menu: the list of all experiments, and the one that runs."""

from __future__ import annotations

from functools import partial

from dgn_engine.protocol.catalogue import Catalogue
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Family, Menu, shows_run
from dgn_viewer.shell.experiment_runner import ExperimentRunner


def experiments_menu(experiments: ExperimentRunner) -> Menu:
    """Return the Experiments menu; single experiments are found in the palette."""
    return Menu(
        "Experiments",
        (
            ActionRow(
                id="experiments.list",
                title="Experiments…",
                callback=experiments.show_list,
                icon="panels",
                tip="What the papers ask, with cost, state and a picture of your last result",
            ),
            Family("experiment.*", listed=False),
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
                callback=experiments.show_results,
                keys=("Ctrl+Shift+X",),
                tip="Show the running experiment, or the last result",
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
    )


def experiment_rows(catalogue: Catalogue, experiments: ExperimentRunner) -> tuple[ActionRow, ...]:
    """Return one row per experiment of the papers; each opens the page that starts it."""
    return tuple(
        ActionRow(
            id=f"experiment.{entry.id}",
            title=f"{entry.question or entry.title}…",
            callback=partial(experiments.open_page, entry),
            tip=f"{entry.title}. {entry.paper}. {entry.about}",
        )
        for entry in catalogue.experiments
    )
