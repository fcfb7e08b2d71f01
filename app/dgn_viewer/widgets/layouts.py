"""Rows and columns of widgets, pages that scroll, labels of plain text, and buttons."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, SignalInstance
from PySide6.QtWidgets import (
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

_LONG = 24  # letters of a word
_TITLE_BAR = QSize(16, 48)  # pixels that a desktop may put around a window
Part = QWidget | QLayout | tuple[QWidget, int] | int  # with its stretch; a number: empty room
Margins = tuple[int, int, int, int]  # left, top, right, bottom
_NO_MARGINS: Margins = (0, 0, 0, 0)


def row(
    *parts: Part, into: QWidget | None = None, margins: Margins = _NO_MARGINS, spacing: int = -1
) -> QHBoxLayout:
    """Lay parts out from left to right, in a widget of their own where `into` names one.

    `spacing`: pixels between two; -1: as the platform has it.
    """
    layout = QHBoxLayout()
    _fill(layout, parts, into, margins, spacing)
    return layout


def open_at(window: QWidget, width: int, height: int) -> None:
    """Give a window this size, or what the screen has room for."""
    room = window.screen().availableGeometry().size() - _TITLE_BAR
    window.resize(QSize(width, height).boundedTo(room))


def column(
    *parts: Part, into: QWidget | None = None, margins: Margins = _NO_MARGINS, spacing: int = -1
) -> QVBoxLayout:
    """Lay parts out from top to bottom; as `row`."""
    layout = QVBoxLayout()
    _fill(layout, parts, into, margins, spacing)
    return layout


def _fill(
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


def empty(layout: QLayout) -> None:
    """Take all widgets out of a layout, and delete them."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()


def scrolling(page: QWidget | None = None) -> QScrollArea:
    """What shows a page, upwards and downwards, without a frame or a background of its own."""
    area = QScrollArea()
    area.setAccessibleName("Page")
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if page is not None:
        area.setWidget(page)
        page.setAutoFillBackground(False)  # the area has switched it on
    area.viewport().setAutoFillBackground(False)
    return area


def breakable(text: str) -> str:
    """The text with places, not seen, at which a long word may be broken."""
    return " ".join(
        re.sub(rf"([._/\\-]|[^\W_]{{{_LONG}}})", "\\1\u200b", word) if len(word) > _LONG else word
        for word in text.split(" ")
    )


class FixedBar(QToolBar):
    """A row of the window that cannot be moved; saved layouts know it by its name."""

    def __init__(self, name: str, title: str, window: QWidget | None = None) -> None:
        super().__init__(title, window)
        self.setObjectName(name)
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)

    def add_line(self, name: str, *parts: Part, margins: Margins) -> None:
        """Lay parts out in a widget of this name, for style sheets, that fills the bar."""
        line = QWidget(self)
        line.setObjectName(name)
        line.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row(*parts, into=line, margins=margins, spacing=8)
        self.addWidget(line)


class PlainLabel(QLabel):
    """Shows its text as it is, never as markup, with what cannot be seen escaped and numbers in the
    style that is chosen in the settings: every label of the window is one.
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
        """Write the text anew where another style of numbers is chosen."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.setText(self._given)

    def setAccessibleName(self, name: str) -> None:
        super().setAccessibleName(printable(name, lines=True))


class WrappedLabel(PlainLabel):
    """Wraps its text, `text` is as it was given. `breaks`: long names are broken, too.

    What can be selected is not broken, and its numbers stay as they are: it would be copied so.
    """

    def __init__(self, text: str, role: str = "", breaks: bool = True) -> None:
        self._said, self._breaks = "", breaks
        super().__init__(text, role=role)
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        self._given = text
        self._said = printable(text, lines=True)
        shown = breakable(with_chosen_numbers(self._said)) if self._breaks else self._said
        self.setAccessibleName(self._said if shown != self._said else "")
        QLabel.setText(self, shown)  # the places to break at are not to be seen

    def text(self) -> str:
        return self._said


def plain_label(
    text: str = "", role: str = "", *, selectable: bool = False, breaks: bool | None = None
) -> QLabel:
    """A label that wraps, and shows its text as it is, never as markup.

    `breaks`: long names are broken, also in what can be selected.
    """
    label = WrappedLabel(text, role, breaks=not selectable if breaks is None else breaks)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def push_button(
    text: str, do: Callable[[], object] | SignalInstance, role: str = "", about: str = ""
) -> QPushButton:
    """A button that does this, or emits this signal, when it is pressed."""
    button = QPushButton(with_chosen_numbers(text))
    if role:
        button.setProperty("role", role)
    button.setToolTip(plain_tip(about))
    button.clicked.connect(do)
    return button
