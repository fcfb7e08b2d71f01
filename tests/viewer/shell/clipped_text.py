"""Finds what is wrong with the widgets of the real window: words that are cut without saying so or
show their markup, widgets that overlap or stick out, and those without a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from PySide6.QtCore import QModelIndex, QRect, Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QHeaderView,
    QKeySequenceEdit,
    QLabel,
    QLineEdit,
    QListView,
    QMainWindow,
    QMenuBar,
    QRadioButton,
    QScrollArea,
    QScrollBar,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QTableView,
    QTextEdit,
    QToolButton,
    QTreeView,
    QWidget,
)

from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.plots.chart_tabs import ChartTabs
from dgn_viewer.widgets.choice_box import ChoiceBox
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.elided_label import ElidedLabel

_RAW = re.compile(r"[$\\]|<[/a-z]|&[a-z]+;")
_SLACK = 1  # pixels by which a measure may be off
_MOST_ROWS = 60  # of a table
_COMPOUND = (QAbstractSpinBox, QComboBox, QKeySequenceEdit)


def complaints(window: QWidget) -> list[str]:
    """One sentence for each visible widget with which something is wrong; none is right."""
    seen = [one for one in (window, *window.findChildren(QWidget)) if _is_seen(one)]
    found = []
    for widget in seen:
        for text, whole in _words(widget):
            if _RAW.search(text):
                found.append(f"{_where(widget)} shows markup: {text!r}")
            if not whole and plain_tip(widget).find(text.replace("&", "")) < 0:
                found.append(f"{_where(widget)}, {widget.width()} px, cuts {text!r} without a tip")
        for words in (widget.accessibleName(), widget.accessibleDescription()):
            if _RAW.search(words):
                found.append(f"{_where(widget)} says markup: {words!r}")
        if isinstance(widget, QAbstractItemView):
            found += _cut_cells(widget)
        found += _out_of_room(widget)
    found += _overlaps(window)
    found += [f"{one} has no name" for one in nameless(window)]
    return list(dict.fromkeys(found))


def interactive(root: QWidget) -> Iterator[QWidget]:
    """What can be clicked or have the keyboard, without what a compound field is made of."""
    for widget in root.findChildren(QWidget):
        above = widget.parentWidget()
        inner = isinstance(above, _COMPOUND) and isinstance(widget, QLineEdit)
        popup = widget.window().windowType() == Qt.WindowType.Popup
        silent = isinstance(widget, (QHeaderView, QLabel, QScrollBar))
        corner = widget.objectName() == "qt_tableview_cornerbutton"
        acts = isinstance(widget, QAbstractButton) or (
            widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        )
        if acts and not (inner or popup or silent or corner or widget.isHidden()):
            yield widget


def nameless(root: QWidget) -> set[str]:
    """What can be clicked or have the keyboard and has no name for a screen reader."""
    found = set()
    for widget in interactive(root):
        text = widget.text() if isinstance(widget, QAbstractButton) else ""
        if not (widget.accessibleName() or text):
            found.add(_where(widget))
    return found


def _is_seen(widget: QWidget) -> bool:
    return widget.isVisible() and not widget.visibleRegion().isEmpty()


def _where(widget: QWidget) -> str:
    names, above = [], widget
    while above is not None and len(names) < 3:
        named = f" {above.objectName()!r}" if above.objectName() else ""
        names.append(type(above).__name__ + named)
        above = above.parentWidget()
    return " in ".join(names)


def _out_of_room(widget: QWidget) -> Iterator[str]:
    """A widget that its parent shows only a part of, and to which nothing scrolls."""
    above = widget.parentWidget()
    if above is None or widget.isWindow() or isinstance(widget, QScrollBar):
        return
    box, room = widget.geometry(), above.rect().adjusted(-1, -1, 1, 1)
    area = above.parentWidget()
    if isinstance(area, QAbstractScrollArea) and area.viewport() is above:
        if not isinstance(area, QScrollArea):
            return
        never = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        beside = area.horizontalScrollBarPolicy() == never and box.width() > room.width()
        below = area.verticalScrollBarPolicy() == never and box.height() > room.height()
        if beside or below:
            yield f"{_where(widget)}, {box.size().toTuple()}, is larger than what shows it"
    elif not room.contains(box) and not isinstance(above, (QTextEdit, QHeaderView)):
        yield f"{_where(widget)} sticks out: {box.getCoords()} of {room.getCoords()}"


def _overlaps(window: QWidget) -> Iterator[str]:
    """Widgets beside each other in one layout that overlap."""
    for above in (window, *window.findChildren(QWidget)):
        layout = above.layout()
        if not _is_seen(above) or layout is None:
            continue
        if isinstance(above, (QMainWindow, QStackedWidget, QSplitter)):
            continue
        laid = [layout.itemAt(place).widget() for place in range(layout.count())]
        shown = [one for one in laid if one is not None and _is_seen(one)]
        for one, other in combinations(shown, 2):
            common = one.geometry() & other.geometry()
            if common.width() > _SLACK and common.height() > _SLACK:
                yield f"{_where(one)} lies on {_where(other)}: {common.getCoords()}"


def _cut_cells(view: QAbstractItemView) -> Iterator[str]:
    """Cells and headings whose words are cut and whose tips do not have them."""
    model = view.model()
    if model is None:
        return
    metrics = view.fontMetrics()
    for index in _cells(view, QModelIndex()):
        text = str(index.data() or "")
        if _RAW.search(text):
            yield f"{_where(view)} shows markup: {text!r}"
        room = view.visualRect(index)
        if not text or not view.viewport().rect().intersects(room):
            continue
        tip = str(index.data(Qt.ItemDataRole.ToolTipRole) or "")
        cut = view.sizeHintForIndex(index).width() > room.width() + _SLACK
        if cut and metrics.horizontalAdvance(text) > room.width() and text not in shown_text(tip):
            yield f"{_where(view)}, {room.width()} px, cuts the cell {text!r} without a tip"
    header = view.horizontalHeader() if isinstance(view, QTableView) else None
    for place in range(model.columnCount() if header is not None and header.isVisible() else 0):
        assert header is not None
        text = str(model.headerData(place, Qt.Orientation.Horizontal) or "")
        about = model.headerData(place, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
        wide = header.sectionSize(place)
        cut = 0 < wide < header.fontMetrics().horizontalAdvance(text)
        if cut and text not in shown_text(str(about or "")):
            yield f"{_where(view)}, {wide} px, cuts the heading {text!r} without a tip"


def _cells(view: QAbstractItemView, above: QModelIndex) -> Iterator[QModelIndex]:
    model, flat = view.model(), isinstance(view, QListView)
    for row in range(min(model.rowCount(above), _MOST_ROWS)):
        for column in range(1 if flat else model.columnCount(above)):
            yield model.index(row, column, above)
        if isinstance(view, QTreeView):
            yield from _cells(view, model.index(row, 0, above))


def plain_tip(widget: QWidget) -> str:
    """The words of a tool tip."""
    return shown_text(widget.toolTip())


def shown_text(text: str) -> str:
    """What a reader sees of a rich text."""
    document = QTextDocument()
    document.setHtml(text)
    return document.toPlainText().replace("\u200b", "")


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
            room = widget.text_width()
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
                told = text in shown_text(widget.tabToolTip(place))
                yield text, told or _wide(widget, text) <= widget.tabRect(place).width()
        case QLineEdit() if not widget.text():
            text = widget.placeholderText()
            yield text, _wide(widget, text) <= widget.contentsRect().width() - 8
        case QLineEdit():
            yield widget.text(), True  # it scrolls
        case QCheckBox() | QRadioButton():
            if widget.text():
                yield widget.text(), widget.sizeHint().width() <= widget.width() + _SLACK
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
