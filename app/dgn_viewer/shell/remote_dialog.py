"""The dialog 'Follow a run over ssh': address and token of a run served by `dgn serve`."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, SCHEME
from dgn_engine.storage.remote.served_address import address_of
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.layouts import (
    make_column,
    make_row,
    plain_label,
    push_button,
    resize_to_fit,
)
from dgn_viewer.widgets.message_line import MessageLine

BEGINNING = f"{SCHEME}{LOCAL}:"
HOW = (
    "On the machine where the run is recorded:\n"
    "    dgn serve RUN\n"
    "This prints a port and a token. On this machine, in a terminal that you keep open:\n"
    f"    ssh -L PORT:{LOCAL}:PORT THAT_MACHINE"
)


class RemoteDialog(QDialog):
    """Non-modal dialog. `wanted(address, token)`: follow this run; `stopped`: stop following."""

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
        self.stop_button = push_button(
            "Stop following", self.stopped, about="Stop fetching the run"
        )
        self.follow_button = push_button("Follow", self.submit_fields, role="primary")
        self.follow_button.setDefault(True)
        form = Section()
        form.add_field("Address", self.address, "Printed by 'dgn serve'")
        form.add_field("Token", self.token, "Printed by 'dgn serve'; it is not stored")
        buttons = make_row(1, self.stop_button, self.follow_button, spacing=8)
        parts = (plain_label(HOW, "muted", selectable=True), form, self.said, 1, buttons)
        make_column(*parts, into=self, margins=(12, 12, 12, 12), spacing=12)
        resize_to_fit(self, 520, 300)
        for field in (self.address, self.token):
            field.textChanged.connect(self._update_button)
        self.show_following(False)

    def show_following(self, following: bool) -> None:
        """Show whether a run is being followed."""
        self.stop_button.setVisible(following)
        self._update_button()

    def show_address(self, address: str) -> None:
        self.address.setText(address)

    def ask_token(self, why: str = "") -> None:
        """Ask for the token; `why`: reason why the last one was refused."""
        self.said.show_refusal(why)
        self.token.selectAll()
        self.token.setFocus()

    def submit_fields(self) -> None:
        """Request to follow the run, or refuse an invalid address."""
        address = self.address.text().strip()
        try:
            address_of(address)
        except UserError as refusal:
            self.said.show_refusal(str(refusal))
            self.address.setFocus()
            return
        self.wanted.emit(address, self.token.text().strip())

    def _update_button(self) -> None:
        possible = self.address.text().strip() != BEGINNING and bool(self.token.text().strip())
        self.follow_button.setEnabled(possible)
