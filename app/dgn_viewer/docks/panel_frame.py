"""The frame of a docked or floating panel: a title bar with three buttons, and a border."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QFrame, QMainWindow, QToolButton

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.reading_age import Age
from dgn_viewer.style.stylesheet import mix_colours, plain_tip, themed_icon
from dgn_viewer.widgets.button_keys import press_focused_button
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import make_row

_HEIGHT = 20
_AWAY = 24  # pixels that a panel moves when floated, to make the change visible


class DockTitle(QFrame):
    """The title bar of a dock; the accent colour marks the front panel.

    Drags are left to the dock, which moves itself. `pressed` is emitted for a mouse press anywhere
    on the bar. `fills` says whether the panel can be maximised.
    """

    pressed = Signal()
    maximised = Signal()  # maximise the panel, or restore it

    def __init__(self, dock: QDockWidget, fills: bool = True) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setProperty("front", False)
        self.setFixedHeight(_HEIGHT)
        title = dock.windowTitle()
        self._theme = LIGHT
        self._large = False
        self._name = name = ElidedLabel(title, role="heading")
        self._maximise = self._make_button(f"Maximise or restore {title} (double-click)")
        self._maximise.clicked.connect(self.maximised)
        self._maximise.setHidden(not fills)
        self._fills = fills
        self._float = self._make_button(f"Float or dock {title}")
        self._float.clicked.connect(lambda: _toggle_floating(dock))
        self._close = self._make_button(f"Close {title}")
        self._close.clicked.connect(dock.close)
        self._age = age = ElidedLabel(mode=Qt.TextElideMode.ElideRight, role="small")
        age.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        age.hide()
        buttons = (self._maximise, self._float, self._close)
        make_row((name, 1), (age, 1), *buttons, into=self, margins=(8, 0, 4, 0), spacing=4)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.setFixedHeight(round(_HEIGHT * theme.scale))
        self._float.setIcon(themed_icon("float", theme, colour=theme.muted))
        self._close.setIcon(themed_icon("close", theme, colour=theme.muted))
        self.show_maximised(self._large)

    def mark_front(self, front: bool) -> None:
        """Highlight the title if commands apply to this panel."""
        if front != self.property("front"):
            self.setProperty("front", front)
            for part in (self, self._name):  # re-evaluate the style sheet for the property
                part.style().unpolish(part)
                part.style().polish(part)

    def show_age(self, age: Age | None) -> None:
        """Display the age of stale charts; None hides it."""
        self._age.setHidden(age is None)
        if age is not None:
            self._age.show_text(
                age.long_text, "Out of date until the next reading arrives", age.short_text
            )

    def show_maximised(self, large: bool) -> None:
        """Set the button's icon to restore or maximise."""
        self._large = large
        name = "restore" if large else "maximise"
        self._maximise.setIcon(themed_icon(name, self._theme, colour=self._theme.muted))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)  # ignored, so that the dock can start a drag

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Consume a double-click that maximises; QDockWidget would float the panel."""
        if not self._fills:
            super().mouseDoubleClickEvent(event)
        elif event.button() == Qt.MouseButton.LeftButton:
            self.maximised.emit()

    def _make_button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(tip)
        button.setIconSize(QSize(12, 12))
        return button


class PanelFrame(QDockWidget):
    """A dock with a border while floating, which reopens where it was closed.

    `closing` is emitted just before it is closed, while it is still laid out.
    """

    closing = Signal()

    def __init__(self, title: str, window: QMainWindow) -> None:
        super().__init__(title, window)
        self.window_ = window
        self._colours = LIGHT.muted, LIGHT.window
        self._left_at: QRect | None = None  # geometry when it was closed while floating

    def set_theme(self, theme: Theme) -> None:
        self._colours = mix_colours(theme.line, theme.muted, 0.5), theme.panel
        self.update()

    def come_to_front(self) -> None:
        """Show and raise the dock above other tabs, or other windows if it floats."""
        self.show()
        self.raise_()
        if self.isFloating():
            self.activateWindow()

    def float_at(self, rect: QRect) -> None:
        """Float at this geometry, adjusted to fit the window's screen."""
        self.setFloating(True)
        self.setGeometry(self._on_screen(rect))

    def event(self, event: QEvent) -> bool:
        """Handle button keys here while floating: no parent would receive them."""
        return (self.isFloating() and press_focused_button(event)) or super().event(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._left_at = self.geometry() if self.isFloating() else None
        self.closing.emit()
        focused = QApplication.focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            # Qt would focus the next button, whichever that is.
            self.window_.setFocus(Qt.FocusReason.OtherFocusReason)
        super().closeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.isFloating() and self._left_at is not None:
            self.setGeometry(self._on_screen(self._left_at))
        self._left_at = None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self.isFloating():
            self.raise_()
        super().mousePressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.isFloating():
            line, inside = self._colours
            painter = QPainter(self)
            painter.fillRect(self.rect(), QColor(inside))
            painter.setPen(QPen(QColor(line), 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.end()

    def _on_screen(self, rect: QRect) -> QRect:
        """Return the geometry moved and shrunk to fit the window's screen."""
        screen = self.window_.screen().availableGeometry()
        rect = QRect(rect)
        smallest = self.minimumSizeHint().boundedTo(screen.size())
        rect.setSize(rect.size().expandedTo(smallest).boundedTo(screen.size()))
        rect.moveLeft(max(screen.left(), min(rect.left(), screen.right() - rect.width())))
        rect.moveTop(max(screen.top(), min(rect.top(), screen.bottom() - rect.height())))
        return rect


def _toggle_floating(dock: QDockWidget) -> None:
    """Float the dock slightly offset from its docked position, or dock it again."""
    if isinstance(dock, PanelFrame) and not dock.isFloating():
        rect = QRect(dock.mapToGlobal(QPoint(0, 0)), dock.size())
        dock.float_at(rect.translated(_AWAY, _AWAY))
    else:
        dock.setFloating(not dock.isFloating())
