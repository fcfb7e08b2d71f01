"""All experiments as a list of cards: question, picture of the last result, state, cost, paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QSizePolicy, QVBoxLayout, QWidget

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.document import Document, read_document
from dgn_engine.experiments.report.papers import paper_title
from dgn_engine.experiments.report.reproduce_request import FoundResult
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.experiments.report.result_state import NOT_RUN, describe_running, describe_state
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.experiments.result_sketch import ResultSketch, chart_of_result
from dgn_viewer.style.stylesheet import mix_colours, plain_tip
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    plain_label,
)

STARTING = "starting"
NOT_MEASURED = "not measured"


class ExperimentCard(QAbstractButton):
    """One experiment; a click opens its result, or the page that starts it."""

    def __init__(self, entry: ExperimentEntry) -> None:
        super().__init__()
        self.entry = entry
        self._theme = LIGHT
        self._fraction = 0.0
        self.sketch = ResultSketch()
        self.question = plain_label(entry.question or entry.title, "heading")
        self.state = plain_label(NOT_RUN, "small")
        known = entry.quick_cost not in ("", NOT_MEASURED)
        self.cost = PlainLabel(f"about {entry.quick_cost}" if known else "", role="small")
        self.cost.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom)
        self.paper = plain_label(entry.paper, "small")
        self.paper.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
        foot = make_row(self.cost, (self.paper, 1), spacing=8)
        words = make_column(self.question, self.state, 1, foot, spacing=4)
        make_row(self.sketch, words, into=self, margins=(8, 8, 12, 8), spacing=12)
        for label in self.findChildren(QLabel):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(plain_tip(f"{entry.title}. {entry.about} {paper_title(entry.paper)}"))
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._name_state(NOT_RUN)

    @property
    def searched_text(self) -> str:
        """The text that the filter searches."""
        entry = self.entry
        parts = (entry.question, entry.title, entry.about, entry.paper, entry.id)
        return " ".join((*parts, paper_title(entry.paper), self.state.text())).casefold()

    def show_not_run(self) -> None:
        self.sketch.show_chart(None)
        self._name_state(NOT_RUN)

    def show_result(self, document: Document, today: date) -> None:
        self.sketch.show_chart(chart_of_result(document))
        self._name_state(describe_state(document, today))

    def show_running(self, words: str, fraction: float = 0.0) -> None:
        """Show how far it is; `fraction`: share of the work that is done."""
        self._name_state(words, fraction)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.sketch.set_theme(theme)
        self.update()

    def _name_state(self, words: str, fraction: float = 0.0) -> None:
        self._fraction = fraction
        self.update()
        self.state.setText(words)
        self.setAccessibleName(f"{self.question.text()} {words}")

    def sizeHint(self) -> QSize:
        layout = self.layout()
        assert layout is not None
        return layout.sizeHint()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        layout = self.layout()
        assert layout is not None
        return max(layout.heightForWidth(width), layout.minimumSize().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = self._theme
        lit = self.underMouse() or self.isDown()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.accent if self.hasFocus() else theme.line), 1.0))
        painter.setBrush(QColor(mix_colours(theme.panel, theme.line, 0.5) if lit else theme.panel))
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 4, 4)
        if self._fraction:
            width = round(self._fraction * (self.width() - 8))
            painter.fillRect(4, self.height() - 3, width, 2, QColor(theme.accent))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Enter, QEvent.Type.Leave):
            self.update()
        return super().event(event)


class ExperimentList(QWidget):
    """The cards below a field that filters them by words.

    Results are read one by one while nothing else is due, so that the list is there at once.
    """

    opened = Signal(object)  # the entry of a card that was clicked

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("experiment_list")
        self.cards: dict[str, ExperimentCard] = {}
        self.results: Mapping[str, FoundResult] = {}
        self._theme = LIGHT
        self._running = ""  # the experiment that runs, by its id
        self._unread: list[str] = []
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._read_next)
        self.query = QLineEdit()
        self.query.setPlaceholderText("Filter by words: question, paper, state")
        self.query.setAccessibleName("Filter experiments")
        self.query.setClearButtonEnabled(True)
        self.query.textChanged.connect(self._filter_cards)
        self.none = plain_label("No experiment has all of these words.", "muted")
        self.none.hide()
        self._column = QVBoxLayout()
        self._column.setSpacing(8)
        page = QWidget()
        make_column(self._column, self.none, 1, into=page, margins=(12, 4, 12, 12))
        head = make_row(self.query, margins=(12, 8, 12, 4))
        make_column(head, (make_scroll_area(page), 1), into=self, spacing=0)

    def offer_experiments(self, entries: Sequence[ExperimentEntry]) -> None:
        """Add a card for each experiment that has none yet."""
        for entry in entries:
            if entry.id not in self.cards:
                card = ExperimentCard(entry)
                card.set_theme(self._theme)
                card.clicked.connect(lambda _=False, entry=entry: self.opened.emit(entry))
                self.cards[entry.id] = card

    def show_results(self, results: Mapping[str, FoundResult], running: str = "") -> None:
        """Show these results; `running`: the experiment that runs now, or ''.

        What runs comes first, then results from the newest, then what has not been run.
        """
        self.results, self._running = results, running
        self._unread = [name for name in self._in_order() if name in results and name != running]
        for name, card in self.cards.items():
            if name == running:
                card.show_running(STARTING)
            elif name not in results:
                card.show_not_run()
        for place, name in enumerate(self._in_order()):
            self._column.insertWidget(place, self.cards[name])
        if self._unread:
            self._timer.start()
        self._filter_cards()

    def show_progress(self, now: ReproductionProgress) -> None:
        if now.name == self._running and now.name in self.cards:
            self.cards[now.name].show_running(describe_running(now), now.fraction)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for card in self.cards.values():
            card.set_theme(theme)

    def hideEvent(self, event: QHideEvent) -> None:
        self._timer.stop()  # the list is filled again when it is opened
        super().hideEvent(event)

    def _in_order(self) -> list[str]:
        made = {name: found.made for name, found in self.results.items()}
        with_result = sorted((n for n in self.cards if n in made), key=made.__getitem__)[::-1]
        first = [self._running] if self._running in self.cards else []
        return list(dict.fromkeys([*first, *with_result, *self.cards]))

    def _read_next(self) -> None:
        if not self._unread:
            self._timer.stop()
            self._filter_cards()  # states are words too
            return
        name = self._unread.pop(0)
        try:
            document = read_document(self.results[name].folder)
        except UserError as refusal:
            self.cards[name].show_running(f"cannot be read: {refusal}")
        else:
            self.cards[name].show_result(document, date.today())

    def _filter_cards(self) -> None:
        words = self.query.text().casefold().split()
        fits = {
            name: all(word in card.searched_text for word in words)
            for name, card in self.cards.items()
        }
        for name, card in self.cards.items():
            card.setVisible(fits[name])
        self.none.setVisible(bool(words) and not any(fits.values()))
