"""The dialog 'Follow a run over ssh': address and token of a run that `dgn serve` serves."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, SCHEME
from dgn_engine.storage.remote.served_address import address_of
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.layouts import column, open_at, plain_label, push_button, row
from dgn_viewer.widgets.message_line import MessageLine

BEGINNING = f"{SCHEME}{LOCAL}:"
HOW = (
    "On the machine where the run is written:\n"
    "    dgn serve RUN\n"
    "It prints a port and a token. On this machine, in a terminal that stays open:\n"
    f"    ssh -L PORT:{LOCAL}:PORT THAT_MACHINE"
)


class RemoteDialog(QDialog):
    """Not modal. `wanted(address, token)`: that run is to be followed; `stopped`: no more."""

    wanted = Signal(str, str)
    stopped = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("remote_dialog")
        self.setWindowTitle("Follow a run over ssh")
        self.address, self.token = QLineEdit(BEGINNING), QLineEdit()
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.said = MessageLine()
        self.said.end_with(self.address.textEdited, self.token.textEdited)
        self.stop_button = push_button("Stop following", self.stopped, about="Fetch no more of it")
        self.follow_button = push_button("Follow", self.ask, role="primary")
        self.follow_button.setDefault(True)
        form = Section()
        form.add("Address", self.address, "As 'dgn serve' prints it")
        form.add("Token", self.token, "As 'dgn serve' prints it; it is not kept")
        buttons = row(1, self.stop_button, self.follow_button, spacing=8)
        parts = (plain_label(HOW, "muted", selectable=True), form, self.said, 1, buttons)
        column(*parts, into=self, margins=(12, 12, 12, 12), spacing=12)
        open_at(self, 520, 300)
        for field in (self.address, self.token):
            field.textChanged.connect(self._look)
        self.show_following(False)

    def show_following(self, following: bool) -> None:
        """Whether there is something to stop."""
        self.stop_button.setVisible(following)
        self._look()

    def show_address(self, address: str) -> None:
        self.address.setText(address)

    def want_token(self, why: str = "") -> None:
        """Ask for the token, once more where one was refused."""
        self.said.refuse(why)
        self.token.selectAll()
        self.token.setFocus()

    def ask(self) -> None:
        """Follow what the fields say; an address that is none is said."""
        address = self.address.text().strip()
        try:
            address_of(address)
        except UserError as refusal:
            self.said.refuse(str(refusal))
            self.address.setFocus()
            return
        self.wanted.emit(address, self.token.text().strip())

    def _look(self) -> None:
        possible = self.address.text().strip() != BEGINNING and bool(self.token.text().strip())
        self.follow_button.setEnabled(possible)
