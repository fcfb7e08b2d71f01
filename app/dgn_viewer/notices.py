"""Notices: short cards in the corner that say what happened. Never modal, each can be closed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from dgn_engine.config import SETTINGS, with_places_as
from dgn_engine.protocol import events

Kind = Literal["info", "refused", "failed"]
_SECONDS: dict[Kind, float] = {"info": 12.0, "refused": 20.0, "failed": 0.0}  # 0: until closed
_AT_ONCE = 3  # cards shown together
_KEPT = 50
_WIDTH = 420
_MARGIN = 12


@dataclass(frozen=True)
class NoticeButton:
    """A button of a notice; the notice goes when it is pressed."""

    text: str
    do: Callable[[], object]


@dataclass(frozen=True)
class Notice:
    """One sentence, and details (a traceback) one click away."""

    kind: Kind
    text: str
    details: str = ""
    offers: tuple[NoticeButton, ...] = ()  # what can be done about it; it stays until one is taken


def in_form_words(text: str) -> str:
    """A sentence that names settings as the form of a run does: 'learning rate'."""

    def words(part: str, name: str) -> str:
        if part.endswith(".options"):
            return f"'{name}'"
        label = SETTINGS[part][name].label
        return f"'{label}'" if label else f"{part}.{name}"

    return with_places_as(text, words)


def notice_of(event: events.Event) -> Notice | None:
    """What an event says to the user, if anything."""
    match event:
        case events.Refused(what=what, reason=reason):
            reason = in_form_words(reason)
            return Notice("refused", f"Cannot {what}: {reason}" if what else reason)
        case events.SettingsIgnored(sentences=sentences):
            return Notice("refused", in_form_words(" ".join(sentences)))
        case events.Failed(what=what, traceback=traceback):
            return Notice("failed", what, traceback)
        case events.RegimeSwapped() | events.WeightsTaken():
            return Notice("info", event.sentence)
        case events.ComparisonOpened(remark=remark) if remark:
            return Notice("refused", remark)
        case events.ComparisonClosed(reason=reason) if reason:
            return Notice("refused", reason)
        case events.WeightsSaved(step=step, path=path):
            return Notice("info", f"Weights of step {step:,} saved as {path}.")
        case events.Diverged(step=step):
            return Notice(
                "refused",
                f"Diverged at step {step:,}: the loss is no longer finite, and the run stands. "
                "Reset it, or begin a new one with a smaller learning rate.",
            )
        case events.EngineRestarted():
            return Notice("failed", event.sentence)
        case events.Finished(step=step):
            return Notice("info", f"The run is finished at step {step:,}. Run goes on for more.")
        case events.RecordingPaused(reason=reason):
            return Notice("refused", f"{reason} Training goes on.")
        case events.RecordingResumed(step=step, lost=lost):
            gap = f"; {lost:,} lines of its log are lost" if lost else ""
            return Notice("info", f"The run is recorded again from step {step:,}{gap}.")
        case events.RunContinued(step=step, remark=remark):
            exact = f" It may differ in the last bits: {remark}." if remark else ""
            return Notice("info", f"The recorded run goes on at step {step:,}.{exact}")
        case _:
            return None


class NoticeCard(QFrame):
    closed = Signal(object)

    def __init__(self, notice: Notice, parent: QWidget) -> None:
        super().__init__(parent)
        self.notice = notice
        self.left = 0.0 if notice.offers else _SECONDS[notice.kind]  # seconds until it goes
        self.setObjectName("notice")
        self.setProperty("kind", notice.kind)
        self.setFixedWidth(_WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 8)
        column.setSpacing(8)
        column.addLayout(self._headline())
        self.offers = [self._offer(offer) for offer in notice.offers]
        for button in self.offers[1:]:
            button.setProperty("role", "quiet")  # the first is what is meant
        if self.offers:
            row = QHBoxLayout()
            row.setSpacing(8)
            for button in self.offers:
                row.addWidget(button)
            row.addStretch(1)
            column.addLayout(row)
        self._details = QPlainTextEdit(notice.details, self)
        if notice.details:
            self._add_details(column)
        else:
            self._details.hide()

    def _headline(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        self.label = QLabel(self.notice.text, self)
        self.label.setWordWrap(True)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.close_button = QToolButton(self)
        self.close_button.setText("×")
        self.close_button.setToolTip("Close this notice")
        self.close_button.setAccessibleName("Close this notice")
        self.close_button.clicked.connect(lambda: self.closed.emit(self))
        row.addWidget(self.label, 1)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _offer(self, offer: NoticeButton) -> QPushButton:
        button = QPushButton(offer.text, self)

        def take() -> None:
            self.window().setFocus(Qt.FocusReason.OtherFocusReason)  # this button goes
            self.closed.emit(self)
            offer.do()

        button.clicked.connect(take)
        return button

    def _add_details(self, column: QVBoxLayout) -> None:
        self._details.setReadOnly(True)
        self._details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._details.setFixedHeight(180)
        self._details.hide()
        self.details_button = QPushButton("Details", self)
        self.details_button.setCheckable(True)
        self.details_button.toggled.connect(self._show_details)
        self.copy_button = QPushButton("Copy", self)
        self.copy_button.clicked.connect(self._copy)
        for button in (self.details_button, self.copy_button):
            button.setProperty("role", "quiet")
        row = QHBoxLayout()
        row.addWidget(self.details_button)
        row.addWidget(self.copy_button)
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(self._details)

    def _show_details(self, shown: bool) -> None:
        self._details.setVisible(shown)
        self.left = 0.0  # who reads it closes it

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(f"{self.notice.text}\n\n{self.notice.details}")


class Notices(QWidget):
    """The stack of cards in the lower right corner (of what the window calls so); the last ones."""

    def __init__(self, window: QWidget, corner: Callable[[], QPoint]) -> None:
        super().__init__(window)
        self.recent: deque[Notice] = deque(maxlen=_KEPT)
        self._corner = corner
        self._cards: list[NoticeCard] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._timer = QTimer(self)
        self._timer.setInterval(500)
        self._timer.timeout.connect(self._age)
        window.installEventFilter(self)
        self.hide()

    @property
    def cards(self) -> tuple[NoticeCard, ...]:
        return tuple(self._cards)

    def on_event(self, event: events.Event) -> None:
        notice = notice_of(event)
        if notice is not None:
            self.tell(notice)

    def tell(self, notice: Notice) -> None:
        """Show a notice; the same one again is not stacked but shown anew."""
        self.recent.append(notice)
        self._show(notice)

    def show_recent(self) -> None:
        latest = list(self.recent)[-_AT_ONCE:]
        for notice in latest or [Notice("info", "There have been no notices yet.")]:
            self._show(notice)

    def _show(self, notice: Notice) -> None:
        for card in [card for card in self._cards if card.notice == notice]:
            self._drop(card)
        while len(self._cards) >= _AT_ONCE:
            self._drop(self._cards[0])
        card = NoticeCard(notice, self)
        card.closed.connect(self._drop)
        self._column.addWidget(card)
        self._cards.append(card)
        card.show()
        self._timer.start()
        self.settle()

    def _drop(self, card: NoticeCard) -> None:
        if card not in self._cards:
            return
        self._cards.remove(card)
        self._column.removeWidget(card)
        card.hide()
        card.deleteLater()
        self.settle()

    def _age(self) -> None:
        """Cards go by themselves, but not from under the pointer."""
        for card in list(self._cards):
            if card.left > 0 and not card.underMouse():
                card.left -= self._timer.interval() / 1000
                if card.left <= 0:
                    self._drop(card)
        if not any(card.left > 0 for card in self._cards):
            self._timer.stop()

    def settle(self) -> None:
        """Take the size of the cards and sit in the corner."""
        self.setVisible(bool(self._cards))

        height = sum(
            max(card.heightForWidth(_WIDTH), card.minimumSizeHint().height())
            for card in self._cards
        )
        height += self._column.spacing() * max(0, len(self._cards) - 1)
        corner = self._corner()
        height = min(height, corner.y() - 2 * _MARGIN)
        left, top = corner.x() - _WIDTH - _MARGIN, corner.y() - height - _MARGIN
        self.setGeometry(left, top, _WIDTH, height)
        self.raise_()

    def event(self, event: QEvent) -> bool:
        """A card that changed its size (details) moves the stack."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.settle()
        return super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the corner when the window changes its size."""
        if event.type() == QEvent.Type.Resize and self._cards:
            self.settle()
        return False
