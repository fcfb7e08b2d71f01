"""The window as it was last time: its place and the layout of its docks."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QMainWindow

from dgn_viewer.settings import LAYOUT_VERSION, Settings


def restore(window: QMainWindow, settings: Settings, size: QSize) -> bool:
    """As it was, or of this size; whether there was a layout to restore."""
    window.resize(size.boundedTo(window.screen().availableGeometry().size()))
    if settings.geometry is not None:
        window.restoreGeometry(settings.geometry)
    layout = settings.layout
    return layout is not None and window.restoreState(layout, LAYOUT_VERSION)


def remember(window: QMainWindow, settings: Settings, borrowed: bool) -> None:
    """For the next time; `borrowed`: it looks as somebody else's session, which is not kept."""
    if not borrowed:
        settings.geometry = window.saveGeometry()
        settings.layout = window.saveState(LAYOUT_VERSION)
    settings.save()
