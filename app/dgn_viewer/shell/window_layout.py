"""The layout of the window: its side columns, its parts in the order of the Tab key, and how it is
kept, in the settings for the next start and in session files.

In a session file it is plain JSON, because it may come from another machine and from an untrusted
file: what does not make sense is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QToolButton, QWidget

from dgn_engine.scene.kept_charts import charts_as_json, charts_of_json
from dgn_viewer.docks.panel_dock import CHART
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock
from dgn_viewer.settings import LAYOUT_VERSION, Settings
from dgn_viewer.style.stylesheet import plain_tip

_SEPARATOR = 4  # pixels between two columns
_THEMES = ("light", "dark")
_SMALLEST = (800, 500)  # pixels of the window, however it was saved
_LARGEST = 1 << 14
_LONGEST = 200  # characters of a chosen option


# The keyboard from part to part of the window: the strip, each panel in sight, the inspector.
class FocusWalk:
    """`stops()`: the parts that can have the focus now, in their order."""

    def __init__(self, stops: Callable[[], list[QWidget]]) -> None:
        self._stops = stops

    def go(self, step: int) -> None:
        """Give the focus to the next part (1), or to the one before (-1)."""
        stops = self._stops()
        if not stops:
            return
        now = QApplication.focusWidget()
        places = [place for place, stop in enumerate(stops) if _holds(stop, now)]
        at = places[0] if places else (-1 if step > 0 else 0)
        stops[(at + step) % len(stops)].setFocus(Qt.FocusReason.TabFocusReason)


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
    closed."""

    def __init__(
        self, window: QMainWindow, inspector: Inspector, page: InspectorDock, results: ResultsDock
    ) -> None:
        super().__init__(window)
        self._window, self._inspector, self._page, self._results = window, inspector, page, results
        self._waiting = False  # the results, for the page to be closed
        page.opening.connect(self._on_page_opening)
        results.opening.connect(self._on_results_opening)
        inspector.closed.connect(self._on_page_closed)

    def _on_page_opening(self) -> None:
        if not self._results.isFloating() and not self._has_room(self._results, self._page):
            self._waiting = True
            self._results.hide()

    def _on_results_opening(self) -> None:
        self._waiting = False
        if not self._results.isFloating() and not self._has_room(self._page, self._results):
            self._inspector.leave()

    def _on_page_closed(self) -> None:
        if self._waiting:
            self._waiting = False
            self._results.open()

    def _has_room(self, shown: QDockWidget, opened: QDockWidget) -> bool:
        """Whether a column can be opened beside the one that may be shown."""
        if shown.isHidden():
            return True
        least = max(opened.minimumSizeHint().width(), opened.minimumWidth())
        return self._window.minimumSizeHint().width() + _SEPARATOR + least <= self._window.width()


def restore(window: QMainWindow, settings: Settings, size: QSize) -> bool:
    """Restore the last start's window, else take this size; whether there was a layout."""
    window.resize(size.boundedTo(window.screen().availableGeometry().size()))
    if settings.geometry is not None:
        window.restoreGeometry(settings.geometry)
    layout = settings.layout
    return layout is not None and window.restoreState(layout, LAYOUT_VERSION)


def restore_charts(docks: PanelDocks, settings: Settings) -> None:
    """What was set for single charts at the last start."""
    _set_charts(docks, settings.charts)


def save(window: QMainWindow, settings: Settings, docks: PanelDocks) -> None:
    settings.charts = _charts(docks)
    settings.geometry = window.saveGeometry()
    settings.layout = window.saveState(LAYOUT_VERSION)
    settings.layout_preset = docks.arrangement.preset


def layout_json(window: QMainWindow, theme: str, docks: PanelDocks) -> str:
    """Theme, size, places of the docks, what is chosen in each panel and set for its charts."""
    return json.dumps(
        {
            "theme": theme,
            "size": [window.width(), window.height()],
            "layout": docks.arrangement.layout(),
            "panels": {name: host.drawn.choices for name, host in docks.hosts.items()},
            "charts": _charts(docks),
        }
    )


def apply_layout(window: QMainWindow, docks: PanelDocks, untrusted: str) -> str:
    """Arrange window and panels as far as the JSON makes sense; its theme, or ''."""
    layout: Any = json.loads(untrusted)
    if not isinstance(layout, dict):
        return ""
    size = layout.get("size")
    free = not (window.isMaximized() or window.isFullScreen())
    if isinstance(size, list) and [type(one) for one in size] == [int, int] and free:
        available = window.screen().availableGeometry().size()
        wanted = QSize(
            *(max(least, min(side, _LARGEST)) for side, least in zip(size, _SMALLEST, strict=True))
        )
        window.resize(wanted.boundedTo(available.expandedTo(window.size())))
    docks.arrangement.put_layout(layout.get("layout"))
    _choose(docks, layout.get("panels"))
    _set_charts(docks, layout.get("charts"))
    theme = layout.get("theme")
    return theme if theme in _THEMES else ""


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
