"""The frame of a docked or floating panel: its title with three buttons, and a border to grab."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QFrame, QMainWindow, QToolButton

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.reading_age import Age
from dgn_viewer.style.stylesheet import icon, mixed, plain_tip
from dgn_viewer.widgets.button_keys import press_focused_button
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import row

_HEIGHT = 20
_AWAY = 24  # pixels that a panel moves when it is floated, so that it is seen to float


class DockTitle(QFrame):
    """Drags are left to the dock, which moves itself.

    `pressed`: anywhere on the title. The accent colour marks the panel in front. `fills`: whether
    the panel may be maximised.
    """

    pressed = Signal()
    maximised = Signal()  # the panel is to fill the window, or to go back

    def __init__(self, dock: QDockWidget, fills: bool = True) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setProperty("front", False)
        self.setFixedHeight(_HEIGHT)
        title = dock.windowTitle()
        self._theme = LIGHT
        self._large = False
        self._name = name = ElidedLabel(title, role="heading")
        self._maximise = self._button(f"Maximise {title}, or back (double click)")
        self._maximise.clicked.connect(self.maximised)
        self._maximise.setHidden(not fills)
        self._fills = fills
        self._float = self._button(f"Float {title}, or dock it again")
        self._float.clicked.connect(lambda: _toggle_floating(dock))
        self._close = self._button(f"Close {title}")
        self._close.clicked.connect(dock.close)
        self._age = age = ElidedLabel(mode=Qt.TextElideMode.ElideRight, role="small")
        age.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        age.hide()
        buttons = (self._maximise, self._float, self._close)
        row((name, 1), (age, 1), *buttons, into=self, margins=(8, 0, 4, 0), spacing=4)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._float.setIcon(icon("float", theme, colour=theme.muted))
        self._close.setIcon(icon("close", theme, colour=theme.muted))
        self.show_maximised(self._large)

    def mark(self, front: bool) -> None:
        """Show whether commands mean this panel."""
        if front != self.property("front"):
            self.setProperty("front", front)
            for part in (self, self._name):  # the style sheet is read anew only when asked
                part.style().unpolish(part)
                part.style().polish(part)

    def show_age(self, age: Age | None) -> None:
        """Say of which step the picture is, where it is far behind the run; None: it is not."""
        self._age.setHidden(age is None)
        if age is not None:
            self._age.say(age.words, "The run is further; the next reading ends this", age.short)

    def show_maximised(self, large: bool) -> None:
        """Show which way the button goes."""
        self._large = large
        name = "restore" if large else "maximise"
        self._maximise.setIcon(icon(name, self._theme, colour=self._theme.muted))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)  # ignored, so that the dock takes it for a drag

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Taken where it maximises: the dock would float."""
        if not self._fills:
            super().mouseDoubleClickEvent(event)
        elif event.button() == Qt.MouseButton.LeftButton:
            self.maximised.emit()

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(tip)
        button.setIconSize(QSize(12, 12))
        return button


class PanelFrame(QDockWidget):
    """A dock that has a border while it floats, and comes back where it was closed.

    `closing`: it is about to be closed, and still has its place.
    """

    closing = Signal()

    def __init__(self, title: str, window: QMainWindow) -> None:
        super().__init__(title, window)
        self.window_ = window
        self._colours = LIGHT.muted, LIGHT.window
        self._left_at: QRect | None = None  # where it floated when it was closed

    def set_theme(self, theme: Theme) -> None:
        self._colours = mixed(theme.line, theme.muted, 0.5), theme.panel
        self.update()

    def come_to_front(self) -> None:
        """Shown, in front of other tabs; a floating one in front of other windows."""
        self.show()
        self.raise_()
        if self.isFloating():
            self.activateWindow()

    def float_at(self, place: QRect) -> None:
        """Float there, as far as that is on the screen of the window."""
        self.setFloating(True)
        self.setGeometry(self._on_screen(place))

    def event(self, event: QEvent) -> bool:
        """While it floats, keys go no further up than here."""
        return (self.isFloating() and press_focused_button(event)) or super().event(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._left_at = self.geometry() if self.isFloating() else None
        self.closing.emit()
        focused = QApplication.focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            self.window_.setFocus(Qt.FocusReason.OtherFocusReason)  # not whatever button is next
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

    def _on_screen(self, place: QRect) -> QRect:
        """The place moved and shrunk until it lies on the screen of the window."""
        screen = self.window_.screen().availableGeometry()
        place = QRect(place)
        least = self.minimumSizeHint().boundedTo(screen.size())
        place.setSize(place.size().expandedTo(least).boundedTo(screen.size()))
        place.moveLeft(max(screen.left(), min(place.left(), screen.right() - place.width())))
        place.moveTop(max(screen.top(), min(place.top(), screen.bottom() - place.height())))
        return place


def _toggle_floating(dock: QDockWidget) -> None:
    """Float a little beside where it was docked, or dock it again."""
    if isinstance(dock, PanelFrame) and not dock.isFloating():
        place = QRect(dock.mapToGlobal(QPoint(0, 0)), dock.size())
        dock.float_at(place.translated(_AWAY, _AWAY))
    else:
        dock.setFloating(not dock.isFloating())
