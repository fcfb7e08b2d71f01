"""The keyboard from part to part of the window: the strip, each panel in sight, the inspector."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMainWindow, QTabBar, QToolButton, QWidget

from dgn_viewer.style.stylesheet import plain_tip


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
