"""The message line below a form: a status, or why the last action was refused."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QWidget

from dgn_engine.views.event_notices import REFUSED
from dgn_viewer.widgets.layouts import WrappedLabel
from dgn_viewer.widgets.number_entry import NumberEntry

REFUSED_MS = round(1000 * REFUSED)  # as long as in the status bar


class MessageLine(WrappedLabel):
    """Line that shows a lasting status, or temporarily a refusal; hidden if empty.

    A refusal answers one action. It ends with the next status or refusal, when an input is edited
    (`end_with`), when the line is hidden with its page, or after `REFUSED_MS`; the status then
    returns. A problem that lasts as long as the form is invalid is a status instead:
    `show_message(…, "refused")`.

    `changed`: the text has changed, and with it perhaps its height.
    """

    changed = Signal()

    def __init__(self, words: str = "", *, selectable: bool = False) -> None:
        super().__init__("", breaks=not selectable)
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._timer = QTimer(self, singleShot=True, interval=REFUSED_MS)
        self._timer.timeout.connect(self.end_refusal)
        self._refusal = ""
        self._words, self._role = words, "muted"
        self.setText(words)
        set_role(self, self._role)
        if not words:
            self.hide()  # without a parent it is shown together with its page

    @property
    def refusal(self) -> str:
        """The refusal that is shown; '' if there is none."""
        return self._refusal

    def show_message(self, words: str, role: str = "muted") -> None:
        """Show a lasting status ('' for none) and end a refusal."""
        self._words, self._role = words, role
        self.show_refusal("")

    def show_refusal(self, why: str) -> None:
        """Show why an action was refused; '' if it succeeded."""
        self._refusal = why
        if why:
            self._timer.start()
        else:
            self._timer.stop()
        self._update_text()

    def end_refusal(self) -> None:
        if self._refusal:
            self.show_refusal("")

    def end_with(self, *edits: SignalInstance) -> None:
        """End a refusal when one of these signals is emitted: an input was edited."""
        for edit in edits:
            edit.connect(lambda *_: self.end_refusal())

    def end_with_edits_in(self, form: QWidget) -> None:
        """End a refusal when a field that the form has now is edited."""
        self.end_with(
            *(line.textChanged for line in form.findChildren(QLineEdit)),
            *(number.valueChanged for number in form.findChildren(NumberEntry)),
            *(box.currentIndexChanged for box in form.findChildren(QComboBox)),
            *(
                button.toggled
                for button in form.findChildren(QAbstractButton)
                if button.isCheckable()
            ),
        )

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():  # the page was closed, not the window minimised
            self.end_refusal()

    def _update_text(self) -> None:
        words = self._refusal or self._words
        set_role(self, "refused" if self._refusal else self._role)
        if words != self.text():
            self.setText(words)
            self.setVisible(bool(words))
            self.changed.emit()


def set_role(widget: QWidget, role: str) -> None:
    """Set the style sheet role of a widget, and polish it so that the role takes effect."""
    if widget.property("role") != role:
        widget.setProperty("role", role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)
