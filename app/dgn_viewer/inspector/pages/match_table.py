"""The table that matches the tensors of a file to the layers of the network."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.protocol.files import LayerMatch, TensorInfo
from dgn_engine.scene.run_text import short_names
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.form_fields import PickBox

_COLUMNS = ("layer", "needs", "found", "tensor")
_NONE = "–"


class MatchTable(QTableWidget):
    """A table with a row per layer; text is never interpreted as markup.

    While picking, each row offers all tensors of the layer's shape, and `picked` has the chosen
    tensor of each layer.
    """

    picked = Signal(tuple)

    def __init__(
        self, matches: Sequence[LayerMatch], theme: Theme, tensors: Sequence[TensorInfo] = ()
    ) -> None:
        super().__init__(0, len(_COLUMNS))
        self._theme = theme
        self._tensors = tuple(tensors)
        weights = [tensor.name for tensor in tensors if len(tensor.shape) in (2, 4)]
        self._short = dict(zip(weights, short_names(weights), strict=True))
        self._matches: tuple[LayerMatch, ...] = ()
        self.boxes: list[PickBox] = []
        self.setHorizontalHeaderLabels(_COLUMNS)
        self.setAccessibleName("Tensors matched to layers")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(3, QHeaderView.ResizeMode.Stretch)
        self.show_matches(matches, False)

    def show_matches(self, matches: Sequence[LayerMatch], picking: bool) -> None:
        keep_boxes = len(matches) == len(self.boxes) and picking
        self._matches = tuple(matches)
        if not keep_boxes:
            self._rebuild_rows(picking)
        self._fill_cells()
        self.set_theme(self._theme)

    def has_alternatives(self) -> bool:
        """Return whether each layer except the last has a tensor of its shape."""
        rows = self._matches[:-1]
        return bool(rows) and all(self._fitting_tensors(match) for match in rows)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for row, match in enumerate(self._matches):
            colour = theme.text if match.fits else theme.refused
            for column in range(len(_COLUMNS)):
                item = self.item(row, column)
                assert item is not None  # every cell has been filled
                item.setForeground(QColor(colour))

    def _rebuild_rows(self, picking: bool) -> None:
        self.clearContents()  # its boxes go with the cells
        self.boxes = []
        self.setRowCount(len(self._matches))
        row_height = 32 if picking else 24
        self.setColumnHidden(2, picking)  # redundant: the boxes only offer matching shapes
        self.verticalHeader().setDefaultSectionSize(row_height)
        if picking:
            for row, match in enumerate(self._matches):
                self.setCellWidget(row, 3, self._make_pick_box(match))
        visible_rows = min(len(self._matches), 12)
        self.setFixedHeight(
            self.horizontalHeader().sizeHint().height() + row_height * visible_rows + 4
        )

    def _make_pick_box(self, match: LayerMatch) -> PickBox:
        names = [tensor.name for tensor in self._fitting_tensors(match)]
        entries = [("", _NONE), *((name, self._short[name]) for name in names)]
        box = PickBox(entries, Qt.TextElideMode.ElideLeft)  # names differ at their ends
        for index, name in enumerate(names, start=1):
            box.setItemData(index, wrapping_tip(name), Qt.ItemDataRole.ToolTipRole)
        box.pick_value(match.tensor if match.tensor in names else "")
        box.setAccessibleName(f"Tensor for {match.layer}")
        box.activated.connect(lambda _: self.picked.emit(self.picked_names()))
        self.boxes.append(box)
        return box

    def picked_names(self) -> tuple[str, ...]:
        """Return the tensor picked for each layer; '' for none."""
        return tuple(box.value() for box in self.boxes)

    def _fitting_tensors(self, match: LayerMatch) -> list[TensorInfo]:
        fits = (t for t in self._tensors if t.shape == match.needed and t.name in self._short)
        return list(fits)

    def _fill_cells(self) -> None:
        for row, match in enumerate(self._matches):
            mark = "✓" if match.fits else "✗"
            shape = shape_text(match.found) if match.found is not None else "nothing"
            name = "" if self.boxes else match.tensor or _NONE
            texts = (match.layer, shape_text(match.needed), f"{mark} {shape}", name)
            about = f"{match.tensor or 'No tensor'}. {match.remark}".rstrip(". ")
            for column, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setToolTip(wrapping_tip(about))
                self.setItem(row, column, item)


def shape_text(shape: tuple[int, ...]) -> str:
    """Format a shape as '64×128', or 'scalar'."""
    return "×".join(str(side) for side in shape) if shape else "scalar"
