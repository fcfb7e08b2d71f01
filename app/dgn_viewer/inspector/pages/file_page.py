"""The page of a checkpoint: its tensors, what to use it for, and whether it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QCheckBox, QPlainTextEdit, QRadioButton, QWidget

from dgn_engine.config import DataConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CompareFile
from dgn_engine.protocol.catalogue import DataEntry
from dgn_engine.protocol.file_reading import FileReading, FittingReading
from dgn_engine.protocol.files import (
    BeginWithBiases,
    CheckNetwork,
    CheckProgress,
    CloseFile,
    FileListed,
    FileUseCheck,
    InspectFile,
    NetworkChecked,
    PickTensors,
    Purpose,
    ReadingRefused,
    ReadingsFound,
    SayReading,
    TakeGates,
    TakeWeights,
)
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.scene.file_use_text import USES, check_file_use, first_use
from dgn_engine.scene.run_text import use_form_names
from dgn_engine.scene.theme import Theme
from dgn_engine.text.loading_acts import describe_loading
from dgn_viewer.inspector.pages.match_table import MatchTable, shape_text
from dgn_viewer.inspector.pages.network_data import NetworkData
from dgn_viewer.inspector.pages.reading_section import ReadingSection
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.message_line import MessageLine, set_role

_MOST_LINES = 2000
_MOST_CALLS = 6  # listed in the warning; the list of tensors has all of them


class FilePage(QWidget):
    """A listed file; nothing changes before its button is pressed.

    The engine checks again whether the network accepts the chosen data whenever these change.
    `report_wanted(path, data, reading)`: write a report of its network on these data.

    Args:
        send: Sends a command to the engine.
        listed: The contents of the file.
        theme: The colours.
        data: The data sets on which its network could be opened.
        now: The data of the current run.
    """

    report_wanted = Signal(str, object, object)

    def __init__(
        self,
        send: Callable[[Command], None],
        listed: FileListed,
        theme: Theme,
        data: Sequence[DataEntry] = (),
        now: DataConfig | None = None,
    ) -> None:
        super().__init__()
        self.title = "Checkpoint"
        self.listed = listed
        self._send = send
        self.uses = {use.purpose: QRadioButton(f"{use.title} {use.where}") for use in USES}
        self.warning = plain_label(_loading_warning(listed), "refused", selectable=True)
        self.verdict, self.hint = MessageLine(), plain_label(role="small")
        self.table = MatchTable(listed.matches, theme, listed.tensors)
        self.table.picked.connect(self._pick_tensors)
        self.pick = QCheckBox("Pick tensors manually")
        self.pick.setToolTip("For each layer, choose a tensor with its shape")
        self.pick.toggled.connect(self._update_widgets)
        self.restart_value = QCheckBox("Reinitialise the value network")
        self.restart_value.setChecked(True)
        self.restart_value.setToolTip(
            "Draw new initial weights, so that it learns with these gates from the start"
        )
        self.data = NetworkData(data, now or DataConfig(), theme)
        self.data.changed.connect(self._check_network)
        self.reading = ReadingSection()
        self.reading.said.connect(self._send_reading)
        # Keyed by the data they were tried on; None stands for the data of the run.
        self._readings: dict[DataConfig | None, tuple[FittingReading, ...]] = {}
        self._first = self._asked = self._filled_data()  # the data that the engine checks
        self._answer: FileUseCheck | None = listed.network  # the result, None while pending
        self.go = push_button("", self._send_use, "primary")
        self.with_biases = push_button(
            "Start a run with biases and copy them",
            self._send_use_with_biases,
            about="Ends the current run and starts the same network with biases at step 0",
        )
        self.report = push_button(
            "Write report",
            self._ask_report,
            about="One page about this network as HTML and PDF: accuracy, gates, kernels, what "
            "they mean and how usual they are",
        )
        self.close_file = push_button("Close", self.prepare_to_close)
        self._lay_out()
        for use in USES:
            self.uses[use.purpose].setToolTip(plain_tip(use.about))
            self.uses[use.purpose].toggled.connect(self._on_purpose_toggled)
        self.choose_purpose(first_use(listed))

    @property
    def purpose(self) -> Purpose:
        return next(use.purpose for use in USES if self.uses[use.purpose].isChecked())

    def choose_purpose(self, purpose: Purpose) -> None:
        """Select a use, like pressing its button."""
        self.uses[purpose].setChecked(True)

    def show_listing(self, listed: FileListed) -> None:
        """Show the same file after tensors were picked or questions answered."""
        if listed.questions:  # otherwise the readings found before are still the alternatives
            self._readings.clear()
        self.listed = listed
        same = self._filled_data() == self._first
        self._asked, self._answer = (self._first, listed.network) if same else (None, None)
        self._refresh_check()  # the previous verdict was about other tensors

    def on_event(self, event: Event) -> None:
        """Handle the engine's answers about the chosen data; ignore those about others."""
        match event:
            case NetworkChecked(ticket=self.listed.ticket, data=self._asked, network=answer):
                self._answer = answer
                self._update_widgets()
            case ReadingsFound(ticket=self.listed.ticket, said=self.listed.reading):
                self._readings[event.data] = event.readings
                self._update_widgets()
            case ReadingRefused(ticket=self.listed.ticket):
                self._update_widgets()
                self.reading.show_refusal(event.about, event.reason)
            case CheckProgress(ticket=self.listed.ticket) if self._answer is None:
                self._show_verdict(f"{event.sentence.capitalize()} …", True)

    def prepare_to_close(self) -> None:
        """Ask the engine to release the file; the page closes on its answer."""
        self._send(CloseFile(self.listed.ticket))

    def set_theme(self, theme: Theme) -> None:
        self.table.set_theme(theme)
        self.data.set_theme(theme)

    def _filled_data(self) -> DataConfig | None:
        """Return the chosen data; None while they are incomplete."""
        try:
            return self.data.read_data_config()
        except UserError:
            return None

    def _check_network(self) -> None:
        """Ask the engine whether the network accepts the chosen data, unless that is known."""
        data = self._filled_data()
        if data is None or data != self._asked:
            self._asked, self._answer = data, None
            if data is not None:
                self._send(CheckNetwork(self.listed.ticket, data))
        self._update_widgets()

    def _current_check(self) -> FileUseCheck:
        """Return whether the file can be used as chosen, with a verdict."""
        if self.purpose != "network":
            return check_file_use(self.listed, self.purpose)
        if self._answer is not None:
            return self._answer
        try:
            self.data.read_data_config()
        except UserError as refusal:
            return FileUseCheck(False, refusal.sentence)
        return FileUseCheck(False, "Checking whether the network accepts these data…")

    def _on_purpose_toggled(self, on: bool) -> None:
        if on:
            offer = self._current_check()
            self.table.show_matches(offer.matches, False)
            pick_by_hand = (not offer.fits and self.table.has_alternatives()) or self.listed.picked
            self.pick.setChecked(pick_by_hand)
            self._refresh_check()

    def _refresh_check(self) -> None:
        if self.purpose == "network" and self._answer is None:
            self._check_network()
        else:
            self._update_widgets()

    def _update_widgets(self) -> None:
        purpose, copies = self.purpose, self.purpose in ("gates", "weights")
        offer = self._current_check()
        use = next(use for use in USES if use.purpose == purpose)
        is_waiting = purpose == "network" and self._answer is None and self._asked is not None
        # Open questions are not a refusal yet.
        has_questions = bool(self.listed.questions) and not copies
        self._show_verdict(offer.verdict, offer.fits or is_waiting or has_questions)
        own_data = purpose != "network" or self._asked == self._first
        self.reading.show_readings(self._readings.get(None if own_data else self._asked))
        self.reading.show_listing(self.listed, copies)
        self.table.setVisible(copies and bool(offer.matches))
        self.table.show_matches(offer.matches, self.pick.isChecked())
        self.pick.setVisible(copies and bool(offer.matches))
        self.pick.setEnabled(self.table.has_alternatives())
        self.restart_value.setVisible(purpose == "gates")
        self.restart_value.setEnabled(offer.fits)
        self.data.setVisible(purpose == "network")
        self.with_biases.setVisible(copies and offer.with_biases)
        needs_biases = offer.with_biases and not offer.fits
        set_role(self.with_biases, "primary" if needs_biases else "")
        self.go.setVisible(not needs_biases)
        self.go.setText(use.button)
        self.go.setEnabled(offer.fits)
        # Tensors that were picked manually cannot be picked again by a command.
        self.report.setVisible(purpose == "network" and not self.listed.picked)
        self.report.setEnabled(offer.fits and self._asked is not None)
        about = f"Nothing has changed yet. {use.about}" if offer.fits else ""
        self.hint.setText(f"{about}\n\n{offer.remarks}".strip())
        self.hint.setVisible(bool(self.hint.text()))

    def _show_verdict(self, verdict: str, fits: bool) -> None:
        self.verdict.show_message(use_form_names(verdict), "" if fits else "refused")

    def _pick_tensors(self, names: tuple[str, ...]) -> None:
        missing = next((index for index, name in enumerate(names[:-1]) if not name), None)
        twice = next((name for name in names if name and names.count(name) > 1), "")
        if missing is not None:
            layer = check_file_use(self.listed, self.purpose).matches[missing].layer
            self._show_verdict(f"Pick a tensor for {layer}.", False)
        elif twice:
            self._show_verdict(f"{twice} is picked for two layers.", False)
        else:
            self._send(PickTensors(self.listed.ticket, names))
        self.go.setEnabled(False)  # until the engine has matched them

    def _send_reading(self, reading: FileReading) -> None:
        self._send(SayReading(self.listed.ticket, reading))
        self.go.setEnabled(False)  # until the engine has read it that way

    def _send_use(self) -> None:
        ticket = self.listed.ticket
        match self.purpose:
            case "gates":
                self._send(TakeGates(ticket, restart_value=self.restart_value.isChecked()))
            case "weights":
                self._send(TakeWeights(ticket))
            case "compare":
                self._send(CompareFile(ticket))
            case _:
                self._send(InspectFile(ticket, self._asked))

    def _ask_report(self) -> None:
        self.report_wanted.emit(self.listed.path, self._asked, self.listed.reading)

    def _send_use_with_biases(self) -> None:
        ticket, restart = self.listed.ticket, self.restart_value.isChecked()
        if self.purpose == "gates":
            self._send(BeginWithBiases(ticket, "gates", restart_value=restart))
        else:
            self._send(BeginWithBiases(ticket, "weights"))

    def _lay_out(self) -> None:
        listed = self.listed
        name = ElidedLabel(listed.file_name, mode=Qt.TextElideMode.ElideMiddle, role="heading")
        path = ElidedLabel(listed.path, mode=Qt.TextElideMode.ElideMiddle, role="small")
        count = plain_label(f"Tensors in the file: {len(listed.tensors):,}", "small")
        buttons = make_row(self.go, self.with_biases, self.report, self.close_file, 1, spacing=8)
        use = (self.data, self.reading, self.verdict, self.table, self.pick, self.restart_value)
        self.tensors = _tensor_list(listed)
        layout = make_column(
            name,
            path,
            self.warning,
            *self.uses.values(),
            *use,
            buttons,
            self.hint,
            count,
            (self.tensors, 1),
            into=self,
            margins=(16, 4, 16, 16),
            spacing=8,
        )
        self.warning.setVisible(bool(self.warning.text()))
        layout.insertSpacing(layout.indexOf(self.data), 4)
        layout.insertSpacing(layout.indexOf(count), 8)


