"""Finds words in the real window that are cut without saying so, or that show their markup."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QLabel,
    QMenuBar,
    QTabBar,
    QToolButton,
    QWidget,
)

from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.plots.chart_tabs import ChartTabs
from dgn_viewer.widgets.choice_box import ChoiceBox
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.elided_label import ElidedLabel

_RAW = ("$", "<", "\\", "&lt;", "&amp;")
_SLACK = 1  # pixels by which a measure may be off


def complaints(window: QWidget) -> list[str]:
    """One sentence for each visible widget whose words are clipped or raw; none is right."""
    found = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or widget.visibleRegion().isEmpty():
            continue
        for text, whole in _words(widget):
            where = f"{type(widget).__name__} {widget.objectName()!r}"
            if any(mark in text for mark in _RAW):
                found.append(f"{where} shows markup: {text!r}")
            if not whole and plain_tip(widget).find(text.replace("&", "")) < 0:
                found.append(f"{where}, {widget.width()} px wide, cuts {text!r} without a tip")
    return found


def plain_tip(widget: QWidget) -> str:
    """The words of a tool tip."""
    document = QTextDocument()
    document.setHtml(widget.toolTip())
    return document.toPlainText()


def _words(widget: QWidget) -> Iterator[tuple[str, bool]]:
    """Words of a widget, and whether they are shown whole."""
    match widget:
        case ElidedLabel():
            yield widget.text(), widget.shown_text() == widget.text()
        case QLabel():
            yield from _label(widget)
        case ElidedBox():
            yield widget.currentText(), widget.shown_text() == widget.currentText()
        case ChoiceBox():
            room = widget.room()
            for text in widget.short_texts():
                yield text, widget.fontMetrics().horizontalAdvance(text) <= room
        case QComboBox():
            text = widget.currentText()
            yield text, _wide(widget, text) <= widget.width() - 26
        case ChartTabs():
            for place in range(widget.count()):
                yield widget.tabText(place), True  # each has its tip
        case QTabBar():
            for place in range(widget.count()):
                text = widget.tabText(place)
                yield text, _wide(widget, text) <= widget.tabRect(place).width()
        case QToolButton() if widget.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonIconOnly:
            if widget.icon().isNull():
                yield from _button(widget)
        case QAbstractButton():
            yield from _button(widget)
        case TextLine():
            yield widget.accessibleName(), plain_tip(widget) != "" or not widget.text()
        case FactsLine():
            yield widget.accessibleName(), True
        case QMenuBar():
            for action in widget.actions():
                yield action.text(), widget.actionGeometry(action).right() <= widget.width()


def _label(label: QLabel) -> Iterator[tuple[str, bool]]:
    text, format_ = label.text(), label.textFormat()
    rich = format_ == Qt.TextFormat.RichText or (
        format_ == Qt.TextFormat.AutoText and text.startswith("<")
    )
    if rich:
        document = QTextDocument()
        document.setHtml(text)
        text = document.toPlainText()
    if not text or not label.pixmap().isNull():
        return
    room = label.contentsRect()
    if label.wordWrap():
        flags = Qt.TextFlag.TextWordWrap
        needed = label.fontMetrics().boundingRect(QRect(0, 0, room.width(), 9999), flags, text)
        yield (
            text,
            needed.width() <= room.width() + _SLACK
            and (needed.height() <= room.height() + _SLACK or rich),
        )
    else:
        yield text, _wide(label, text) <= room.width() + _SLACK


def _button(button: QAbstractButton) -> Iterator[tuple[str, bool]]:
    text = button.text()
    if text:
        icon = 0 if button.icon().isNull() else button.iconSize().width()
        yield text, _wide(button, text.replace("&", "")) + icon <= button.width()


def _wide(widget: QWidget, text: str) -> int:
    return max(widget.fontMetrics().horizontalAdvance(line) for line in text.split("\n"))
