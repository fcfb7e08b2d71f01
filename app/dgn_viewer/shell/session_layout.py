"""How the window looks, as plain JSON that goes into a session file, and back from a stranger's."""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QMainWindow

from dgn_viewer.docks.panel_docks import PanelDocks

_NAMES = ("light", "dark")
_SMALLEST = (800, 500)  # pixels of the window, however it was saved
_LARGEST = 1 << 14
_LONGEST = 200  # characters of a chosen option


def look_of(window: QMainWindow, theme: str, docks: PanelDocks) -> str:
    """As JSON: theme, size, layout, and what is chosen in each panel."""
    return json.dumps(
        {
            "theme": theme,
            "size": [window.width(), window.height()],
            "layout": docks.layout(),
            "panels": {name: host.choices() for name, host in docks.hosts.items()},
        }
    )


def put_on(window: QMainWindow, docks: PanelDocks, told: str) -> str:
    """Arrange window and panels so, as far as it makes sense; the theme that was worn, or ''."""
    look: Any = json.loads(told)
    if not isinstance(look, dict):
        return ""
    size = look.get("size")
    free = not (window.isMaximized() or window.isFullScreen())
    if isinstance(size, list) and [type(one) for one in size] == [int, int] and free:
        room = window.screen().availableGeometry().size()
        wanted = QSize(
            *(max(least, min(side, _LARGEST)) for side, least in zip(size, _SMALLEST, strict=True))
        )
        window.resize(wanted.boundedTo(room.expandedTo(window.size())))
    docks.put_layout(look.get("layout"))
    _choose(docks, look.get("panels"))
    theme = look.get("theme")
    return theme if theme in _NAMES else ""


def _choose(docks: PanelDocks, told: Any) -> None:
    for name, choices in told.items() if isinstance(told, dict) else ():
        host = docks.hosts.get(name)
        if host is None or not isinstance(choices, dict):
            continue
        known = {option.id for option in host.spec.options}
        for option, value in choices.items():
            if option in known and isinstance(value, str) and len(value) <= _LONGEST:
                host.set_choice(option, value)
