"""Paint a run in two lines of text with a tick box and a sparkline; numbers are never cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.protocol.trend import decode_trend
from dgn_engine.scene.number_style import rewrite_numbers
from dgn_engine.scene.theme import Theme
from dgn_engine.text.fitted_text import fit_text, join_fitting
from dgn_engine.text.printable import printable_name
from dgn_engine.text.written_numbers import format_percent
from dgn_viewer.rail.run_table import COLUMNS, LINE, NAME, Index, RunTable, own_name
from dgn_viewer.style.stylesheet import mix_colours, tabular_font

ROW, HEADING_ROW = 42, 24  # pixels
_TICK = 14
_MARGIN = 8
_GAP = 6
_MOST_TEXTS = 5000
_CELL = 9  # left and right of the text of a cell
_SPARK = QSize(48, 14)
_TROUBLED = ("damaged", "failed", "diverged")
_ORDINARY = ("stopped", "finished")


def paint_tick(painter: QPainter, box: QRect, colour: QColor | None, edge: QColor) -> None:
    """Paint a tick box, filled with the colour of the overlaid curves if it is ticked."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(edge, 1))
    painter.setBrush(colour if colour is not None else Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
    if colour is not None:
        bright = QColor("white") if colour.lightnessF() < 0.62 else QColor("black")
        painter.setPen(QPen(bright, 2))
        place = QPointF(box.topLeft())
        corners = ((3.5, 7.2), (6.2, 10.0), (10.8, 4.4))
        painter.drawPolyline(QPolygonF([place + QPointF(*corner) for corner in corners]))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


class LineTexts(NamedTuple):
    """The texts of a row; `has_trend`: there is room for its sparkline."""

    clock: str
    title: str
    accuracy: str
    detail: str
    has_trend: bool


class RunLine(QStyledItemDelegate):
    """Paints the rows of the list: time, regime, network and best accuracy, then what differs."""

    def __init__(self, runs: RunTable, view: QWidget) -> None:
        super().__init__(view)
        self._runs = runs
        self._font = tabular_font(view)
        self._small = tabular_font(view, 12)
        self._bold = tabular_font(view, 12, bold=True)
        self._metrics, self._small_metrics = QFontMetrics(self._font), QFontMetrics(self._small)
        self._texts = _TextCache(runs)
        self._time_width = self._metrics.horizontalAdvance("00:00")

    @staticmethod
    def tick_box(row: QRect) -> QRect:
        """Return the tick box in the rectangle of a row."""
        return QRect(row.left() + _MARGIN, row.top() + 5, _TICK, _TICK)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(220, ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        run = self._runs.run_at(index.row())
        painter.save()
        if run is None:
            self._paint_heading(painter, option.rect, str(index.data()))
        else:
            self._paint_run(painter, option, run)
        painter.restore()

    def editorEvent(self, event: QEvent, *_: object) -> bool:
        return False  # ticked by the view, which also knows double clicks and the space bar

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        editor.setGeometry(option.rect.adjusted(_MARGIN + _TICK, 6, -4, -6))

    def shown_texts(self, run: RecordedRun, width: int) -> LineTexts:
        """Return what a row of this width says."""
        key = run.folder, LINE, width
        return self._texts.recall(key, lambda: self._fit_texts(run, width))

    # Private

    def _fit_texts(self, run: RecordedRun, width: int) -> LineTexts:
        """Fit regime and network beside the accuracy; a long network goes to the second line."""
        started = self._runs.started(run)
        accuracy = "" if run.best != run.best else format_percent(run.best)
        accuracy = rewrite_numbers(accuracy, self._runs.theme.numbers)
        width_of, small_width = (
            self._metrics.horizontalAdvance,
            self._small_metrics.horizontalAdvance,
        )
        room = width - (2 * _MARGIN + _TICK + self._time_width + _GAP) - _MARGIN
        beside = room - width_of(accuracy) - _GAP if accuracy else room
        net, status = printable_name(run.net), "" if run.status in _ORDINARY else run.status
        title = f"{printable_name(run.regime)} · {net}"
        if run.status == "damaged":
            title, net = fit_text(printable_name(run.shown_name), beside, width_of), ""
        elif width_of(title) <= beside:
            net = ""
        else:
            title = fit_text(printable_name(run.regime), beside, width_of)
        first = tuple(part for part in (status, net) if part)
        below = room - _SPARK.width() - _GAP if run.trend else room
        has_trend = bool(run.trend) and small_width(" · ".join(first)) <= below
        below = below if has_trend else room
        if net:
            start = f"{status} · " if status else ""
            net = fit_text(net, below - small_width(start), small_width)
            first = tuple(part for part in (status, net) if part)
        detail = join_fitting((*first, *self._details(run)), below, small_width)
        clock = f"{started:%H:%M}" if started is not None else ""
        return LineTexts(clock, title, accuracy, detail, has_trend)

    def _details(self, run: RecordedRun) -> tuple[str, ...]:
        """Return what tells a run from others, the user's own words first."""
        own = own_name(run) if run.status != "damaged" else ""  # else it is the title
        name = (printable_name(own),) if own else ()
        tags = tuple(f"#{printable_name(tag)}" for tag in run.tags)
        return (*name, *tags, *self._runs.differences(run))

    def _paint_heading(self, painter: QPainter, rect: QRect, day: str) -> None:
        painter.setFont(self._bold)
        painter.setPen(QColor(self._runs.theme.muted))
        inner = rect.adjusted(_MARGIN, 0, -_MARGIN, -2)
        painter.drawText(inner, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, day)

    def _paint_run(self, painter: QPainter, option: QStyleOptionViewItem, run: RecordedRun) -> None:
        theme, rect = self._runs.theme, option.rect
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        back = theme.panel
        if selected:
            back = mix_colours(theme.panel, theme.accent, 0.22)
        elif hovered:
            back = mix_colours(theme.panel, theme.line, 0.5)
        painter.fillRect(rect, QColor(back))
        if selected:
            painter.fillRect(QRect(rect.left(), rect.top(), 3, rect.height()), QColor(theme.accent))
        colour = self._runs.tick_colour(run)
        paint_tick(painter, self.tick_box(rect), colour, _edge_colour(theme))
        clock, title, accuracy, detail, has_trend = self.shown_texts(run, rect.width())
        muted = QColor(theme.text if selected else theme.muted)
        top = QRect(rect.left() + 2 * _MARGIN + _TICK, rect.top() + 3, 0, 18)
        top.setRight(rect.right() - _MARGIN)
        painter.setFont(self._font)
        painter.setPen(muted)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(top, flags, clock)
        painter.setPen(QColor(theme.text))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(top, right, accuracy)
        shift = self._time_width + _GAP
        painter.drawText(top.adjusted(shift, 0, 0, 0), flags, title)
        below = top.translated(0, 18)
        painter.setFont(self._small)
        if detail.startswith(run.status):  # the status has a colour, what follows has not
            painter.setPen(QColor(_status_colour(run, theme)))
            painter.drawText(below.adjusted(shift, 0, 0, 0), flags, run.status)
            shift += self._small_metrics.horizontalAdvance(run.status)
            detail = detail.removeprefix(run.status)
        painter.setPen(muted)
        painter.drawText(below.adjusted(shift, 0, 0, 0), flags, detail)
        if has_trend:
            spark = QRect(below.right() - _SPARK.width() + 1, below.top() + 2, *_SPARK.toTuple())
            _paint_trend(painter, spark, run.trend, colour or muted)


class RunCell(QStyledItemDelegate):
    """Paints the cells of the table, the first with a tick box.

    Painted by hand: Qt would ask the model for ten roles of each cell, which takes 60 ms for a
    screen of cells. Letters are left out of a long text, digits are not.
    """

    def __init__(self, runs: RunTable, view: QAbstractScrollArea) -> None:
        super().__init__(view)
        self._runs, self._view = runs, view
        self._font = tabular_font(view)
        self._metrics = QFontMetrics(self._font)
        self._texts = _TextCache(runs)

    @staticmethod
    def tick_box(cell: QRect) -> QRect:
        """Return the tick box in the rectangle of a cell of names."""
        return QRect(cell.left() + 6, cell.center().y() - _TICK // 2, _TICK, _TICK)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        run = self._runs.run_at(index.row())
        if run is None:
            return
        theme, rect, column = self._runs.theme, option.rect, index.column()
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        if selected:
            painter.fillRect(rect, QColor(mix_colours(theme.panel, theme.accent, 0.22)))
        inner = rect.adjusted(_CELL, 0, -_CELL, 0)
        if column == NAME:
            box = self.tick_box(rect)
            paint_tick(painter, box, self._runs.tick_colour(run), _edge_colour(theme))
            inner.setLeft(box.right() + _GAP)
        text = self._texts.recall(
            (run.folder, column, inner.width()),
            lambda: fit_text(
                self._runs.cell_text(run, column), inner.width(), self._metrics.horizontalAdvance
            ),
        )
        number = COLUMNS[column].number
        if number and not self._is_in_sight(inner, text):
            return  # half a number at the edge would be another number
        side = Qt.AlignmentFlag.AlignRight if number else Qt.AlignmentFlag.AlignLeft
        painter.setFont(self._font)
        painter.setPen(QColor(theme.text))
        painter.drawText(inner, side | Qt.AlignmentFlag.AlignVCenter, text)

    def _is_in_sight(self, cell: QRect, text: str) -> bool:
        """Return whether no edge of the table cuts a text at the right of a cell."""
        left = cell.right() - self._metrics.horizontalAdvance(text)
        return left >= 0 and cell.right() < self._view.viewport().width()

    def editorEvent(self, event: QEvent, *_: object) -> bool:
        return False

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: Index
    ) -> None:
        editor.setGeometry(option.rect)


_Texts = TypeVar("_Texts")


class _TextCache:
    """Keeps the texts that fit into painted cells, until the runs change."""

    def __init__(self, runs: RunTable) -> None:
        self._known: dict[tuple[str, int, int], Any] = {}
        runs.dataChanged.connect(self._known.clear)
        runs.modelReset.connect(self._known.clear)

    def recall(self, key: tuple[str, int, int], make: Callable[[], _Texts]) -> _Texts:
        """Return the texts of this folder, column and width."""
        if key not in self._known:
            if len(self._known) >= _MOST_TEXTS:
                self._known.clear()
            self._known[key] = make()
        result: _Texts = self._known[key]
        return result


def tick_box_of(delegate: object, row: QRect) -> QRect:
    """Return the tick box that a delegate paints in a row; empty if it paints none."""
    return delegate.tick_box(row) if isinstance(delegate, (RunLine, RunCell)) else QRect()


def _edge_colour(theme: Theme) -> QColor:
    return QColor(mix_colours(theme.line, theme.muted, 0.6))


def _status_colour(run: RecordedRun, theme: Theme) -> str:
    if run.status == "running":
        return theme.accent
    return theme.refused if run.status in _TROUBLED else theme.muted


def _paint_trend(painter: QPainter, rect: QRect, trend: str, colour: QColor) -> None:
    """Paint test accuracy from 0 to 100 % over the steps of the run."""
    points = [
        QPointF(rect.left() + x * rect.width(), rect.bottom() - y * (rect.height() - 2))
        for x, y in decode_trend(trend)
    ]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(colour, 1.25))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPolyline(QPolygonF(points))
