"""The declarations of the Experiments menu: one action for each experiment of the papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_viewer.actions.registry import ActionSpec, Shell

MENU = "Experiments"


class ExperimentActions(Protocol):
    """Who does it."""

    @property
    def running(self) -> bool: ...
    def stop(self) -> None: ...
    def open_result(self) -> None: ...
    def gate_information(self) -> None: ...


def result_actions(asked: ExperimentActions, show: Callable[[], None]) -> tuple[ActionSpec, ...]:
    """What does not depend on the list of experiments."""
    return (
        ActionSpec(
            "experiments.gate_information",
            "Gate information of a checkpoint…",
            MENU,
            lambda _: asked.gate_information(),
            tip="Train value networks with its gates and with random ones, on this run's data",
            enabled=lambda shell: _has_run(shell) and not asked.running,
            section=1,
        ),
        ActionSpec(
            "experiments.show",
            "Show results",
            MENU,
            lambda _: show(),
            ("Ctrl+Shift+X",),
            tip="The panel of the experiment that runs, or was opened last",
            section=2,
        ),
        ActionSpec(
            "experiments.stop",
            "Stop the experiment",
            MENU,
            lambda _: asked.stop(),
            icon="stop",
            tip="Put away what it is at; it can be continued",
            enabled=lambda _: asked.running,
            section=2,
        ),
        ActionSpec(
            "file.open_result",
            "Open result…",
            "File",
            lambda _: asked.open_result(),
            icon="open",
            tip="The folder of a reproduced experiment, of today or of earlier",
        ),
    )


def experiment_actions(
    entries: tuple[ExperimentEntry, ...], choose: Callable[[ExperimentEntry], None]
) -> tuple[ActionSpec, ...]:
    """One for each experiment; `choose` opens its page."""
    return tuple(
        ActionSpec(
            f"experiments.{entry.id}",
            f"{entry.paper}: {entry.title}…",
            MENU,
            lambda _, entry=entry: choose(entry),  # type: ignore[misc]
            tip=entry.about,
        )
        for entry in entries
    )


def _has_run(shell: Shell) -> bool:
    return shell.run_state.run is not None
