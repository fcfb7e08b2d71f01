"""Rows and columns of widgets, pages that scroll, labels of plain text, and buttons."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

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


def scrolling(page: QWidget | None = None) -> QScrollArea:
    """What shows a page, upwards and downwards, without a frame or a background of its own."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if page is not None:
        area.setWidget(page)
        page.setAutoFillBackground(False)  # the area has switched it on
    area.viewport().setAutoFillBackground(False)
    return area


def plain_label(text: str = "", role: str = "", *, selectable: bool = False) -> QLabel:
    """A label that wraps, and shows its text as it is, never as markup."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    if role:
        label.setProperty("role", role)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def push_button(
    text: str, do: Callable[[], object] | SignalInstance, role: str = "", about: str = ""
) -> QPushButton:
    """A button that does this, or emits this signal, when it is pressed."""
    button = QPushButton(text)
    if role:
        button.setProperty("role", role)
    button.setToolTip(about)
    button.clicked.connect(do)
    return button
