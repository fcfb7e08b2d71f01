"""The Run menu: training, pausing, branches, and training an inspected network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.protocol.branches import StopBranch
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Advance, GoBack, Reset
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, has_run
from dgn_viewer.actions.playground_menu import playground_menu
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.playground_control import PlaygroundControl
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.window_context import WindowContext


def run_menu(
    context: WindowContext,
    control: RunControl,
    pages: InspectorPages,
    start_engine: Callable[[], object],
    playground: PlaygroundControl,
) -> Menu:
    """Return the Run menu. `start_engine` replaces a stopped engine with a new one."""
    return Menu(
        "Run",
        (
            ActionRow(
                id="run.toggle",
                title="Run",
                callback=control.toggle_training,
                keys=("Space",),
                icon="run",
                tip="Start or pause training",
                enabled=has_run,
                why_not=_why_not_trained,
                text_now=_toggle_text,
                icon_now=lambda now: "pause" if now.is_running else "run",
            ),
            ActionRow(
                id="run.step",
                title="One step",
                callback=partial(context.send, Advance(1)),
                keys=(".",),
                icon="step",
                tip="Take one training step, then pause",
                enabled=has_run,
            ),
            ActionRow(
                id="run.epoch",
                title="One epoch",
                callback=control.finish_epoch,
                keys=("Shift+.",),
                icon="epoch",
                tip="Train to the end of this epoch, then pause",
                enabled=has_run,
            ),
            ActionRow(
                id="run.reset",
                title="Reset",
                callback=partial(context.send, Reset()),
                keys=("Ctrl+R",),
                icon="reset",
                tip="Restart with the same settings and seed",
                enabled=has_run,
            ),
            ActionRow(
                id="run.go_back",
                title="Go back to the last finite state",
                callback=partial(context.send, GoBack()),
                keys=("Ctrl+Alt+R",),
                icon="undo",
                tip="Restore a diverged run to its last finite state: weights, optimiser and "
                "settings. It stays paused; the step counter keeps running",
                enabled=lambda now: now.has_run and now.back_to is not None,
                text_now=_back_text,
            ),
            SEPARATOR,
            playground_menu(playground),
            ActionRow(
                id="run.branch",
                title="Branch from here…",
                callback=pages.open_differences,
                keys=("Ctrl+B",),
                tip="Train a copy of this run with another regime, gate order, learning rate or "
                "seed, from now or from any earlier step",
                enabled=has_run,
            ),
            ActionRow(
                id="run.stop_branch",
                title="Stop branch",
                callback=partial(context.send, StopBranch()),
                icon="stop",
                tip="Stop training the branch; it stays in your recorded runs",
                enabled=lambda now: now.branch is not None and now.branch.is_training,
            ),
            SEPARATOR,
            ActionRow(
                id="run.train_on",
                title="Train from here",
                callback=partial(control.train_on, 0),
                tip="Start a run from the weights of the inspected network, with its own gates",
                enabled=partial(_can_train_on, 0),
                why_not=partial(_why_not_train_on, 0),
            ),
            ActionRow(
                id="run.train_on_gates",
                title="Train with gates fixed",
                callback=partial(control.train_on, 1),
                tip="Start a run from the weights of the inspected network, with its "
                "gates frozen (FL)",
                enabled=partial(_can_train_on, 1),
                why_not=partial(_why_not_train_on, 1),
            ),
            SEPARATOR,
            ActionRow(
                id="run.start_engine",
                title="Start the engine again",
                callback=start_engine,
                tip="Restart a stopped engine: the same run, paused at its last recorded state",
                enabled=lambda now: now.phase == "stopped",
            ),
        ),
    )


def _toggle_text(now: RunState) -> str:
    if now.is_running:
        return "Pause"
    return "Continue" if now.recorded is not None else "Run"


def _why_not_trained(now: RunState) -> str:
    name = now.inspected_file
    if now.run is not None and now.run.watched:
        return f"This run is trained by another program ({now.run.watched}); control it there."
    return (
        f"Inspecting {name}: not training. Choose Train from here, or start a run." if name else ""
    )


def _back_text(now: RunState) -> str:
    step = "the last finite state" if now.back_to is None else f"step {now.back_to:,}"
    return f"Go back to {step}"


def _can_train_on(index: int, now: RunState) -> bool:
    """Return whether the inspected network can be trained in the regime with this index."""
    return now.training is not None and index < len(now.training.regimes)


def _why_not_train_on(index: int, now: RunState) -> str:
    if now.training is None:
        return "" if not now.inspected_file else "Still reading the network."
    if index < len(now.training.regimes):
        return ""
    return now.training.remark or "This network can only be trained with its own gates."
