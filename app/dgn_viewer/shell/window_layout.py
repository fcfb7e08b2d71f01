"""The layout of the window: its side columns, its parts in the order of the Tab key, and how it is
kept, in the settings for the next start and in session files.

In a session file it is plain JSON, because it may come from another machine and from an untrusted
file: what does not make sense is left out.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QToolButton, QWidget

from dgn_engine.scene.kept_charts import charts_as_json, charts_of_json
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.docks.panel_dock import CHART
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.settings import LAYOUT_VERSION
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.style.stylesheet import plain_tip

_SEPARATOR = 4  # pixels between two columns
_THEMES = ("light", "dark")
_SMALLEST = (800, 500)  # pixels of the window, however it was saved
_LARGEST = 1 << 14
_LONGEST = 200  # characters of a chosen option


# The keyboard from part to part of the window: the strip, each panel in sight, the inspector.
class FocusWalk:
    def __init__(self, strip: LayersStrip, docks: PanelDocks, columns: SideColumns) -> None:
        self._strip, self._docks, self._columns = strip, docks, columns

    def go(self, step: int) -> None:
        """Give the focus to the next part (1), or to the one before (-1)."""
        stops = self._stops()
        if not stops:
            return
        now = QApplication.focusWidget()
        places = [place for place, stop in enumerate(stops) if _holds(stop, now)]
        at = places[0] if places else (-1 if step > 0 else 0)
        stops[(at + step) % len(stops)].setFocus(Qt.FocusReason.TabFocusReason)

    def _stops(self) -> list[QWidget]:
        chips = [chip for chip in self._strip.canvas.chips if chip.isEnabled()][:1]
        panels = [self._docks.hosts[name] for name in self._docks.visible()]
        page = [self._columns.inspector] if self._columns.page.isVisible() else []
        return [*chips, *panels, *page]


def _holds(part: QWidget, widget: QWidget | None) -> bool:
    return widget is not None and (part is widget or part.isAncestorOf(widget))


def name_platform_parts(window: QWidget) -> None:
    """Name what Qt makes by itself: tab bars of docks behind each other, with the whole of each
    text as its tip, and buttons for what has no room."""
    for bar in window.findChildren(QTabBar):
        if not bar.accessibleName():
            bar.setAccessibleName("Panels behind each other")
        if isinstance(bar.parentWidget(), QMainWindow):
            for place in range(bar.count()):  # a narrow tab cuts its text
                bar.setTabToolTip(place, plain_tip(bar.tabText(place)))
    for button in window.findChildren(QToolButton):
        if button.objectName().startswith("qt_") and not button.accessibleName():
            button.setAccessibleName("More")


class SideColumns(QObject):
    """Keeps the window from growing beyond its screen, which Qt does where a column is shown that
    has no room: the column that is opened last stays, and results come back once the page is
    closed.

    `inspector` stands in the column `page`, at the right; `results` in one beside it.
    """

    def __init__(self, window: QMainWindow, context: WindowContext) -> None:
        super().__init__(window)
        self._window = window
        self.inspector = Inspector(context.send, context.view)
        self.page = InspectorDock(self.inspector, window)
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.page)
        self.page.hide()  # a dock that is added is shown
        self.results = ResultsDock(window, self.page, context.theme.now)
        self._waiting = False  # the results, for the page to be closed
        self.page.opening.connect(self._on_page_opening)
        self.results.opening.connect(self._on_results_opening)
        self.inspector.closed.connect(self._on_page_closed)
        for part in (self.inspector, self.results):
            context.theme.changed.connect(part.set_theme)

    def hide(self) -> None:
        self.page.hide()
        self.results.hide()

    def _on_page_opening(self) -> None:
        if not self.results.isFloating() and not self._has_room(self.results, self.page):
            self._waiting = True
            self.results.hide()

    def _on_results_opening(self) -> None:
        self._waiting = False
        if not self.results.isFloating() and not self._has_room(self.page, self.results):
            self.inspector.leave()

    def _on_page_closed(self) -> None:
        if self._waiting:
            self._waiting = False
            self.results.open()

    def _has_room(self, shown: QDockWidget, opened: QDockWidget) -> bool:
        """Whether a column can be opened beside the one that may be shown."""
        if shown.isHidden():
            return True
        least = max(opened.minimumSizeHint().width(), opened.minimumWidth())
        return self._window.minimumSizeHint().width() + _SEPARATOR + least <= self._window.width()


class WindowLayout:
    """Keeps the layout of the window: in the settings, and in session files."""

    def __init__(self, window: QMainWindow, docks: PanelDocks, context: WindowContext) -> None:
        self._window, self._docks = window, docks
        self._settings, self._theme = context.settings, context.theme
        self._arranged = False
        self._foreign = False  # of a session that was opened: it is not kept
        self.history = LayoutHistory(docks, window)
        context.theme.changed.connect(docks.set_theme)
        docks.changed.connect(partial(name_platform_parts, window))
        docks.arrangement.arranged.connect(partial(name_platform_parts, window))

    def restore(self, size: QSize) -> None:
        """Restore the last start's window, else take this size."""
        window, settings = self._window, self._settings
        window.resize(size.boundedTo(window.screen().availableGeometry().size()))
        if settings.geometry is not None:
            window.restoreGeometry(settings.geometry)
        layout = settings.layout
        self._arranged = layout is not None and window.restoreState(layout, LAYOUT_VERSION)
        _set_charts(self._docks, settings.charts)
        if self._arranged:
            self._docks.arrangement.adopt(settings.layout_preset)

    def on_show(self) -> None:
        """Give docks their sizes once, in a window that has one, and name what Qt has made."""
        if not self._arranged:
            self._arranged = True
            self._docks.arrangement.share_out()
        name_platform_parts(self._window)

    def keep(self) -> None:
        """Write into the settings what the window looks like, which is about to close."""
        self.history.stop()
        self._docks.arrangement.restore()
        self._docks.arrangement.compare(False)
        if not self._foreign:
            self._settings.charts = _charts(self._docks)
            self._settings.geometry = self._window.saveGeometry()
            self._settings.layout = self._window.saveState(LAYOUT_VERSION)
            self._settings.layout_preset = self._docks.arrangement.preset
        self._settings.save()

    def as_json(self) -> str:
        """Theme, size, places of the docks, what is chosen in each panel and set for its charts."""
        return json.dumps(
            {
                "theme": self._theme.now.name,
                "size": [self._window.width(), self._window.height()],
                "layout": self._docks.arrangement.layout(),
                "panels": {name: host.drawn.choices for name, host in self._docks.hosts.items()},
                "charts": _charts(self._docks),
            }
        )

    def apply(self, untrusted: str) -> None:
        """Arrange window and panels as far as the JSON of a session file makes sense."""
        self._foreign = True
        layout: Any = json.loads(untrusted)
        if not isinstance(layout, dict):
            return
        size, window = layout.get("size"), self._window
        free = not (window.isMaximized() or window.isFullScreen())
        if isinstance(size, list) and [type(side) for side in size] == [int, int] and free:
            available = window.screen().availableGeometry().size()
            sides = zip(size, _SMALLEST, strict=True)
            wanted = QSize(*(max(least, min(side, _LARGEST)) for side, least in sides))
            window.resize(wanted.boundedTo(available.expandedTo(window.size())))
        self._docks.arrangement.put_layout(layout.get("layout"))
        _choose(self._docks, layout.get("panels"))
        _set_charts(self._docks, layout.get("charts"))
        if layout.get("theme") in _THEMES:
            self._theme.choose(layout["theme"], keep=False)


def _charts(docks: PanelDocks) -> dict[str, Any]:
    kept = {name: charts_as_json(host.charts.settings) for name, host in docks.hosts.items()}
    return {name: charts for name, charts in kept.items() if charts}


def _set_charts(docks: PanelDocks, untrusted: Any) -> None:
    panels = untrusted if isinstance(untrusted, dict) else {}
    for name, host in docks.hosts.items():
        host.charts.put_all(charts_of_json(panels.get(name)))


def _choose(docks: PanelDocks, panels: Any) -> None:
    for name, choices in panels.items() if isinstance(panels, dict) else ():
        host = docks.hosts.get(name)
        if host is None or not isinstance(choices, dict):
            continue
        known = {CHART, *(option.id for option in host.spec.options)}
        for option, value in choices.items():
            if option in known and isinstance(value, str) and len(value) <= _LONGEST:
                host.set_choice(option, value)
