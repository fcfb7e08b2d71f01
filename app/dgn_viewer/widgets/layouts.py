"""Row and column layouts, scroll areas, plain-text labels and buttons."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, SignalInstance
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from dgn_engine.text.printable import printable
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import plain_tip

_LONG = 24  # characters of a word
_TITLE_BAR = QSize(16, 48)  # pixels of window decoration
Part = (
    QWidget | QLayout | tuple[QWidget, int] | int
)  # a widget or layout, with stretch; an integer is empty space
Margins = tuple[int, int, int, int]  # left, top, right, bottom
_NO_MARGINS: Margins = (0, 0, 0, 0)


def make_row(
    *parts: Part, into: QWidget | None = None, margins: Margins = _NO_MARGINS, spacing: int = -1
) -> QHBoxLayout:
    """Lay out parts from left to right; `into`: a widget that gets the layout.

    `spacing`: pixels between parts; -1: platform default.
    """
    layout = QHBoxLayout()
    _fill_layout(layout, parts, into, margins, spacing)
    return layout


def resize_to_fit(window: QWidget, width: int, height: int) -> None:
    """Resize a window to this size, or to what fits on the screen."""
    available = window.screen().availableGeometry().size() - _TITLE_BAR
    window.resize(QSize(width, height).boundedTo(available))


def make_column(
    *parts: Part, into: QWidget | None = None, margins: Margins = _NO_MARGINS, spacing: int = -1
) -> QVBoxLayout:
    """Lay out parts from top to bottom, like `make_row`."""
    layout = QVBoxLayout()
    _fill_layout(layout, parts, into, margins, spacing)
    return layout


def _fill_layout(
    layout: QBoxLayout,
    parts: tuple[Part, ...],
    into: QWidget | None,
    margins: Margins,
    spacing: int,
) -> None:
    if into is not None:
        into.setLayout(layout)
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    for part in parts:
        match part:
            case QLayout():
                layout.addLayout(part)
            case QWidget():
                layout.addWidget(part)
            case (widget, stretch):
                layout.addWidget(widget, stretch)
            case int():
                layout.addStretch(part)


def clear_layout(layout: QLayout) -> None:
    """Remove and delete all widgets of a layout."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()


def make_scroll_area(page: QWidget | None = None) -> QScrollArea:
    """Return a vertical scroll area without frame or background."""
    area = QScrollArea()
    area.setAccessibleName("Page")
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if page is not None:
        area.setWidget(page)
        page.setAutoFillBackground(False)  # setWidget() switches it on
    area.viewport().setAutoFillBackground(False)
    return area


def with_break_points(text: str) -> str:
    """Return the text with invisible break points in long words."""
    return " ".join(
        re.sub(rf"([._/\\-]|[^\W_]{{{_LONG}}})", "\\1\u200b", word) if len(word) > _LONG else word
        for word in text.split(" ")
    )


class FixedBar(QToolBar):
    """Toolbar that cannot be moved; saved layouts refer to it by name."""

    def __init__(self, name: str, title: str, window: QWidget | None = None) -> None:
        super().__init__(title, window)
        self.setObjectName(name)
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)

    def add_line(self, name: str, *parts: Part, margins: Margins) -> None:
        """Lay out parts in a widget that fills the bar; style sheets refer to it by `name`."""
        line = QWidget(self)
        line.setObjectName(name)
        line.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        make_row(*parts, into=line, margins=margins, spacing=8)
        self.addWidget(line)

    def showEvent(self, event: QShowEvent) -> None:
        """Read the margins again: Qt reads them before the style sheet applies to the bar."""
        super().showEvent(event)
        QApplication.sendEvent(self, QEvent(QEvent.Type.StyleChange))


class PlainLabel(QLabel):
    """Label that shows its text literally, in the chosen number style.

    Text is never markup, and invisible characters are escaped. Every label of the window is one.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None, role: str = "") -> None:
        super().__init__(parent)
        self._given = ""
        if role:
            self.setProperty("role", role)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def setText(self, text: str) -> None:
        self._given = text
        super().setText(with_chosen_numbers(printable(text, lines=True)))

    def changeEvent(self, event: QEvent) -> None:
        """Rewrite the text after a change of the number style."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.setText(self._given)

    def setAccessibleName(self, name: str) -> None:
        super().setAccessibleName(printable(name, lines=True))


class WrappedLabel(PlainLabel):
    """Label that wraps. `breaks`: also break long words.

    Selectable text is not broken and keeps its numbers, so that it is copied unchanged.
    """

    def __init__(self, text: str, role: str = "", breaks: bool = True) -> None:
        self._said, self._breaks = "", breaks
        super().__init__(text, role=role)
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        self._given = text
        self._said = printable(text, lines=True)
        shown = with_break_points(with_chosen_numbers(self._said)) if self._breaks else self._said
        self.setAccessibleName(self._said if shown != self._said else "")
        QLabel.setText(self, shown)  # break points are invisible: do not escape them

    def text(self) -> str:
        return self._said


def plain_label(
    text: str = "", role: str = "", *, selectable: bool = False, breaks: bool | None = None
) -> QLabel:
    """Return a wrapping label that shows its text literally, never as markup.

    `breaks`: also break long words, even in selectable text.
    """
    label = WrappedLabel(text, role, breaks=not selectable if breaks is None else breaks)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def push_button(
    text: str, do: Callable[[], object] | SignalInstance, role: str = "", about: str = ""
) -> QPushButton:
    """Return a button that calls a function or emits a signal."""
    button = QPushButton(with_chosen_numbers(text))
    if role:
        button.setProperty("role", role)
    button.setToolTip(plain_tip(about))
    button.clicked.connect(do)
    return button