def _loading_warning(listed: FileListed) -> str:
    """Return a warning with what Python would execute to load the file, or ''."""
    lines = describe_loading(listed.would_call, listed.would_look_up, listed.would_import)
    if not lines:
        return ""
    if more := len(lines) - _MOST_CALLS:
        lines[_MOST_CALLS:] = [f"… and {more:,} more, at the end of the list"] if more > 0 else []
    listed_lines = "\n".join(lines)
    return f"Warning: to load this file, Python would\n{listed_lines}\nNone of this was run."


def _tensor_list(listed: FileListed) -> QPlainTextEdit:
    lines = [f"{t.name}  {shape_text(t.shape)}  {t.dtype}" for t in listed.tensors[:_MOST_LINES]]
    if len(listed.tensors) > _MOST_LINES:
        lines.append(f"… and {len(listed.tensors) - _MOST_LINES:,} more")
    lines.extend(f"skipped: {name}" for name in listed.ignored)
    acts = describe_loading(listed.would_call, listed.would_look_up, listed.would_import)
    lines.extend(f"would {act}" for act in acts)
    box = QPlainTextEdit("\n".join(lines))
    box.setReadOnly(True)
    box.setAccessibleName("Tensors in the file")
    box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    box.setTabChangesFocus(True)
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    box.setStyleSheet(f"QPlainTextEdit {{ font-family: '{family}'; font-size: 12px; }}")
    box.setMinimumHeight(96)
    return box
