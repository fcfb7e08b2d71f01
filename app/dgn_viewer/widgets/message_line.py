"""The line below a form: what is going on, or why the last thing that was asked was refused."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QWidget

from dgn_engine.views.event_notices import REFUSED
from dgn_viewer.widgets.layouts import WrappedLabel
from dgn_viewer.widgets.number_entry import NumberEntry

REFUSED_MS = round(1000 * REFUSED)  # as in the status bar


class MessageLine(WrappedLabel):
    """Shows lasting words, or a refusal in their place; hidden where there is nothing to show.

    A refusal answers one action. It ends with the next words or refusal, when an input is edited
    (`end_with`), when the line is hidden with its page, and after `REFUSED_MS`: then the lasting
    words are shown again. What is wrong for as long as a form is filled in as it is, is no
    refusal in this sense: `say(…, "refused")`.

    `changed`: other words are shown, which may be higher.
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
            self.hide()  # what has no parent yet is shown with it

    @property
    def refusal(self) -> str:
        """The refusal that is shown; '' where there is none."""
        return self._refusal

    def say(self, words: str, role: str = "muted") -> None:
        """Show lasting words, '' for none; a refusal ends."""
        self._words, self._role = words, role
        self.refuse("")

    def refuse(self, why: str) -> None:
        """Show why an action was refused, in the place of the lasting words; '': it succeeded."""
        self._refusal = why
        if why:
            self._timer.start()
        else:
            self._timer.stop()
        self._show()

    def end_refusal(self) -> None:
        if self._refusal:
            self.refuse("")

    def end_with(self, *edits: SignalInstance) -> None:
        """End a refusal whenever one of these signals comes: the input was edited."""
        for edit in edits:
            edit.connect(lambda *_: self.end_refusal())

    def end_with_edits_in(self, form: QWidget) -> None:
        """End a refusal whenever a field of this form, as it is now, is changed."""
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
        if not event.spontaneous():  # the page was left, not the window minimised
            self.end_refusal()

    def _show(self) -> None:
        words = self._refusal or self._words
        set_role(self, "refused" if self._refusal else self._role)
        if words != self.text():
            self.setText(words)
            self.setVisible(bool(words))
            self.changed.emit()


def set_role(widget: QWidget, role: str) -> None:
    """Give a widget the look of a role of the style sheet, which is read only when polished."""
    if widget.property("role") != role:
        widget.setProperty("role", role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)
