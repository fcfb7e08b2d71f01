"""The View menu: panels, layouts, themes, past steps and comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby

from dgn_engine.protocol.branches import CloseComparison
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.layout_presets import PRESETS
from dgn_viewer.actions.action_rows import (
    SEPARATOR,
    ActionRow,
    Menu,
    shows_run,
    shows_run_and_ready,
)
from dgn_viewer.actions.action_views import ActionViews
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.notices import Notices
from dgn_viewer.shell.event_walk import EventWalk
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.presentation import Presentation
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_layout import FocusWalk
from dgn_viewer.shell.window_theme import WindowTheme
from dgn_viewer.timeline.step_cursor import StepCursor

_THEMES = (("light", "Light"), ("dark", "Dark"), ("system", "System"))


def view_menu(
    context: WindowContext,
    docks: PanelDocks,
    panels: Mapping[str, PanelSpec],
    time: TimeControls,
    events: EventWalk,
    parts: FocusWalk,
    pages: InspectorPages,
    files: FileDialogs,
    notices: Notices,
    views: ActionViews,
    presentation: Presentation,
) -> Menu:
    """Return the View menu. `events`, `parts`: keyboard navigation of events and of panels."""
    cursor = time.cursor
    panel_entries = (
        *_panel_lines(docks, panels),
        SEPARATOR,
        ActionRow(
            id="view.next_part",
            title="Next panel",
            callback=partial(parts.move_focus, 1),
            keys=("F6", "Ctrl+Tab"),
            tip="Move the focus to the next panel, the inspector or the layer strip",
        ),
        ActionRow(
            id="view.previous_part",
            title="Previous panel",
            callback=partial(parts.move_focus, -1),
            keys=("Shift+F6", "Ctrl+Shift+Tab"),
            tip="Move the focus to the previous panel, the inspector or the layer strip",
        ),
        ActionRow(
            id="view.chart_menu",
            title="Chart menu",
            callback=partial(_open_chart_menu, docks),
            keys=("Shift+F10", "Menu"),
            tip="Range, smoothing, colours and values of a chart in the front panel",
        ),
    )
    return Menu(
        "View",
        (
            ActionRow(
                id="view.palette",
                title="Command palette…",
                callback=lambda: views.palette.open(),
                keys=("Ctrl+Shift+P",),
                icon="search",
                tip="Find any action by name",
            ),
            Menu("Panels", panel_entries),
            ActionRow(
                id="view.maximise",
                title="Maximise panel",
                callback=docks.toggle_maximised,
                keys=("Ctrl+Shift+M",),
                icon="maximise",
                tip="Maximise the front panel; repeat or press Esc to restore",
                text_now=lambda _: (
                    "Restore panels" if docks.arrangement.maximised_name else "Maximise panel"
                ),
                icon_now=lambda _: "restore" if docks.arrangement.maximised_name else "maximise",
            ),
            Menu(
                "Layout",
                (
                    *layout_rows(docks),
                    SEPARATOR,
                    ActionRow(
                        id="view.presentation",
                        title="Presentation",
                        callback=presentation.toggle,
                        keys=("F5",),
                        tip="Three large panels, type at 150 %; again to restore the window",
                        checked=lambda _: presentation.is_on,
                    ),
                    ActionRow(
                        id="view.reset_layout",
                        title="Reset layout",
                        callback=docks.arrangement.arrange_preset,
                        tip="Restore the default layout",
                    ),
                    _side_by_side_row(docks),
                ),
            ),
            Menu("Theme", theme_rows(context.theme)),
            SEPARATOR,
            look_back_menu(time),
            step_axes_menu(docks, events, cursor),
            compare_menu(context, files, pages),
            SEPARATOR,
            ActionRow(
                id="view.notices",
                title="Recent notices",
                callback=notices.show_recent,
                tip="Show recent notices and their actions",
            ),
        ),
    )


def step_axes_menu(docks: PanelDocks, events: EventWalk, cursor: StepCursor) -> Menu:
    """Return the submenu of what is shown on the step axes."""
    return Menu(
        "Step axes",
        (
            ActionRow(
                id="view.previous_event",
                title="Previous event",
                callback=partial(events.go_to_event, -1),
                keys=("Alt+PgUp",),
                tip="Zoom every step axis to the previous event",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.next_event",
                title="Next event",
                callback=partial(events.go_to_event, 1),
                keys=("Alt+PgDown",),
                tip="Zoom every step axis to the next event: swap, permutation, drop or setting "
                "change",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.follow",
                title="Show all steps",
                callback=events.show_all_steps,
                keys=("Alt+End",),
                tip="Show all steps on every step axis, and follow the run",
                enabled=shows_run,
            ),
            SEPARATOR,
            ActionRow(
                id="view.delta",
                title="Mark this step",
                callback=partial(_mark_step, docks, cursor),
                keys=("Ctrl+Alt+D",),
                tip="Mark two steps to see in every chart what changed between them; Shift+click "
                "also marks a step",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.no_delta",
                title="Clear marked steps",
                callback=docks.steps.clear_marks,
                keys=("Ctrl+Alt+Shift+D",),
                tip="Remove the marked steps",
                enabled=lambda _: bool(docks.steps.marks),
            ),
            ActionRow(
                id="view.link_steps",
                title="Link step axes",
                callback=docks.steps.toggle_link,
                tip="Zoom all step axes together; 'reset' on a chart shows all steps again",
                checked=lambda _: docks.steps.is_linked,
            ),
        ),
    )


def compare_menu(context: WindowContext, files: FileDialogs, pages: InspectorPages) -> Menu:
    """Return the submenu of what compares two runs."""
    return Menu(
        "Compare",
        (
            ActionRow(
                id="file.compare_run",
                title="Compare with a recorded run…",
                callback=files.compare_run,
                keys=("Ctrl+Shift+O",),
                icon="panels",
                tip="Show the scores and network of a recorded run next to this one",
                enabled=shows_run_and_ready,
            ),
            ActionRow(
                id="view.compare",
                title="Table of differences",
                callback=pages.open_differences,
                keys=("Ctrl+D",),
                tip="A table of differing settings, and of scores, ν and traces of both",
                enabled=shows_run,
            ),
            ActionRow(
                id="file.close_comparison",
                title="Close comparison",
                callback=partial(context.send, CloseComparison()),
                icon="close",
                tip="Show only the current run",
                enabled=lambda now: now.comparison is not None,
            ),
        ),
    )


def look_back_menu(time: TimeControls) -> Menu:
    cursor = time.cursor

    def can_look_back(_now: RunState) -> bool:
        return not cursor.reason_not_available

    def why_live(_now: RunState) -> str:
        return cursor.reason_not_available

    def why_no_b(_now: RunState) -> str:
        if why := cursor.reason_not_available:
            return why
        return "" if cursor.step is not None else "Look back at a step first; it becomes B."

    return Menu(
        "Look back",
        (
            ActionRow(
                id="time.previous",
                title="Previous step",
                callback=partial(cursor.move_by, -1),
                keys=("Alt+Left",),
                tip="Show the previous recorded step in all panels (← on the time bar)",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.next",
                title="Next step",
                callback=partial(cursor.move_by, 1),
                keys=("Alt+Right",),
                tip="Show the next recorded step in all panels; after the last, go live",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.first",
                title="First step",
                callback=cursor.go_to_first,
                keys=("Alt+Home",),
                tip="Show the first recorded step in all panels",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.live",
                title="Back to live",
                callback=cursor.go_live,
                keys=("Ctrl+End",),
                icon="live",
                tip="Show the current state in all panels (Esc)",
                enabled=lambda _: cursor.step is not None,
            ),
            SEPARATOR,
            ActionRow(
                id="time.play",
                title="Play",
                callback=cursor.player.toggle_playing,
                keys=("Shift+Space",),
                icon="play",
                tip="Play the recorded steps in all panels; training continues",
                enabled=can_look_back,
                why_not=why_live,
                text_now=lambda _: (
                    "Stop playing" if cursor.player.is_playing else "Play the recorded steps"
                ),
                icon_now=lambda _: "stop" if cursor.player.is_playing else "play",
            ),
            ActionRow(
                id="time.compare",
                title="Compare with this step",
                callback=time.compare_step,
                keys=("Ctrl+Alt+B",),
                icon="panels",
                tip="Keep this step as B, and compare it with the current state or another step",
                enabled=lambda now: not why_no_b(now),
                why_not=why_no_b,
            ),
        ),
    )


def layout_rows(docks: PanelDocks) -> tuple[ActionRow, ...]:
    return tuple(
        ActionRow(
            id=f"view.layout.{name}",
            title=f"{preset.title} layout",
            callback=partial(docks.arrangement.arrange_preset, name),
            tip=preset.about,
            checked=lambda _, name=name: docks.arrangement.is_showing_preset(name),  # type: ignore[misc]
        )
        for name, preset in PRESETS.items()
    )


def _side_by_side_row(docks: PanelDocks) -> ActionRow:
    arrangement = docks.arrangement
    return ActionRow(
        id="view.side_by_side",
        title="A and B side by side",
        callback=arrangement.toggle_compare_layout,
        icon="panels",
        tip="Show A, B and A − B of each panel side by side, or return to the layout before",
        enabled=lambda now: now.comparison is not None,
        why_not=lambda _: "Nothing is compared.",
        text_now=lambda _: (
            "Back to layout" if arrangement.is_showing_comparison else "A and B side by side"
        ),
    )


def theme_rows(theme: WindowTheme) -> tuple[ActionRow, ...]:
    return tuple(
        ActionRow(
            id=f"view.theme.{name}",
            title=title,
            callback=partial(theme.select_theme, name),
            tip=f"{title} theme",
            checked=lambda _, name=name: theme.choice == name,  # type: ignore[misc]
        )
        for name, title in _THEMES
    )


def panel_rows(docks: PanelDocks, panels: Mapping[str, PanelSpec]) -> tuple[ActionRow, ...]:
    return tuple(
        ActionRow(
            id=f"panel.{name}",
            title=spec.title,
            callback=partial(docks.toggle_panel, name),
            keys=(f"Ctrl+{number}",) if number <= 9 else (),
            tip=f"Open or close {spec.title}",
            checked=lambda _, name=name: docks.arrangement.is_open(name),  # type: ignore[misc]
            group="" if spec.opened else "more",
        )
        for number, (name, spec) in enumerate(panels.items(), start=1)
    )


def _panel_lines(docks: PanelDocks, panels: Mapping[str, PanelSpec]) -> Iterator[ActionRow | None]:
    """Yield the rows of panels, with a separator between groups."""
    groups = groupby(panel_rows(docks, panels), key=lambda row: row.group)
    for index, (_, rows) in enumerate(groups):
        if index:
            yield SEPARATOR
        yield from rows


def _mark_step(docks: PanelDocks, cursor: StepCursor) -> None:
    docks.steps.mark_step(cursor.last_step if cursor.step is None else cursor.step)


def _open_chart_menu(docks: PanelDocks) -> None:
    if name := docks.front_panel():
        docks.hosts[name].charts.open_menu()
