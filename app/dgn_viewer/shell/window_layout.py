"""Layout of the window: side columns, focus order, and saving in settings and session files.

In a session file the layout is plain JSON, because the file may come from another machine or from
an untrusted source; invalid entries are ignored.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QTabBar,
    QToolBar,
    QToolButton,
    QWidget,
)

from dgn_engine.scene.kept_charts import charts_as_json, charts_from_json
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.docks.panel_dock import CHART
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.rail.rail_bar import RailBar
from dgn_viewer.settings import LAYOUT_VERSION
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.style.stylesheet import plain_tip

_PANELS = 600  # pixels that two columns leave to the panels
_SEPARATOR = 4  # pixels between two columns
_THEMES = ("light", "dark")
_SMALLEST = (800, 500)  # minimum size of the window, pixels
_LARGEST = 1 << 14
_LONGEST = 200  # characters of an option value


class FocusWalk:
    """Moves the focus between the layer strip, the list of runs, the panels and the inspector."""

    def __init__(
        self, strip: LayersStrip, docks: PanelDocks, columns: SideColumns, runs: RailBar
    ) -> None:
        self._strip, self._docks, self._columns, self._runs = strip, docks, columns, runs

    def move_focus(self, step: int) -> None:
        """Focus the next (1) or previous (-1) part."""
        stops = self._focus_stops()
        if not stops:
            return
        now = QApplication.focusWidget()
        focused = [index for index, stop in enumerate(stops) if _contains_widget(stop, now)]
        current = focused[0] if focused else (-1 if step > 0 else 0)
        stops[(current + step) % len(stops)].setFocus(Qt.FocusReason.TabFocusReason)

    def _focus_stops(self) -> list[QWidget]:
        chips = [chip for chip in self._strip.canvas.chips if chip.isEnabled()][:1]
        panels = [self._docks.hosts[name] for name in self._docks.visible_panels()]
        page = [self._columns.inspector] if self._columns.page.isVisible() else []
        runs = [self._runs.rail.table] if self._runs.rail.isVisible() else []
        return [*chips, *runs, *panels, *page]


def _contains_widget(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def name_platform_parts(window: QMainWindow) -> None:
    """Name widgets that Qt creates: tab bars of docks, and buttons for hidden toolbar items.

    Tabs get their full text as tooltip.
    """
    own = Qt.FindChildOption.FindDirectChildrenOnly
    for bar in window.findChildren(QTabBar, options=own):
        if not bar.accessibleName():
            bar.setAccessibleName("Tabbed panels")
        for index in range(bar.count()):  # narrow tabs elide their text
            bar.setTabToolTip(index, plain_tip(bar.tabText(index)))
    for holder in (*window.findChildren(QToolBar, options=own), window.menuBar()):
        for button in holder.findChildren(QToolButton, options=own):
            if button.objectName().startswith("qt_") and not button.accessibleName():
                button.setAccessibleName("More")


class SideColumns(QObject):
    """The inspector column (`page`, on the right) and the column of experiments next to it.

    Qt would enlarge the window beyond the screen to show a column without room. Here the column
    opened last stays, and that of experiments returns when the page is closed.
    """

    def __init__(self, window: QMainWindow, context: WindowContext) -> None:
        super().__init__(window)
        self._window = window
        self.inspector = Inspector(context.send, context.view)
        self.page = InspectorDock(self.inspector, window)
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.page)
        self.page.hide()  # addDockWidget() shows it
        self.results = ResultsDock(window, self.page, context.theme.now)
        self._runs: RailBar | None = None
        self._waiting = False  # experiments reopen when the page is closed
        self.page.opening.connect(self._on_page_opening)
        self.results.opening.connect(self._on_results_opening)
        self.inspector.closed.connect(self._on_page_closed)
        for part in (self.inspector, self.results):
            context.theme.changed.connect(part.set_theme)

    def make_room(self, runs: RailBar) -> None:
        """Let the list of runs give way to the inspector where there is no room for both."""
        self._runs = runs
        self.page.opening.connect(lambda: runs.give_way(self.page.minimumSizeHint().width()))
        self.inspector.closed.connect(runs.come_back)
        runs.page_in_way.connect(self.inspector.close_page)
        runs.arranged.connect(self.page.fit_to_page)

    def hide_columns(self) -> None:
        self.page.hide()
        self.results.hide()

    def _on_page_opening(self) -> None:
        if not self.results.isFloating() and not self._has_room(self.results, self.page):
            self._waiting = True
            self.results.hide()

    def _on_results_opening(self) -> None:
        self._waiting = False
        if not self.results.isFloating() and not self._has_room(self.page, self.results):
            self.inspector.close_page()

    def _on_page_closed(self) -> None:
        if self._waiting:
            self._waiting = False
            self.results.open()

    def _has_room(self, shown: QDockWidget, opened: QDockWidget) -> bool:
        """Return whether a column fits next to the other one, and the panels stay readable."""
        if shown.isHidden():
            return True
        minimum = max(opened.minimumSizeHint().width(), opened.minimumWidth())
        runs = self._runs.width() if self._runs is not None and not self._runs.isHidden() else 0
        if self._window.width() - runs - shown.width() - minimum < _PANELS:
            return False
        return self._window.minimumSizeHint().width() + _SEPARATOR + minimum <= self._window.width()


class WindowLayout:
    """Saves and restores the layout, in the settings and in session files."""

    def __init__(self, window: QMainWindow, docks: PanelDocks, context: WindowContext) -> None:
        self._window, self._docks = window, docks
        self._settings, self._theme = context.settings, context.theme
        self._arranged = False
        self._foreign = False  # layout of a session file: not saved in the settings
        self.history = LayoutHistory(docks, window)
        context.theme.changed.connect(docks.set_theme)
        docks.changed.connect(partial(name_platform_parts, window))
        docks.arrangement.arranged.connect(partial(name_platform_parts, window))

    def restore_layout(self, size: QSize) -> bool:
        """Restore the last layout, or use this size; return whether there was a layout.

        Restore it before any other: Qt forgets to hide the tab bars of a layout that was replaced.
        """
        window, settings = self._window, self._settings
        window.resize(size.boundedTo(window.screen().availableGeometry().size()))
        if settings.geometry is not None:
            window.restoreGeometry(settings.geometry)
        layout = settings.layout
        self._arranged = layout is not None and window.restoreState(layout, LAYOUT_VERSION)
        _set_charts(self._docks, settings.charts)
        if self._arranged:
            self._docks.arrangement.adopt_preset(settings.layout_preset)
        return self._arranged

    def on_show(self) -> None:
        """Size the docks on first show, and name the widgets that Qt has created."""
        if not self._arranged:
            self._arranged = True
            self._docks.arrangement.resize_panels()
        name_platform_parts(self._window)

    def save_layout(self) -> None:
        """Save the layout in the settings before the window closes."""
        self.history.stop()
        self._docks.arrangement.restore_panels()
        self._docks.arrangement.set_compared(None)
        if not self._foreign:
            self._settings.charts = _chart_settings(self._docks)
            self._settings.geometry = self._window.saveGeometry()
            self._settings.layout = self._window.saveState(LAYOUT_VERSION)
            self._settings.layout_preset = self._docks.arrangement.preset
        self._settings.save()

    def layout_json(self) -> str:
        """Return theme, size, docks, panel options and chart settings as JSON."""
        return json.dumps(
            {
                "theme": self._theme.now.name,
                "size": [self._window.width(), self._window.height()],
                "layout": self._docks.arrangement.current_layout(),
                "panels": {name: host.drawn.choices for name, host in self._docks.hosts.items()},
                "charts": _chart_settings(self._docks),
            }
        )

    def apply_session_layout(self, untrusted: str) -> None:
        """Apply the JSON layout of a session file, as far as it is valid."""
        self._foreign = True
        layout: Any = json.loads(untrusted)
        if not isinstance(layout, dict):
            return
        size, window = layout.get("size"), self._window
        is_resizable = not (window.isMaximized() or window.isFullScreen())
        if isinstance(size, list) and [type(side) for side in size] == [int, int] and is_resizable:
            available = window.screen().availableGeometry().size()
            sides = zip(size, _SMALLEST, strict=True)
            wanted = QSize(*(max(minimum, min(side, _LARGEST)) for side, minimum in sides))
            window.resize(wanted.boundedTo(available.expandedTo(window.size())))
        self._docks.arrangement.restore_layout(layout.get("layout"))
        _apply_choices(self._docks, layout.get("panels"))
        _set_charts(self._docks, layout.get("charts"))
        if layout.get("theme") in _THEMES:
            self._theme.select_theme(layout["theme"], keep=False)


def _chart_settings(docks: PanelDocks) -> dict[str, Any]:
    settings = {name: charts_as_json(host.charts.settings) for name, host in docks.hosts.items()}
    return {name: charts for name, charts in settings.items() if charts}


def _set_charts(docks: PanelDocks, untrusted: Any) -> None:
    panels = untrusted if isinstance(untrusted, dict) else {}
    for name, host in docks.hosts.items():
        host.charts.replace_settings(charts_from_json(panels.get(name)))


def _apply_choices(docks: PanelDocks, panels: Any) -> None:
    for name, choices in panels.items() if isinstance(panels, dict) else ():
        host = docks.hosts.get(name)
        if host is None or not isinstance(choices, dict):
            continue
        option_ids = {CHART, *(option.id for option in host.spec.options)}
        for option, value in choices.items():
            if option in option_ids and isinstance(value, str) and len(value) <= _LONGEST:
                host.set_choice(option, value)
