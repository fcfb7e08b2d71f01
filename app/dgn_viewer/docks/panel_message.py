"""What a panel says when it has nothing to draw: a heading, a sentence, details on request."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget


class PanelMessage(QWidget):
    """A calm sentence in the middle of the panel; for a fault the traceback can be opened."""

    accepted = Signal()  # what was offered is wanted

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = QLabel()
        self._heading.setProperty("role", "heading")
        self._sentence = QLabel()
        self._sentence.setProperty("role", "muted")
        self._sentence.setWordWrap(True)
        for label in (self._heading, self._sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._details = QPlainTextEdit()
        self._details.setReadOnly(True)
        self._details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._more = QPushButton("Details")
        self._more.setProperty("role", "small")
        self._more.setCheckable(True)
        self._copy = QPushButton("Copy")
        self._copy.setProperty("role", "small")
        self._more.toggled.connect(self._details.setVisible)
        self._copy.clicked.connect(self._copy_details)
        buttons = QHBoxLayout()
        self._offer = QPushButton()
        self._offer.clicked.connect(self.accepted)
        buttons.addStretch()
        buttons.addWidget(self._offer)
        buttons.addWidget(self._more)
        buttons.addWidget(self._copy)
        buttons.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        layout.setSpacing(4)
        layout.addStretch()
        layout.addWidget(self._heading)
        layout.addWidget(self._sentence)
        layout.addLayout(buttons)
        layout.addWidget(self._details, 2)
        layout.addStretch()
        self.say("", "")

    def say(self, heading: str, sentence: str, details: str = "", offer: str = "") -> None:
        """Show this; `details` (a traceback) stays closed until asked for, `offer` is a button."""
        self._offer.setText(offer)
        self._offer.setVisible(bool(offer))
        self._heading.setText(heading)
        self._sentence.setText(sentence)
        if self._details.toPlainText() != details:
            self._details.setPlainText(details)
        self._more.setVisible(bool(details))
        self._copy.setVisible(bool(details))
        self._details.setVisible(bool(details) and self._more.isChecked())

    def words(self) -> tuple[str, str, str]:
        """Heading, sentence and details as they are."""
        return self._heading.text(), self._sentence.text(), self._details.toPlainText()

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(self._details.toPlainText())
