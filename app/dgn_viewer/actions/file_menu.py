"""The File menu: runs, checkpoints, configurations, sessions and exports."""

from __future__ import annotations

from functools import partial

from dgn_viewer.actions.action_rows import (
    SEPARATOR,
    ActionRow,
    Menu,
    has_run,
    is_ready,
    shows_run,
    shows_run_and_ready,
)
from dgn_viewer.shell.export import Exports
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.recent_files import MOST, RecentFiles
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.timeline.step_cursor import StepCursor


def file_menu(
    context: WindowContext,
    files: FileDialogs,
    recorded: RecordedRuns,
    exports: Exports,
    pages: InspectorPages,
    cursor: StepCursor,
) -> Menu:
    """Return the File menu."""
    return Menu(
        "File",
        (
            ActionRow(
                id="file.new_run",
                title="New run…",
                callback=pages.open_new_run,
                keys=("Ctrl+N",),
                icon="new",
                tip="Start a run on points, digits, your data, or with all settings",
                enabled=is_ready,
            ),
            ActionRow(
                id="file.open",
                title="Open…",
                callback=files.open_any,
                keys=("Ctrl+O",),
                icon="open",
                tip="Open a run, session, configuration, checkpoint, result or images",
                enabled=is_ready,
            ),
            Menu("Open recent", recent_rows(files.recent)),
            ActionRow(
                id="file.open_run",
                title="Recorded runs…",
                callback=recorded.open_run,
                keys=("Ctrl+Shift+R",),
                icon="layers",
                tip="Browse your recorded runs: view or continue one",
                enabled=is_ready,
            ),
            ActionRow(
                id="file.follow_run",
                title="Follow a run over ssh…",
                callback=recorded.remote.open,
                tip="Watch a run on another machine live, served there by 'dgn serve'",
                enabled=is_ready,
            ),
            ActionRow(
                id="file.go_back",
                title="Return to previous run",
                callback=recorded.return_to_previous_run,
                icon="undo",
                tip="Continue the run that was replaced by this recorded one",
                enabled=lambda now: bool(now.recorded and now.recorded.replaced),
            ),
            SEPARATOR,
            save_menu(files, recorded),
            export_menu(exports, cursor),
            SEPARATOR,
            ActionRow(
                id="file.quit",
                title="Quit",
                callback=context.window.close,
                keys=("Ctrl+Q",),
            ),
        ),
        opening=files.recent.check_missing,
    )


def save_menu(files: FileDialogs, recorded: RecordedRuns) -> Menu:
    """Return the submenu of what saves the run."""
    return Menu(
        "Save",
        (
            ActionRow(
                id="file.save_configuration",
                title="Save configuration…",
                callback=files.save_configuration,
                keys=("Ctrl+S",),
                icon="file",
                tip="Save the settings of this run as TOML, for --config and dgn train",
                enabled=shows_run,
            ),
            ActionRow(
                id="file.save_weights",
                title="Save weights…",
                callback=files.save_weights,
                keys=("Ctrl+Shift+S",),
                icon="file",
                tip="Save the weights of both networks; drop the file on the window to load them",
                enabled=has_run,
            ),
            ActionRow(
                id="file.save_session",
                title="Save session…",
                callback=recorded.save_session,
                keys=("Ctrl+Alt+S",),
                icon="save",
                tip="Save run, log, checkpoint and window layout to one file (.dgn) for another "
                "machine",
                enabled=shows_run_and_ready,
            ),
        ),
    )


def export_menu(exports: Exports, cursor: StepCursor) -> Menu:
    """Return the submenu of what saves panels."""
    return Menu(
        "Export",
        (
            ActionRow(
                id="file.export_panel",
                title="Export panel…",
                callback=exports.save_front_panel,
                keys=("Ctrl+E",),
                icon="export",
                tip="Save the front panel as a figure or as data",
            ),
            ActionRow(
                id="file.export_all",
                title="Export all panels…",
                callback=exports.save_visible_panels,
                keys=("Ctrl+Shift+E",),
                icon="export",
                tip="Save every visible panel as a figure or as data",
            ),
            ActionRow(
                id="file.save_animation",
                title="Save animation…",
                callback=exports.animations.open,
                keys=("Ctrl+Alt+E",),
                tip="Save panels over a range of recorded steps as a GIF (or MP4, with ffmpeg)",
                enabled=lambda _: not cursor.reason_not_available,
                why_not=lambda _: cursor.reason_not_available,
            ),
        ),
    )


def recent_rows(recent: RecentFiles) -> tuple[ActionRow, ...]:
    return tuple(_recent_row(recent, index) for index in range(MOST))


def _recent_row(recent: RecentFiles, index: int) -> ActionRow:
    return ActionRow(
        id=f"recent.{index + 1}",
        title="Open recent",
        callback=partial(recent.open_item, index),
        tip="Open it again",
        enabled=lambda now: now.is_ready and recent.is_on_disk(index),
        visible=lambda _: index < len(recent.items),
        text_now=lambda _: recent.menu_text(index) or "Open recent",
        fixed=False,
    )
