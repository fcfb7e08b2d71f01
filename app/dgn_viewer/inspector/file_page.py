"""The inspector's page for a checkpoint: what is in it, does it fit, shall its gates be copied."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from dgn_engine.protocol.commands import CloseFile, Command, TakeGates
from dgn_engine.protocol.events import FileListed
from dgn_viewer.controls.elided_label import ElidedLabel
from dgn_viewer.inspector.match_table import MatchTable, shape_text
from dgn_viewer.theme import Theme

_MOST_LINES = 2000


class FilePage(QWidget):
    """One listed file. Nothing has been changed yet; 'Copy gates' asks for it."""

    def __init__(self, send: Callable[[Command], None], listed: FileListed, theme: Theme) -> None:
        super().__init__()
        self.title = "Checkpoint"
        self.listed = listed
        self._send = send
        self.table = MatchTable(listed.matches, theme)
        self.tensors = _tensor_list(listed)
        self.restart_value = QCheckBox("restart value network")
        self.restart_value.setChecked(True)
        self.restart_value.setToolTip(
            "Draw the value network anew, so that it learns with these gates from the start"
        )
        self.copy_gates = QPushButton("Copy gates (FL)")
        self.copy_gates.setProperty("role", "primary")
        self.copy_gates.setEnabled(listed.fits)
        self.copy_gates.clicked.connect(self._take)
        self.close_file = QPushButton("Close")
        self.close_file.clicked.connect(self.leave)
        self.restart_value.setEnabled(listed.fits)
        self._lay_out()

    def leave(self) -> None:
        """Have the engine forget the file; the page goes when it has."""
        self._send(CloseFile(self.listed.ticket))

    def set_theme(self, theme: Theme) -> None:
        """Recolour the table."""
        self.table.set_theme(theme)

    def _take(self) -> None:
        self._send(TakeGates(self.listed.ticket, restart_value=self.restart_value.isChecked()))

    def _lay_out(self) -> None:
        listed = self.listed
        name = ElidedLabel(listed.file_name, mode=Qt.TextElideMode.ElideMiddle)
        name.setProperty("role", "heading")
        path = ElidedLabel(listed.path, mode=Qt.TextElideMode.ElideMiddle)
        path.setProperty("role", "small")
        verdict = QLabel(listed.verdict)
        verdict.setTextFormat(Qt.TextFormat.PlainText)
        verdict.setWordWrap(True)
        verdict.setProperty("role", "" if listed.fits else "refused")
        hint = QLabel("Nothing has been changed yet. The gates become those of this network: FL.")
        hint.setWordWrap(True)
        hint.setProperty("role", "small")
        hint.setVisible(listed.fits)
        count = QLabel(f"Tensors in the file: {len(listed.tensors):,}")
        count.setProperty("role", "small")
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.copy_gates)
        buttons.addWidget(self.close_file)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 4, 16, 16)
        column.setSpacing(8)
        for part in (name, path, verdict, self.table, self.restart_value):
            column.addWidget(part)
        column.addLayout(buttons)
        column.addWidget(hint)
        column.addSpacing(8)
        column.addWidget(count)
        column.addWidget(self.tensors, 1)


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
