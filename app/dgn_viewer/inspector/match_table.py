"""The table of a listed file: what each layer needs, and what the file has for it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.protocol.events import LayerMatch
from dgn_viewer.style import tip
from dgn_viewer.theme import Theme

_COLUMNS = ("layer", "needs", "found", "tensor")


class MatchTable(QTableWidget):
    """One row per layer. Every text is shown as it is, never as markup."""

    def __init__(self, matches: Sequence[LayerMatch], theme: Theme) -> None:
        super().__init__(len(matches), len(_COLUMNS))
        self._matches = tuple(matches)
        self.setHorizontalHeaderLabels(_COLUMNS)
        self.setAccessibleName("Match of the file with the layers")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(24)
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(3, QHeaderView.ResizeMode.Stretch)
        self._fill()
        self.set_theme(theme)
        rows = min(len(matches), 12)
        self.setFixedHeight(header.sizeHint().height() + 24 * rows + 4)

    def set_theme(self, theme: Theme) -> None:
        """Colour the rows that do not fit."""
        for row, match in enumerate(self._matches):
            colour = theme.text if match.fits else theme.refused
            for column in range(len(_COLUMNS)):
                item = self.item(row, column)
                assert item is not None  # every cell was filled
                item.setForeground(QColor(colour))

    def _fill(self) -> None:
        for row, match in enumerate(self._matches):
            mark = "✓" if match.fits else "✗"
            found = shape_text(match.found) if match.found is not None else "nothing"
            texts = (match.layer, shape_text(match.needed), f"{mark} {found}", match.tensor or "–")
            about = f"{match.tensor or 'No tensor'}. {match.remark}".rstrip(". ")
            for column, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setToolTip(tip(about))
                self.setItem(row, column, item)


def shape_text(shape: tuple[int, ...]) -> str:
    """'64×128', or 'scalar'."""
    return "×".join(str(side) for side in shape) if shape else "scalar"
