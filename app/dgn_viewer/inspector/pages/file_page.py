"""The inspector's page for a checkpoint: what is in it, what it shall be used for, does it fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QCheckBox,
    QLabel,
    QPlainTextEdit,
    QRadioButton,
    QWidget,
)

from dgn_engine.config import DataConfig
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import FileListed
from dgn_viewer.inspector.pages.match_table import MatchTable, shape_text
from dgn_viewer.scene.file_use_text import USES, first_use, offer_of
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.form_fields import PickBox
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row

_MOST_LINES = 2000
_NORMALISED = [("none", "as they are, in [0, 1]")] + [
    (name, f"normalised as {name}") for name in ("imagenet", "cifar10", "cifar100", "mnist")
]


class FilePage(QWidget):
    """One listed file. Nothing has been changed yet; its button asks for what is chosen.

    `data`: (id, title) of the data sets on which it could be shown as a network of its own, and
    `now` the one of the current run.
    """

    def __init__(
        self,
        send: Callable[[do.Command], None],
        listed: FileListed,
        theme: Theme,
        data: Sequence[tuple[str, str]] = (),
        now: DataConfig | None = None,
    ) -> None:
        super().__init__()
        self.title = "Checkpoint"
        self.listed = listed
        self._send = send
        self._now = now or DataConfig()
        self.uses = {use.purpose: QRadioButton(f"{use.title} {use.where}") for use in USES}
        self.verdict, self.hint = plain_label(), plain_label(role="small")
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
        self.data = PickBox([("", f"current data ({self._now.name})"), *data])
        self.data.setAccessibleName("Shown on")
        self.normalise = PickBox([("", f"as now ({self._now.normalise})"), *_NORMALISED])
        self.normalise.setAccessibleName("Pixels normalised")
        self.normalise.setToolTip("As the pixels were that the network was trained on")
        self.go = push_button("", self._ask, "primary")
        self.close_file = push_button("Close", self.leave)
        self._lay_out()
        for use in USES:
            self.uses[use.purpose].setToolTip(use.about)
            self.uses[use.purpose].toggled.connect(self._chosen)
        self.choose(first_use(listed))

    @property
    def purpose(self) -> do.Purpose:
        return next(use.purpose for use in USES if self.uses[use.purpose].isChecked())

    def choose(self, purpose: do.Purpose) -> None:
        """As if its button were pressed."""
        self.uses[purpose].setChecked(True)

    def show_listing(self, listed: FileListed) -> None:
        """The same file, matched anew with the tensors that were picked."""
        self.listed = listed
        self._show()

    def leave(self) -> None:
        """Have the engine forget the file; the page goes when it has."""
        self._send(do.CloseFile(self.listed.ticket))

    def set_theme(self, theme: Theme) -> None:
        self.table.set_theme(theme)

    def _chosen(self, on: bool) -> None:
        if on:
            offer = offer_of(self.listed, self.purpose)
            self.table.show_matches(offer.matches, False)
            wanted = (not offer.fits and self.table.alternatives()) or self.listed.picked
            self.pick.setChecked(wanted)
            self._show()

    def _show(self) -> None:
        """What is chosen, and what it would do."""
        purpose, copies = self.purpose, self.purpose in ("gates", "weights")
        offer = offer_of(self.listed, purpose)
        use = next(use for use in USES if use.purpose == purpose)
        self._say(offer.verdict, offer.fits)
        self.table.setVisible(copies and bool(offer.matches))
        self.table.show_matches(offer.matches, self.pick.isChecked())
        self.pick.setVisible(copies and bool(offer.matches))
        self.pick.setEnabled(self.table.alternatives())
        self.restart_value.setVisible(purpose == "gates")
        self.restart_value.setEnabled(offer.fits)
        self._data_row.setVisible(purpose == "network")
        self.go.setText(use.button)
        self.go.setEnabled(offer.fits)
        self.hint.setText(f"Nothing has been changed yet. {use.about}")
        self.hint.setVisible(offer.fits)

    def _say(self, verdict: str, fits: bool) -> None:
        self.verdict.setText(verdict)
        self.verdict.setProperty("role", "" if fits else "refused")
        self.verdict.style().polish(self.verdict)  # the role is read when it is polished

    def _pick(self, names: tuple[str, ...]) -> None:
        missing = next((place for place, name in enumerate(names[:-1]) if not name), None)
        twice = next((name for name in names if name and names.count(name) > 1), "")
        if missing is not None:
            layer = offer_of(self.listed, self.purpose).matches[missing].layer
            self._say(f"Pick a tensor for {layer}.", False)
        elif twice:
            self._say(f"{twice} is picked for two layers.", False)
        else:
            self._send(do.PickTensors(self.listed.ticket, names))
        self.go.setEnabled(False)  # until the engine has matched them

    def _ask(self) -> None:
        ticket = self.listed.ticket
        match self.purpose:
            case "gates":
                self._send(do.TakeGates(ticket, restart_value=self.restart_value.isChecked()))
            case "weights":
                self._send(do.TakeWeights(ticket))
            case "compare":
                self._send(do.CompareFile(ticket))
            case _:
                self._send(do.InspectFile(ticket, self._data_config()))

    def _data_config(self) -> DataConfig | None:
        """What it shall be shown on; None: the data of the run as they are."""
        name, how = self.data.value(), self.normalise.value()
        if not name and not how:
            return None
        data = DataConfig(name, self._now.root) if name else self._now
        return replace(data, normalise=how or self._now.normalise)

    def _lay_out(self) -> None:
        listed = self.listed
        name = ElidedLabel(listed.file_name, mode=Qt.TextElideMode.ElideMiddle)
        name.setProperty("role", "heading")
        path = ElidedLabel(listed.path, mode=Qt.TextElideMode.ElideMiddle)
        path.setProperty("role", "small")
        count = plain_label(f"Tensors in the file: {len(listed.tensors):,}", "small")
        self._data_row = QWidget()
        self._data_row.setAutoFillBackground(False)
        column(
            row(QLabel("Shown on"), (self.data, 1)),
            row(QLabel("Pixels"), (self.normalise, 1)),
            into=self._data_row,
            margins=(0, 0, 0, 0),
            spacing=8,
        )
        buttons = row(self.go, self.close_file, 1, spacing=8)
        use = (self.verdict, self.table, self.pick, self.restart_value, self._data_row)
        self.tensors = _tensor_list(listed)
        whole = column(
            name,
            path,
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
        whole.insertSpacing(whole.indexOf(self.verdict), 4)
        whole.insertSpacing(whole.indexOf(count), 8)


def _tensor_list(listed: FileListed) -> QPlainTextEdit:
    lines = [f"{t.name}  {shape_text(t.shape)}  {t.dtype}" for t in listed.tensors[:_MOST_LINES]]
    if len(listed.tensors) > _MOST_LINES:
        lines.append(f"… and {len(listed.tensors) - _MOST_LINES:,} more")
    lines.extend(f"not read: {name}" for name in listed.ignored)
    box = QPlainTextEdit("\n".join(lines))
    box.setReadOnly(True)
    box.setAccessibleName("Tensors in the file")
    box.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    box.setTabChangesFocus(True)
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    box.setStyleSheet(f"QPlainTextEdit {{ font-family: '{family}'; font-size: 12px; }}")
    box.setMinimumHeight(96)
    return box
