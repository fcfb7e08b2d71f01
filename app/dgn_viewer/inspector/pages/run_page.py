"""The page for a new run: the form, its cost estimate, and the Start button."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QSizePolicy

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Command, EngineReady, Event, Failed, Refused, Working
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import EstimateRun, RunEstimated, RunStarted, StartRun
from dgn_engine.scene.run_text import use_form_names
from dgn_engine.scene.theme import Theme
from dgn_viewer.inspector.run_form import RunForm
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.widgets.layouts import make_column, make_row, make_scroll_area, push_button
from dgn_viewer.widgets.message_line import MessageLine

PAUSE = 300  # milliseconds without an edit before an estimate is requested


class RunPage(QFrame):
    """A page that sends `StartRun`; `awaiting` is True until the engine has answered."""

    title = "New run"

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._send = send
        self.state = RunState()
        self.awaiting = False
        self.form = RunForm()
        self.start = push_button("Start run", self._start_run, "primary")
        about = "Fill in the settings of the displayed run at the displayed step"
        self.as_now = push_button("Use current", self._fill_from_run, about=about)
        self.message = MessageLine()
        self.message.end_with(self.form.changed)
        self.estimate = MessageLine()  # cost of the run in the form
        self._estimated: RunConfig | None = None  # configuration of the last request
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self.ask_estimate)
        self.form.changed.connect(self._on_form_edited)
        self._lay_out()
        self._update_buttons()

    def on_event(self, event: Event, state: RunState) -> None:
        first = self.state.run is None
        self.state = state
        match event:
            case EngineReady(catalogue=catalogue):
                self.form.offer_catalogue(catalogue)
                self.form.show_config(RunConfig())
            case RunStarted():
                self._on_answer("")
                if first:
                    self.form.show_config(event.config)
            case Refused(reason=reason) if self.awaiting:
                self._on_answer(use_form_names(reason))
                if self.estimate.property("role") == "refused":  # it has the same message
                    self.estimate.show_message("")
            case Failed(what=what) if self.awaiting:
                self._on_answer(f"{what}.")
            case Working() if self.awaiting:
                self.message.show_message(event.sentence)
            case RunEstimated(config=config) if config is not None and config == self._estimated:
                role = "refused" if event.refusal else "muted"
                self.estimate.show_message(use_form_names(event.sentence), role)
        self._update_buttons()

    def fill_in(self, state: RunState, past: int | None) -> None:
        """Offer what the engine knows, and show the settings of the current run, if any."""
        if state.catalogue is not None:
            self.form.offer_catalogue(state.catalogue)
            self.form.show_config(RunConfig() if state.run is None else state.run.config)
        self.show_state(state, past)

    def show_state(self, state: RunState, past: int | None = None) -> None:
        self.state = state
        text = "Use current" if past is None else f"Use step {past:,}"
        self.as_now.setText(with_chosen_numbers(text))
        self._update_buttons()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._on_form_edited()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._pause.stop()

    def _on_form_edited(self) -> None:
        """Request an estimate shortly after the last edit."""
        self._update_buttons()
        if self.isVisible():
            self._pause.start()

    def ask_estimate(self) -> None:
        """Request an estimate of the run in the form."""
        try:
            self._estimated = self.form.read_run_config()
        except UserError:  # reported by Start, or by the field
            self._estimated = None
            self.estimate.show_message("")
            return
        if self.state.is_ready:
            self._send(EstimateRun(self._estimated))

    def set_theme(self, theme: Theme) -> None:
        self.form.set_theme(theme)

    def _start_run(self) -> None:
        try:
            config = self.form.read_run_config()
        except UserError as refusal:
            self.message.show_refusal(use_form_names(refusal.sentence))
            return
        self.awaiting = True
        self.message.show_message("Starting…")
        self._update_buttons()
        self._send(StartRun(config))

    def _on_answer(self, complaint: str) -> None:
        self.awaiting = False
        self.message.show_message("")
        self.message.show_refusal(complaint)

    def _fill_from_run(self) -> None:
        config = self.state.current_config()
        if config is not None:
            self.form.show_config(config)
            self.message.show_message("")

    def _update_buttons(self) -> None:
        self.form.setEnabled(self.state.is_ready)
        valid = not self.form.problem
        self.start.setEnabled(self.state.is_ready and not self.awaiting and valid)
        self.as_now.setEnabled(self.state.run is not None)
        if not self.state.is_ready:
            self.message.show_message("loading torch…" if self.state.phase == "starting" else "")
        elif self.message.text() == "loading torch…":
            self.message.show_message("")

    def _lay_out(self) -> None:
        buttons = make_row(self.start, self.as_now, 1, spacing=8)
        foot = make_column(self.estimate, self.message, buttons, margins=(16, 8, 16, 12), spacing=8)
        form = make_scroll_area(self.form)
        # Let the form shrink for messages below it, so that Start stays visible.
        form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
        make_column((form, 1), foot, into=self, spacing=0)
