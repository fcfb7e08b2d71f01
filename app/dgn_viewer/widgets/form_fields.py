"""The small fields that forms are made of; none of them is changed by a passing wheel."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QWidget,
)

from dgn_engine.errors import UserError
from dgn_viewer.style.stylesheet import icon, tip
from dgn_viewer.style.theme import LIGHT, Theme
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.listed_item import GROUP, ListedItem

_ARROW = 44  # pixels of a combo box that are not text


class PickBox(QComboBox):
    """One of several values."""

    def __init__(
        self,
        entries: Sequence[tuple[str, str]] = (),
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__()
        self._elide = elide
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.setItemDelegate(ListedItem(self))
        self.offer(entries)

    def offer(self, entries: Sequence[tuple[str, str]], groups: Sequence[str] = ()) -> None:
        """The values and their titles, and the heading that each stands under."""
        self.clear()
        for place, (value, title) in enumerate(entries):
            self.addItem(title, value)
            self.setItemData(place, tip(title), Qt.ItemDataRole.ToolTipRole)
            self.setItemData(place, groups[place] if groups else "", GROUP)

    def pick(self, value: str) -> None:
        """Choose this value, if it is offered."""
        place = self.findData(value)
        if place >= 0:
            self.setCurrentIndex(place)

    def value(self) -> str:
        """What is chosen; empty where nothing is offered."""
        return str(self.currentData() or "")

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll the form instead."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A title that is too long ends in dots, or begins with them."""
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.fontMetrics().elidedText(
            option.currentText, self._elide, self.width() - _ARROW
        )
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


class PathField(QWidget):
    """A path that can be typed or browsed for."""

    def __init__(self, title: str, hint: str = "", *, folder: bool) -> None:
        super().__init__()
        self._title, self._folder = title, folder
        self.line = QLineEdit()
        self.line.setPlaceholderText(hint)
        self.line.setAccessibleName(title)
        self.line.setAcceptDrops(False)  # a file dropped on the window is a checkpoint
        self.browse = QToolButton()
        self.browse.setIconSize(QSize(16, 16))
        self.browse.setToolTip(f"{title}…")
        self.browse.setAccessibleName(f"{title}: browse")
        self.browse.clicked.connect(self._ask)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.line, 1)
        row.addWidget(self.browse)
        self.set_theme(LIGHT)

    def path(self) -> str:
        """What stands in the line."""
        return self.line.text().strip()

    def show_path(self, path: str) -> None:
        """Put this into the line."""
        self.line.setText(path)

    def set_theme(self, theme: Theme) -> None:
        """Colour the icon."""
        self.browse.setIcon(icon("open", theme))

    def _ask(self) -> None:
        dialog = QFileDialog(self, self._title, self.path())
        mode = QFileDialog.FileMode
        dialog.setFileMode(mode.Directory if self._folder else mode.ExistingFile)
        dialog.fileSelected.connect(self.show_path)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


class ListField(QLineEdit):
    """Whole numbers, one for each layer; empty where there are none."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__()
        self._name = name
        self.setPlaceholderText(hint)
        self.setAccessibleName(f"{name}, a whole number for each gate layer")
        self.setAcceptDrops(False)

    def numbers(self) -> tuple[int, ...]:
        """What is filled in; raises `UserError` where it is no list of whole numbers."""
        try:
            return tuple(int(part) for part in self.text().replace(",", " ").split())
        except ValueError:
            raise UserError(
                f"{self._name} is '{self.text()}'; it must be whole numbers, one for each gate "
                "layer, such as 0 3 0."
            ) from None

    def show_numbers(self, numbers: Sequence[int]) -> None:
        """Show these."""
        self.setText(" ".join(str(number) for number in numbers))


class PairField(QWidget):
    """Two classes as a ±1 problem, or all of them."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.only = QCheckBox("only")
        self.only.setAccessibleName("Two classes only, as a ±1 problem")
        self.first, self.second = IntegerField(0, 9999), IntegerField(0, 9999)
        for field in (self.first, self.second):
            field.setMinimumWidth(48)
        self.first.setAccessibleName("Class that becomes -1")
        self.second.setAccessibleName("Class that becomes +1")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.only)
        row.addWidget(self.first, 1)
        row.addWidget(self.second, 1)
        self.only.toggled.connect(self._show)
        self.show_pair(None)

    def pair(self) -> tuple[int, int] | None:
        """The classes that become -1 and +1; None where all are kept."""
        if not self.only.isChecked():
            return None
        return self.first.value(), self.second.value()

    def show_pair(self, pair: tuple[int, int] | None) -> None:
        """Show this pair."""
        self.only.setChecked(pair is not None)
        first, second = pair or (4, 7)
        self.first.setValue(first)
        self.second.setValue(second)
        self._show()

    def _show(self) -> None:
        for field in (self.first, self.second):
            field.setEnabled(self.only.isChecked())
        self.changed.emit()
