"""The inspector's page for a new run: the form, the button that starts it, what was wrong."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QFrame

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.commands import Command, StartRun
from dgn_engine.protocol.events import EngineReady, Event, Failed, Refused, RunStarted, Working
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.inspector.run_form import RunForm
from dgn_viewer.notices import in_form_words
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row, scrolling


class RunPage(QFrame):
    """Sends `StartRun`. `awaiting`: it was sent and the engine has not answered yet."""

    title = "New run"

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._send = send
        self.state = RunState()
        self.awaiting = False
        self.form = RunForm()
        self.start = push_button("Start run", self._start, "primary")
        about = "Fill in the settings of the present run, as they are now"
        self.as_now = push_button("As now", self._fill_as_now, about=about)
        self.message = plain_label()
        self._lay_out()
        self._show()

    def on_event(self, event: Event, state: RunState) -> None:
        """Follow the engine; `state` is the one after the event."""
        first = self.state.run is None
        self.state = state
        match event:
            case EngineReady(catalogue=catalogue):
                self.form.offer(catalogue)
                self.form.fill(RunConfig())
            case RunStarted():
                self._answered("")
                if first:
                    self.form.fill(event.config)
            case Refused(reason=reason) if self.awaiting:
                self._answered(in_form_words(reason))
            case Failed(what=what) if self.awaiting:
                self._answered(f"{what}.")
            case Working() if self.awaiting:
                self._say(event.sentence, "muted")
        self._show()

    def set_theme(self, theme: Theme) -> None:
        self.form.set_theme(theme)

    def _start(self) -> None:
        try:
            config = self.form.config()
        except UserError as refusal:
            self._say(in_form_words(str(refusal)), "refused")
            return
        self.awaiting = True
        self._say("Starting…", "muted")
        self._show()
        self._send(StartRun(config))

    def _answered(self, complaint: str) -> None:
        self.awaiting = False
        self._say(complaint, "refused")

    def _fill_as_now(self) -> None:
        config = self.state.current_config()
        if config is not None:
            self.form.fill(config)
            self._say("", "muted")

    def _show(self) -> None:
        self.form.setEnabled(self.state.ready)
        self.start.setEnabled(self.state.ready and not self.awaiting)
        self.as_now.setEnabled(self.state.run is not None)
        if not self.state.ready:
            self._say("loading torch…" if self.state.phase == "starting" else "", "muted")
        elif self.message.text() == "loading torch…":
            self._say("", "muted")

    def _say(self, text: str, role: str) -> None:
        if self.message.property("role") != role:
            self.message.setProperty("role", role)
            self.message.style().polish(self.message)  # a style sheet reads roles only then
        self.message.setText(text)
        self.message.setVisible(bool(text))

    def _lay_out(self) -> None:
        buttons = row(self.start, self.as_now, 1, spacing=8)
        foot = column(self.message, buttons, margins=(16, 8, 16, 12), spacing=8)
        column((scrolling(self.form), 1), foot, into=self, spacing=0)
