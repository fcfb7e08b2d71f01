"""One dock per discovered panel: the layout, which panels are visible, which is in front."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QFrame,
    QLabel,
    QMainWindow,
    QToolButton,
    QWidget,
)

from dgn_viewer.docks.dock_layout import arranged, described
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.style.stylesheet import icon
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.layouts import row

# Qt shares what room there is out by the ratio of sizes.
_WIDTHS = [560, 440]  # of the left and of the right column
_EVEN = 100  # of each panel in a column
_HEIGHT = 20


class DockTitle(QFrame):
    """Drags and double clicks are left to the dock, which moves and floats itself.

    `pressed`: anywhere on the title. The accent colour marks the panel in front.
    """

    pressed = Signal()

    def __init__(self, dock: QDockWidget) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setProperty("front", False)
        self.setFixedHeight(_HEIGHT)
        self._name = name = QLabel(dock.windowTitle(), self)
        name.setProperty("role", "heading")
        self._float = self._button(f"Float {dock.windowTitle()}, or dock it again")
        self._float.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self._close = self._button(f"Close {dock.windowTitle()}")
        self._close.clicked.connect(dock.close)
        row((name, 1), self._float, self._close, into=self, margins=(8, 0, 4, 0), spacing=4)

    def set_theme(self, theme: Theme) -> None:
        self._float.setIcon(icon("float", theme, colour=theme.muted))
        self._close.setIcon(icon("close", theme, colour=theme.muted))

    def mark(self, front: bool) -> None:
        """Show whether commands mean this panel."""
        if front != self.property("front"):
            self.setProperty("front", front)
            for part in (self, self._name):  # the style sheet is read anew only when asked
                part.style().unpolish(part)
                part.style().polish(part)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)  # ignored, so that the dock takes it for a drag

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setIconSize(QSize(12, 12))
        return button


class PanelDocks(QObject):
    """Docks by panel id. `changed`: a panel was opened, closed, or went behind another tab."""

    changed = Signal()

    def __init__(self, window: QMainWindow, specs: Mapping[str, PanelSpec], theme: Theme) -> None:
        super().__init__(window)
        self.window = window
        self._specs = dict(specs)
        self._seen: set[str] = set()
        self._front = ""
        self._comparing = False
        self._before = QByteArray()
        self.hosts: dict[str, PanelDock] = {}
        self._docks: dict[str, QDockWidget] = {}
        self._titles: dict[str, DockTitle] = {}
        for name, spec in specs.items():
            self._add(name, spec, theme)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)

    def _add(self, name: str, spec: PanelSpec, theme: Theme) -> None:
        dock = QDockWidget(spec.title, self.window)
        dock.setObjectName(f"panel.{name}")
        host = PanelDock(name, spec, theme)
        dock.setWidget(host)
        title = DockTitle(dock)
        dock.setTitleBarWidget(title)
        title.pressed.connect(lambda: self.choose(name))
        self._titles[name] = title
        dock.visibilityChanged.connect(lambda seen, name=name: self._on_visibility(name, seen))
        self.hosts[name] = host
        self._docks[name] = dock

    def visible(self) -> tuple[str, ...]:
        """Panels that are visible: open and not behind another tab."""
        return tuple(name for name in self.hosts if name in self._seen)

    def is_open(self, name: str) -> bool:
        """Whether the panel has a place in the layout, perhaps behind another tab."""
        return not self._docks[name].isHidden()

    def toggle(self, name: str) -> None:
        dock = self._docks[name]
        if name in self._seen:
            dock.hide()
        else:
            self.show(name)

    def show(self, name: str) -> None:
        dock = self._docks[name]
        dock.show()
        dock.raise_()
        self.choose(name)

    def front(self) -> str:
        """The panel that a command means: the one last clicked or focused, else the first seen."""
        seen = self.visible()
        return self._front if self._front in seen else next(iter(seen), "")

    def choose(self, name: str) -> None:
        """Commands mean this panel from now on, and its title is marked."""
        self._front = name
        self._mark_front()

    def arrange(self) -> None:
        """The default layout: two columns, each from the top in the panels' order."""
        window = self.window
        columns = [
            [self._docks[name] for name, spec in self._specs.items() if spec.area == area]
            for area in ("left", "right")
        ]
        columns = [column for column in columns if column]
        for dock in self._docks.values():
            dock.setFloating(False)
            window.removeDockWidget(dock)
        heads = [column[0] for column in columns]
        for head in heads[:1]:
            window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, head)
        for before, head in itertools.pairwise(heads):
            window.splitDockWidget(before, head, Qt.Orientation.Horizontal)
        for column in columns:
            for above, below in itertools.pairwise(column):
                window.splitDockWidget(above, below, Qt.Orientation.Vertical)
        for name, dock in self._docks.items():
            dock.setVisible(not self._specs[name].compares or self._comparing)
        self.share_out(columns)

    def compare(self, on: bool) -> None:
        """Open the panels that belong to a comparison; closed, the layout is as it was before."""
        if on == self._comparing:
            return
        self._comparing = on
        if on:
            self._before = self.window.saveState()
            for name, dock in self._docks.items():
                dock.setVisible(self._specs[name].compares or not dock.isHidden())
            self.share_out()
        else:
            self.window.restoreState(self._before)

    def share_out(self, columns: list[list[QDockWidget]] | None = None) -> None:
        """Give the columns their widths and the panels of a column equal heights."""
        columns = columns or [
            [self._docks[name] for name, spec in self._specs.items() if spec.area == area]
            for area in ("left", "right")
        ]
        window = self.window
        columns = [[dock for dock in column if not dock.isHidden()] for column in columns]
        if len(columns) == 2 and all(columns):
            heads = [column[0] for column in columns]
            window.resizeDocks(heads, _WIDTHS, Qt.Orientation.Horizontal)
        for column in columns:
            window.resizeDocks(column, [_EVEN] * len(column), Qt.Orientation.Vertical)

    def layout(self) -> dict[str, Any]:
        return described(self.window, self._docks)

    def put_layout(self, layout: Any) -> bool:
        """Arrange the panels so; False where that makes no sense, and nothing is changed."""
        return arranged(self.window, self._docks, layout)

    def set_theme(self, theme: Theme) -> None:
        for host in self.hosts.values():
            host.set_theme(theme)
        for title in self._titles.values():
            title.set_theme(theme)

    def _on_visibility(self, name: str, seen: bool) -> None:
        if seen != (name in self._seen):
            (self._seen.add if seen else self._seen.discard)(name)
            self._mark_front()
            self.changed.emit()

    def _on_focus(self, _before: QWidget | None, now: QWidget | None) -> None:
        if name := self._panel_of(now):
            self.choose(name)

    def _mark_front(self) -> None:
        front = self.front()
        for name, title in self._titles.items():
            title.mark(name == front)

    def _panel_of(self, widget: QWidget | None) -> str:
        while widget is not None:
            if isinstance(widget, PanelDock):
                return next((name for name, host in self.hosts.items() if host is widget), "")
            widget = widget.parentWidget()
        return ""
