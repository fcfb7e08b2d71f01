"""The menu View: panels, layouts, themes, time, and the parts of the window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby

from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.layout_presets import PRESETS
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, shows_run
from dgn_viewer.actions.palette import Palette
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.notices import Notices
from dgn_viewer.shell.event_walk import EventWalk
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_layout import FocusWalk
from dgn_viewer.shell.window_theme import WindowTheme
from dgn_viewer.timeline.step_cursor import StepCursor

_THEMES = (("light", "Light"), ("dark", "Dark"), ("system", "As the system"))


def view_menu(
    context: WindowContext,
    docks: PanelDocks,
    panels: Mapping[str, PanelSpec],
    time: TimeControls,
    events: EventWalk,
    parts: FocusWalk,
    pages: InspectorPages,
    notices: Notices,
    palette: Palette,
) -> Menu:
    """Return the menu. `events`, `parts`: those that one goes through by the keyboard."""
    cursor = time.cursor
    return Menu(
        "View",
        (
            ActionRow(
                id="view.palette",
                title="Command palette…",
                callback=palette.open,
                keys=("Ctrl+Shift+P",),
                icon="search",
                tip="Find any action by its name",
            ),
            Menu("Panels", tuple(_panel_lines(docks, panels))),
            SEPARATOR,
            ActionRow(
                id="view.maximise",
                title="Maximise panel",
                callback=docks.toggle_maximised,
                keys=("Ctrl+Shift+M",),
                icon="maximise",
                tip="Let the panel in front fill the window; again, or Esc: as it was before",
                text_now=lambda _: (
                    "Restore panels" if docks.arrangement.maximised else "Maximise panel"
                ),
                icon_now=lambda _: "restore" if docks.arrangement.maximised else "maximise",
            ),
            Menu(
                "Layout",
                (
                    *layout_rows(docks),
                    SEPARATOR,
                    ActionRow(
                        id="view.reset_layout",
                        title="Reset layout",
                        callback=docks.arrangement.arrange,
                        tip="Put every panel back to where it was at first",
                    ),
                ),
            ),
            SEPARATOR,
            Menu("Theme", theme_rows(context.theme)),
            SEPARATOR,
            look_back_menu(time),
            ActionRow(
                id="view.previous_event",
                title="Previous event",
                callback=partial(events.go, -1),
                keys=("Alt+PgUp",),
                tip="Show the steps around the event before on every time axis",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.next_event",
                title="Next event",
                callback=partial(events.go, 1),
                keys=("Alt+PgDown",),
                tip="Show the steps around the next swap, permutation, drop or dial",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.follow",
                title="Follow again",
                callback=events.follow,
                keys=("Alt+End",),
                tip="Show all steps on every time axis, up to the newest",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.delta",
                title="Mark this step",
                callback=partial(_mark_step, docks, cursor),
                keys=("Ctrl+Alt+D",),
                tip="Of two marked steps every chart over steps says what has changed between "
                "them; a click with Shift marks, too",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.no_delta",
                title="No marked steps",
                callback=docks.steps.clear,
                keys=("Ctrl+Alt+Shift+D",),
                tip="Take the marked steps away",
                enabled=lambda _: bool(docks.steps.marks),
            ),
            ActionRow(
                id="view.link_steps",
                title="Zoom steps together",
                callback=docks.steps.toggle,
                tip="All time axes show the same steps; a double click shows all of them again",
                checked=lambda _: docks.steps.linked,
            ),
            SEPARATOR,
            ActionRow(
                id="view.next_part",
                title="Next panel",
                callback=partial(parts.go, 1),
                keys=("F6", "Ctrl+Tab"),
                tip="Give the keyboard to the next part: the strip, each panel, the inspector",
            ),
            ActionRow(
                id="view.previous_part",
                title="Previous panel",
                callback=partial(parts.go, -1),
                keys=("Shift+F6", "Ctrl+Shift+Tab"),
                tip="Give the keyboard to the part before",
            ),
            SEPARATOR,
            ActionRow(
                id="view.compare",
                title="Differences of A and B",
                callback=pages.compare,
                keys=("Ctrl+D",),
                icon="panels",
                tip="What is set differently, and scores, ν and traces of both in a table",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.changes",
                title="Changes of the run",
                callback=pages.changes,
                keys=("Ctrl+H",),
                tip="Each in words, with its values; the run can be taken back to before any",
                enabled=shows_run,
            ),
            ActionRow(
                id="view.notices",
                title="Recent notices",
                callback=notices.show_recent,
                tip="What happened lately, and what can still be done about it",
            ),
            ActionRow(
                id="view.chart_menu",
                title="Menu of the chart",
                callback=partial(_open_chart_menu, docks),
                keys=("Shift+F10", "Menu"),
                tip="Range, smoothing, colours and values of a chart of the panel in front",
            ),
        ),
    )


def look_back_menu(time: TimeControls) -> Menu:
    cursor = time.cursor

    def can_look_back(_now: RunState) -> bool:
        return not cursor.why_not

    def why_live(_now: RunState) -> str:
        return cursor.why_not

    def why_no_b(_now: RunState) -> str:
        if why := cursor.why_not:
            return why
        return "" if cursor.step is not None else "Look back at a step first: it becomes B."

    return Menu(
        "Look back",
        (
            ActionRow(
                id="time.previous",
                title="Step before",
                callback=partial(cursor.move, -1),
                keys=("Alt+Left",),
                tip="All panels show the recorded step before; on the bar of time ← does the same",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.next",
                title="Step after",
                callback=partial(cursor.move, 1),
                keys=("Alt+Right",),
                tip="All panels show the next recorded step, and beyond the last what is there now",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.first",
                title="First step",
                callback=cursor.first,
                keys=("Alt+Home",),
                tip="All panels show the first recorded step",
                enabled=can_look_back,
                why_not=why_live,
            ),
            ActionRow(
                id="time.live",
                title="Back to live",
                callback=cursor.live,
                keys=("Ctrl+End",),
                icon="live",
                tip="All panels show what is there now again (Esc)",
                enabled=lambda _: cursor.step is not None,
            ),
            SEPARATOR,
            ActionRow(
                id="time.play",
                title="Play",
                callback=cursor.player.play,
                keys=("Shift+Space",),
                icon="play",
                tip="Let all panels run through what was recorded; training goes on",
                enabled=can_look_back,
                why_not=why_live,
                text_now=lambda _: (
                    "Stop playing" if cursor.player.playing else "Play the recorded steps"
                ),
                icon_now=lambda _: "stop" if cursor.player.playing else "play",
            ),
            ActionRow(
                id="time.compare",
                title="Compare with this step",
                callback=time.compare_step,
                keys=("Ctrl+Alt+B",),
                icon="panels",
                tip="Keep the step that is looked back at as B, beside what is there now or at "
                "another step",
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
            callback=partial(docks.arrangement.arrange, name),
            tip=preset.about,
            checked=lambda _, name=name: docks.arrangement.stands_as(name),  # type: ignore[misc]
        )
        for name, preset in PRESETS.items()
    )


def theme_rows(theme: WindowTheme) -> tuple[ActionRow, ...]:
    return tuple(
        ActionRow(
            id=f"view.theme.{name}",
            title=title,
            callback=partial(theme.choose, name),
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
            callback=partial(docks.toggle, name),
            keys=(f"Ctrl+{number}",) if number <= 9 else (),
            tip=f"Open or close {spec.title}",
            checked=lambda _, name=name: docks.arrangement.is_open(name),  # type: ignore[misc]
            group="" if spec.opened else "more",
        )
        for number, (name, spec) in enumerate(panels.items(), start=1)
    )


def _panel_lines(docks: PanelDocks, panels: Mapping[str, PanelSpec]) -> Iterator[ActionRow | None]:
    """Yield the rows of panels, with a line between their groups."""
    groups = groupby(panel_rows(docks, panels), key=lambda row: row.group)
    for index, (_, rows) in enumerate(groups):
        if index:
            yield SEPARATOR
        yield from rows


def _mark_step(docks: PanelDocks, cursor: StepCursor) -> None:
    docks.steps.mark(cursor.last_step if cursor.step is None else cursor.step)


def _open_chart_menu(docks: PanelDocks) -> None:
    if name := docks.front():
        docks.hosts[name].charts.open_menu()
