"""A slim row of tabs with the titles of a panel's charts, for panels where only one fits."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QTabBar, QWidget

from dgn_engine.scene.chart_layout import TAB_ROW
from dgn_engine.scene.typeset import label_html, strip_markup
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.rich_text import TextStyle

_AROUND = 10.0  # pixels left and right of a title
_LEAST = 48.0


class ChartTabs(QTabBar):
    """A tab bar with mathematics in its titles; `picked` has the key of the selected chart."""

    picked = Signal(str)

    def __init__(self, style: ChartStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._titles: tuple[tuple[str, str], ...] = ()
        self.setAccessibleName("Charts")
        self.setExpanding(False)
        self.setDrawBase(False)
        self.setUsesScrollButtons(False)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_style(style)
        self.currentChanged.connect(self._on_current)

    def show_titles(self, titles: tuple[tuple[str, str], ...], chosen: str) -> None:
        """Show (key, title) pairs and select the chart with key `chosen`."""
        self.blockSignals(True)
        if titles != self._titles:
            self._titles = titles
            while self.count() > len(titles):
                self.removeTab(self.count() - 1)
            for index, (_, title) in enumerate(titles):
                if index == self.count():
                    self.addTab("")
                self.setTabText(index, strip_markup(title))
                self.setTabToolTip(index, label_html(title))
        keys = [key for key, _ in titles]
        self.setCurrentIndex(keys.index(chosen) if chosen in keys else 0)
        self.blockSignals(False)

    @property
    def row_height(self) -> int:
        return round(TAB_ROW * self._style.theme.scale)

    def set_style(self, style: ChartStyle) -> None:
        self._style = style
        self.setFixedHeight(self.row_height)
        self.update()

    def tabSizeHint(self, index: int) -> QSize:
        widths = [self._wanted_width(title) for _, title in self._titles]
        available, total = float(self.width()), sum(widths)
        if total > available and total > 0:  # shrink all alike, so that none is hidden
            widths = [max(width * available / total, _LEAST) for width in widths]
        tab_width = int(widths[index]) if index < len(widths) else int(_LEAST)
        return QSize(tab_width, self.row_height)

    def minimumTabSizeHint(self, index: int) -> QSize:
        return QSize(int(_LEAST), self.row_height)

    def minimumSizeHint(self) -> QSize:
        return QSize(int(_LEAST), self.row_height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._style.colour("panel"))
        painter.setPen(QPen(self._style.colour("line"), 1))
        painter.drawLine(QPointF(0, self.height() - 1), QPointF(self.width(), self.height() - 1))
        for index, (_, title) in enumerate(self._titles):
            chosen = index == self.currentIndex()
            self._paint_tab(painter, QRectF(self.tabRect(index)), title, chosen)
        painter.end()

    def _paint_tab(self, painter: QPainter, box: QRectF, title: str, chosen: bool) -> None:
        type_ = self._title_style(chosen)
        label = type_.shorten_label(title, box.width() - _AROUND)
        left = box.left() + (box.width() - type_.width(label)) / 2
        base = box.top() + (box.height() - 2 - type_.height) / 2 + type_.ascent
        colour = self._style.colour("text" if chosen else "muted")
        type_.paint(painter, QPointF(left, base), label, colour)
        if chosen:
            foot = QRectF(box.left(), box.bottom() - 2, box.width(), 2)
            painter.fillRect(foot, self._style.colour("accent"))
            if self.hasFocus():
                painter.setPen(QPen(self._style.colour("accent"), 1))
                painter.drawRect(box.adjusted(1, 2, -2, -4))

    def _wanted_width(self, title: str) -> float:
        return max(self._title_style(True).width(title) + 2 * _AROUND, _LEAST)

    def _title_style(self, chosen: bool) -> TextStyle:
        return self._style.title if chosen else self._style.tab

    def _on_current(self, place: int) -> None:
        if 0 <= place < len(self._titles):
            self.picked.emit(self._titles[place][0])
