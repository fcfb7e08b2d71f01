"""The menu Edit: undo of the run and of the layout, probe examples, settings."""

from __future__ import annotations

from functools import partial

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Redo, Undo, UndoSetting
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, shows_run
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.window_context import WindowContext

_LONGEST = 60  # letters of what an undo would take back


def edit_menu(context: WindowContext, layouts: LayoutHistory, pages: InspectorPages) -> Menu:
    """Return the menu."""
    return Menu(
        "Edit",
        (
            ActionRow(
                id="edit.undo",
                title="Undo",
                callback=partial(context.send, Undo()),
                keys=("Ctrl+Z",),
                icon="undo",
                tip="Put the run back to before its last change: weights, optimiser, settings and "
                "order of the data. Its count of steps goes on",
                enabled=lambda now: bool(now.has_run and now.undo),
                text_now=lambda now: _named("Undo", now.undo),
            ),
            ActionRow(
                id="edit.redo",
                title="Redo",
                callback=partial(context.send, Redo()),
                keys=("Ctrl+Shift+Z", "Ctrl+Y"),
                icon="redo",
                tip="Do again what was undone last",
                enabled=lambda now: bool(now.has_run and now.redo),
                text_now=lambda now: _named("Redo", now.redo),
            ),
            ActionRow(
                id="edit.undo_setting",
                title="Put only the setting back",
                callback=partial(context.send, UndoSetting()),
                tip="Put the setting back that was changed last, and keep the weights as they are "
                "now",
                enabled=lambda now: now.has_run and now.diverged is None and bool(_setting(now)),
                text_now=lambda now: f"Put only {_setting(now) or 'the setting'} back",
            ),
            SEPARATOR,
            ActionRow(
                id="edit.undo_layout",
                title="Undo layout",
                callback=layouts.undo,
                keys=("Ctrl+Alt+Z",),
                tip="Put the panels, and the zoom that time axes share, back to what they were "
                "before the last change",
                enabled=lambda _: layouts.can_undo,
            ),
            ActionRow(
                id="edit.redo_layout",
                title="Redo layout",
                callback=layouts.redo,
                keys=("Ctrl+Alt+Shift+Z",),
                tip="Do again the change of the layout that was undone last",
                enabled=lambda _: layouts.can_redo,
            ),
            SEPARATOR,
            ActionRow(
                id="edit.examples",
                title="Probe examples…",
                callback=pages.examples,
                keys=("Ctrl+Shift+D",),
                tip="Choose what every kernel panel is measured on: by class, by hand, the "
                "misclassified, or a digit that you draw",
                enabled=shows_run,
            ),
            ActionRow(
                id="edit.settings",
                title="Settings…",
                callback=pages.settings,
                keys=("Ctrl+,",),
                icon="settings",
                tip="The run at start, theme, viewer overhead, shortcuts",
            ),
        ),
    )


def _setting(now: RunState) -> str:
    return now.changes.setting if now.changes is not None else ""


def _named(word: str, what: str) -> str:
    shown = what if len(what) <= _LONGEST else f"{what[: _LONGEST - 1]}…"
    return f"{word} {shown.replace('&', '&&')}".rstrip()
