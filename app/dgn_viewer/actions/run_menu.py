"""The menu Run: training, pausing, branches, and a network that is inspected trained on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.protocol.branches import StopBranch
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Advance, GoBack, Reset
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, has_run
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.window_context import WindowContext


def run_menu(
    context: WindowContext,
    control: RunControl,
    pages: InspectorPages,
    start_engine: Callable[[], object],
) -> Menu:
    """Return the menu. `start_engine`: starts another engine in the place of a stopped one."""
    return Menu(
        "Run",
        (
            ActionRow(
                id="run.toggle",
                title="Run",
                callback=control.toggle,
                keys=("Space",),
                icon="run",
                tip="Train, or pause between two steps",
                enabled=has_run,
                why_not=_why_not_trained,
                text_now=_toggle_text,
                icon_now=lambda now: "pause" if now.running else "run",
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
                tip="Begin again with the same settings and seed",
                enabled=has_run,
            ),
            ActionRow(
                id="run.go_back",
                title="Go back to the last finite state",
                callback=partial(context.send, GoBack()),
                keys=("Ctrl+Alt+R",),
                icon="undo",
                tip="Put a run that has diverged back to its newest finite state: weights, "
                "optimiser and dials. It stays paused, and its count of steps goes on",
                enabled=lambda now: now.has_run and now.back_to is not None,
                text_now=_back_text,
            ),
            SEPARATOR,
            ActionRow(
                id="run.branch",
                title="Branch from here…",
                callback=pages.compare,
                keys=("Ctrl+B",),
                tip="Train the same run with another regime, order, rate or seed beside it, from "
                "now or from any step that it has taken",
                enabled=has_run,
            ),
            ActionRow(
                id="run.stop_branch",
                title="Stop the branch",
                callback=partial(context.send, StopBranch()),
                icon="stop",
                tip="Stop training the branch; it stays recorded among your runs",
                enabled=lambda now: now.branch is not None and now.branch.trains,
            ),
            SEPARATOR,
            ActionRow(
                id="run.train_on",
                title="Train on from here",
                callback=partial(control.train_on, 0),
                tip="Begin a run with the weights of the network that is inspected, and its own "
                "gates",
                enabled=partial(_can_train_on, 0),
                why_not=partial(_why_not_train_on, 0),
            ),
            ActionRow(
                id="run.train_on_gates",
                title="Train on, gates fixed",
                callback=partial(control.train_on, 1),
                tip="Begin a run with its weights whose gates stand still as they are (FL)",
                enabled=partial(_can_train_on, 1),
                why_not=partial(_why_not_train_on, 1),
            ),
            SEPARATOR,
            ActionRow(
                id="run.start_engine",
                title="Start the engine again",
                callback=start_engine,
                tip="After the engine has stopped: the same run, paused, where its folder has it",
                enabled=lambda now: now.phase == "stopped",
            ),
        ),
    )


def _toggle_text(now: RunState) -> str:
    if now.running:
        return "Pause"
    return "Continue" if now.recorded is not None else "Run"


def _why_not_trained(now: RunState) -> str:
    name = now.inspected
    if now.run is not None and now.run.watched:
        return f"Trained by another program ({now.run.watched}): it goes on there, not here."
    return f"Inspecting {name}: not training. Train on from here, or begin a run." if name else ""


def _back_text(now: RunState) -> str:
    step = "the last finite state" if now.back_to is None else f"step {now.back_to:,}"
    return f"Go back to {step}"


def _can_train_on(index: int, now: RunState) -> bool:
    """Whether the network that is inspected can be trained in the regime of this index."""
    return now.training is not None and index < len(now.training.regimes)


def _why_not_train_on(index: int, now: RunState) -> str:
    if now.training is None:
        return "" if not now.inspected else "It is still being read."
    if index < len(now.training.regimes):
        return ""
    return now.training.remark or "Its own gates are those that it can be trained with."
