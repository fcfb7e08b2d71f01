"""The Edit menu: undo and history of the run, undo of the layout, probe examples, settings."""

from __future__ import annotations

from functools import partial

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Redo, Undo, UndoSetting
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, shows_run
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.window_context import WindowContext

_LONGEST = 60  # characters of the change that Undo names


def edit_menu(context: WindowContext, layouts: LayoutHistory, pages: InspectorPages) -> Menu:
    """Return the Edit menu."""
    return Menu(
        "Edit",
        (
            ActionRow(
                id="edit.undo",
                title="Undo",
                callback=partial(context.send, Undo()),
                keys=("Ctrl+Z",),
                icon="undo",
                tip="Restore the run to before its last change: weights, optimiser, settings and "
                "data order. The step counter keeps running",
                enabled=lambda now: bool(now.has_run and now.undo),
                text_now=lambda now: _undo_text("Undo", now.undo),
            ),
            ActionRow(
                id="edit.redo",
                title="Redo",
                callback=partial(context.send, Redo()),
                keys=("Ctrl+Shift+Z", "Ctrl+Y"),
                icon="redo",
                tip="Redo the last change that was undone",
                enabled=lambda now: bool(now.has_run and now.redo),
                text_now=lambda now: _undo_text("Redo", now.redo),
            ),
            ActionRow(
                id="edit.undo_setting",
                title="Revert the setting only",
                callback=partial(context.send, UndoSetting()),
                tip="Restore the setting that was changed last; keep the current weights",
                enabled=lambda now: (
                    now.has_run and now.diverged is None and bool(_changed_setting(now))
                ),
                text_now=lambda now: f"Revert {_changed_setting(now) or 'the setting'} only",
            ),
            ActionRow(
                id="view.changes",
                title="History",
                callback=pages.open_changes,
                keys=("Ctrl+H",),
                tip="List every change to the run, and go back to any of them",
                enabled=shows_run,
            ),
            SEPARATOR,
            ActionRow(
                id="edit.undo_layout",
                title="Undo layout",
                callback=layouts.undo,
                keys=("Ctrl+Alt+Z",),
                tip="Restore the panels and the shared zoom of the step axes to before the last "
                "change",
                enabled=lambda _: layouts.can_undo,
            ),
            ActionRow(
                id="edit.redo_layout",
                title="Redo layout",
                callback=layouts.redo,
                keys=("Ctrl+Alt+Shift+Z",),
                tip="Redo the last layout change that was undone",
                enabled=lambda _: layouts.can_redo,
            ),
            SEPARATOR,
            ActionRow(
                id="edit.examples",
                title="Probe examples…",
                callback=pages.open_examples,
                keys=("Ctrl+Shift+D",),
                tip="Choose the examples that every kernel panel uses: by class, one by one, "
                "misclassified ones, or an image that you draw",
                enabled=shows_run,
            ),
            ActionRow(
                id="edit.settings",
                title="Settings…",
                callback=pages.open_settings,
                keys=("Ctrl+,",),
                icon="settings",
                tip="Run at startup, theme, viewer overhead, shortcuts",
            ),
        ),
    )


def _changed_setting(now: RunState) -> str:
    return now.changes.last_setting if now.changes is not None else ""


def _undo_text(word: str, what: str) -> str:
    shown = what if len(what) <= _LONGEST else f"{what[: _LONGEST - 1]}…"
    return f"{word} {shown.replace('&', '&&')}".rstrip()
