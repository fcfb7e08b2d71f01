"""The layout of the window: kept in the settings for the next start, and in session files.

In a session file it is plain JSON, because it may come from another machine and from an untrusted
file: what does not make sense is left out.
"""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QMainWindow

from dgn_engine.scene.kept_charts import charts_as_json, charts_of_json
from dgn_viewer.docks.panel_dock import CHART
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.settings import LAYOUT_VERSION, Settings

_THEMES = ("light", "dark")
_SMALLEST = (800, 500)  # pixels of the window, however it was saved
_LARGEST = 1 << 14
_LONGEST = 200  # characters of a chosen option


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
    settings.layout_preset = docks.preset


def layout_json(window: QMainWindow, theme: str, docks: PanelDocks) -> str:
    """Theme, size, places of the docks, what is chosen in each panel and set for its charts."""
    return json.dumps(
        {
            "theme": theme,
            "size": [window.width(), window.height()],
            "layout": docks.layout(),
            "panels": {name: host.choices() for name, host in docks.hosts.items()},
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
    docks.put_layout(layout.get("layout"))
    _choose(docks, layout.get("panels"))
    _set_charts(docks, layout.get("charts"))
    theme = layout.get("theme")
    return theme if theme in _THEMES else ""


def _charts(docks: PanelDocks) -> dict[str, Any]:
    kept = {name: charts_as_json(host.charts.settings()) for name, host in docks.hosts.items()}
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
