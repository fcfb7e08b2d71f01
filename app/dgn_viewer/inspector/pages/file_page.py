"""The inspector's page for a checkpoint: what is in it, what it shall be used for, does it fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
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
from dgn_engine.scene.file_use_text import USES, first_use, offer_of
from dgn_engine.scene.theme import Theme
from dgn_engine.text.loading_acts import acts_of_loading
from dgn_viewer.inspector.pages.match_table import MatchTable, shape_text
from dgn_viewer.inspector.pages.network_data import NetworkData
from dgn_viewer.inspector.pages.reading_section import ReadingSection
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row
from dgn_viewer.widgets.message_line import MessageLine, set_role

_MOST_LINES = 2000
_MOST_CALLS = 6  # named one by one in the warning; the list below has them all


class FilePage(QWidget):
    """One listed file. Nothing has been changed yet; its button asks for what is chosen.

    `data`: the data sets on which it could be shown as a network of its own, `now` that of the
    current run. Whether it takes those that are filled in is asked whenever they change.
    """

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
        self.warning = plain_label(_warning(listed), "refused", selectable=True)
        self.verdict, self.hint = MessageLine(), plain_label(role="small")
        self.table = MatchTable(listed.matches, theme, listed.tensors)
        self.table.picked.connect(self._pick)
        self.pick = QCheckBox("pick the tensors")
        self.pick.setToolTip("Choose for each layer one of the tensors that have its shape")
        self.pick.toggled.connect(self._show)
        self.restart_value = QCheckBox("restart value network")
        self.restart_value.setChecked(True)
        self.restart_value.setToolTip(
            "Draw the value network anew, so that it learns with these gates from the start"
        )
        self.data = NetworkData(data, now or DataConfig(), theme)
        self.data.changed.connect(self._check)
        self.reading = ReadingSection()
        self.reading.said.connect(self._say_reading)
        # By the data that they were tried on; None: those of the run.
        self._readings: dict[DataConfig | None, tuple[FittingReading, ...]] = {}
        self._first = self._asked = self._filled_in()  # the data of which the engine says …
        self._answer: FileUseCheck | None = listed.network  # … this; None: not yet
        self.go = push_button("", self._ask, "primary")
        self.with_biases = push_button(
            "Begin a run with biases and take them",
            self._ask_with_biases,
            about="The current run ends; one of the same network with biases begins at step 0",
        )
        self.close_file = push_button("Close", self.leave)
        self._lay_out()
        for use in USES:
            self.uses[use.purpose].setToolTip(plain_tip(use.about))
            self.uses[use.purpose].toggled.connect(self._chosen)
        self.choose(first_use(listed))

    @property
    def purpose(self) -> Purpose:
        return next(use.purpose for use in USES if self.uses[use.purpose].isChecked())

    def choose(self, purpose: Purpose) -> None:
        """As if its button were pressed."""
        self.uses[purpose].setChecked(True)

    def show_listing(self, listed: FileListed) -> None:
        """The same file, matched anew with the tensors that were picked, or read as was said."""
        if listed.questions:  # else what fits is still what else could be said
            self._readings.clear()
        self.listed = listed
        same = self._filled_in() == self._first
        self._asked, self._answer = (self._first, listed.network) if same else (None, None)
        self._refresh()  # what was said before was of other tensors

    def on_event(self, event: Event) -> None:
        """What the engine says of the data that are filled in now; of others it counts no more."""
        match event:
            case NetworkChecked(ticket=self.listed.ticket, data=self._asked, network=answer):
                self._answer = answer
                self._show()
            case ReadingsFound(ticket=self.listed.ticket, said=self.listed.reading):
                self._readings[event.data] = event.readings
                self._show()
            case ReadingRefused(ticket=self.listed.ticket):
                self._show()
                self.reading.refuse(event.about, event.reason)
            case CheckProgress(ticket=self.listed.ticket) if self._answer is None:
                self._say(f"{event.sentence.capitalize()} …", True)

    def leave(self) -> None:
        """Have the engine forget the file; the page goes when it has."""
        self._send(CloseFile(self.listed.ticket))

    def set_theme(self, theme: Theme) -> None:
        self.table.set_theme(theme)
        self.data.set_theme(theme)

    def _filled_in(self) -> DataConfig | None:
        """None where no folder is named yet."""
        try:
            return self.data.config()
        except UserError:
            return None

    def _check(self) -> None:
        """Ask whether the network takes the data that are filled in, unless that is known."""
        data = self._filled_in()
        if data is None or data != self._asked:
            self._asked, self._answer = data, None
            if data is not None:
                self._send(CheckNetwork(self.listed.ticket, data))
        self._show()

    def _offer(self) -> FileUseCheck:
        """Whether what is chosen can be done now."""
        if self.purpose != "network":
            return offer_of(self.listed, self.purpose)
        if self._answer is not None:
            return self._answer
        try:
            self.data.config()
        except UserError as refusal:
            return FileUseCheck(False, str(refusal))
        return FileUseCheck(False, "Looking whether the network takes these data …")

    def _chosen(self, on: bool) -> None:
        if on:
            offer = self._offer()
            self.table.show_matches(offer.matches, False)
            wanted = (not offer.fits and self.table.alternatives()) or self.listed.picked
            self.pick.setChecked(wanted)
            self._refresh()

    def _refresh(self) -> None:
        if self.purpose == "network" and self._answer is None:
            self._check()
        else:
            self._show()

    def _show(self) -> None:
        purpose, copies = self.purpose, self.purpose in ("gates", "weights")
        offer = self._offer()
        use = next(use for use in USES if use.purpose == purpose)
        waits = purpose == "network" and self._answer is None and self._asked is not None
        asks = bool(self.listed.questions) and not copies  # which is no refusal yet
        self._say(offer.verdict, offer.fits or waits or asks)
        own = purpose != "network" or self._asked == self._first
        self.reading.show_readings(self._readings.get(None if own else self._asked))
        self.reading.show_listing(self.listed, copies)
        self.table.setVisible(copies and bool(offer.matches))
        self.table.show_matches(offer.matches, self.pick.isChecked())
        self.pick.setVisible(copies and bool(offer.matches))
        self.pick.setEnabled(self.table.alternatives())
        self.restart_value.setVisible(purpose == "gates")
        self.restart_value.setEnabled(offer.fits)
        self.data.setVisible(purpose == "network")
        self.with_biases.setVisible(copies and offer.with_biases)
        alone = offer.with_biases and not offer.fits
        set_role(self.with_biases, "primary" if alone else "")
        self.go.setVisible(not alone)
        self.go.setText(use.button)
        self.go.setEnabled(offer.fits)
        about = f"Nothing has been changed yet. {use.about}" if offer.fits else ""
        self.hint.setText(f"{about}\n\n{offer.remarks}".strip())
        self.hint.setVisible(bool(self.hint.text()))

    def _say(self, verdict: str, fits: bool) -> None:
        self.verdict.say(verdict, "" if fits else "refused")

    def _pick(self, names: tuple[str, ...]) -> None:
        missing = next((place for place, name in enumerate(names[:-1]) if not name), None)
        twice = next((name for name in names if name and names.count(name) > 1), "")
        if missing is not None:
            layer = offer_of(self.listed, self.purpose).matches[missing].layer
            self._say(f"Pick a tensor for {layer}.", False)
        elif twice:
            self._say(f"{twice} is picked for two layers.", False)
        else:
            self._send(PickTensors(self.listed.ticket, names))
        self.go.setEnabled(False)  # until the engine has matched them

    def _say_reading(self, reading: FileReading) -> None:
        self._send(SayReading(self.listed.ticket, reading))
        self.go.setEnabled(False)  # until the engine has read it so

    def _ask(self) -> None:
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

    def _ask_with_biases(self) -> None:
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
        buttons = row(self.go, self.with_biases, self.close_file, 1, spacing=8)
        use = (self.data, self.reading, self.verdict, self.table, self.pick, self.restart_value)
        self.tensors = _tensor_list(listed)
        whole = column(
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
        whole.insertSpacing(whole.indexOf(self.data), 4)
        whole.insertSpacing(whole.indexOf(count), 8)


def _warning(listed: FileListed) -> str:
    """What Python would do to load the file, a line each; '' where nothing is known."""
    lines = acts_of_loading(listed.would_call, listed.would_look_up, listed.would_import)
    if not lines:
        return ""
    if more := len(lines) - _MOST_CALLS:
        lines[_MOST_CALLS:] = [f"… and {more:,} more, at the end of the list"] if more > 0 else []
    told = "\n".join(lines)
    return f"Warning: to load this file, Python would\n{told}\nNothing of it was run here."


def _tensor_list(listed: FileListed) -> QPlainTextEdit:
    lines = [f"{t.name}  {shape_text(t.shape)}  {t.dtype}" for t in listed.tensors[:_MOST_LINES]]
    if len(listed.tensors) > _MOST_LINES:
        lines.append(f"… and {len(listed.tensors) - _MOST_LINES:,} more")
    lines.extend(f"not read: {name}" for name in listed.ignored)
    acts = acts_of_loading(listed.would_call, listed.would_look_up, listed.would_import)
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
