"""Fields of forms, and the mapping from settings to fields. None reacts to a passing wheel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QWidget,
)

from dgn_engine.config.setting import Setting
from dgn_engine.errors import UserError
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.style.stylesheet import plain_tip, themed_icon, wrapping_tip
from dgn_viewer.widgets.grouped_box import BoxChoice, GroupedBox
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import make_row
from dgn_viewer.widgets.number_entry import NumberEntry
from dgn_viewer.widgets.number_field import LADDER, NumberField

_ARROW = 44  # pixels of a combo box outside its text
_WHOLE = re.compile(r"[+-]?[0-9]+")  # int() also accepts '1_0' and digits of other scripts


class PickBox(GroupedBox):
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
        self.set_entries(entries)

    def set_entries(self, entries: Sequence[tuple[str, str]]) -> None:
        """Set values and titles."""
        self.offer_choices([BoxChoice(value, title, title) for value, title in entries])

    def pick_value(self, value: str) -> None:
        index = self.findData(value)
        if index >= 0:
            self.setCurrentIndex(index)

    def value(self) -> str:
        return str(self.currentData() or "")

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the wheel scroll the form instead."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Elide a title that is too long."""
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
    def __init__(self, title: str, hint: str = "", *, folder: bool) -> None:
        super().__init__()
        self._title, self._folder = title, folder
        self.line = QLineEdit()
        self.line.setPlaceholderText(hint)
        self.line.setAccessibleName(title)
        self.line.setAcceptDrops(False)  # let the window handle dropped files
        self.line.textChanged.connect(
            lambda text: self.line.setToolTip(wrapping_tip(text) if text else "")
        )
        self.browse = QToolButton()
        self.browse.setIconSize(QSize(16, 16))
        self.browse.setToolTip(plain_tip(f"{title}…"))
        self.browse.setAccessibleName(f"{title}: browse")
        self.browse.clicked.connect(self._open_browser)
        make_row((self.line, 1), self.browse, into=self, spacing=4)
        self.set_theme(LIGHT)

    def value(self) -> str:
        return self.line.text().strip()

    def show_value(self, path: str) -> None:
        self.line.setText(path)

    def set_theme(self, theme: Theme) -> None:
        self.browse.setIcon(themed_icon("open", theme))

    def _open_browser(self) -> None:
        dialog = QFileDialog(self, self._title, self.value())
        mode = QFileDialog.FileMode
        dialog.setFileMode(mode.Directory if self._folder else mode.ExistingFile)
        dialog.fileSelected.connect(self.show_value)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


class ListField(QLineEdit):
    """Field for integers, one per layer, or empty. `refused`: see `NumberEntry`."""

    refused = Signal(str)

    def __init__(self, name: str, hint: str) -> None:
        super().__init__()
        self._name = name
        self.setPlaceholderText(hint)
        self.setAccessibleName(f"{name}, one integer per gate layer")
        self.setAcceptDrops(False)
        self.shown_beside = False
        self.textChanged.connect(self._show_problem)

    @property
    def problem(self) -> str:
        """Why the input is invalid, as one sentence; '' if it is valid."""
        try:
            self.value()
        except UserError as refusal:
            return str(refusal)
        return ""

    def _show_problem(self) -> None:
        self.setProperty("refused", bool(self.problem))
        self.style().polish(self)  # re-evaluates the style sheet for this property
        self.refused.emit(self.problem)

    def value(self) -> tuple[int, ...]:
        """Return the integers.

        Raises:
            UserError: The input is not a list of integers.
        """
        parts = self.text().replace(",", " ").split()
        if not all(map(_WHOLE.fullmatch, parts)):
            raise UserError(
                f"{self._name} is '{self.text()}'; enter one integer per gate layer, such as 0 3 "
                "0.",
                kind="not-a-number",
                value=self.text(),
            )
        return tuple(map(int, parts))

    def show_value(self, numbers: Sequence[int]) -> None:
        self.setText(" ".join(str(number) for number in numbers))


class WordField(QLineEdit):
    """Text field that is evaluated when editing ends: on Enter, or when it loses the focus.

    `said`: the text has changed. `refused`: see `NumberEntry`; the owner evaluates the text and
    sets the problem.
    """

    said = Signal()
    refused = Signal(str)

    def __init__(self, hint: str) -> None:
        super().__init__()
        self.setPlaceholderText(hint)
        self.setAcceptDrops(False)
        self.shown_beside = False
        self.problem = ""
        self._said = ""
        self.textEdited.connect(lambda _: self.set_problem(""))
        self.editingFinished.connect(self._emit_if_changed)

    def value(self) -> str:
        return self.text().strip()

    def show_value(self, text: str) -> None:
        """Show a text and clear any problem."""
        self._said = text
        self.setText(text)
        self.set_problem("")

    def set_problem(self, problem: str) -> None:
        """Show why the text is invalid, as one sentence; '' if it is valid."""
        if problem != self.problem:
            self.problem = problem
            self.setProperty("refused", bool(problem))
            self.style().polish(self)  # re-evaluates the style sheet for this property
            self.setAccessibleDescription(problem)
            self.refused.emit(problem)

    def _emit_if_changed(self) -> None:
        if self.value() != self._said:
            self._said = self.value()
            self.said.emit()


class PairField(QWidget):
    """Two classes as a ±1 problem, or all classes."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.only = QCheckBox("only")
        self.only.setAccessibleName("Only two classes, as a ±1 problem")
        self.first, self.second = IntegerField(0, 9999), IntegerField(0, 9999)
        for field in (self.first, self.second):
            field.setMinimumWidth(48)
            field.valueChanged.connect(self.changed)
            field.refused.connect(self.changed)
        self.first.setAccessibleName("Class labelled -1")
        self.second.setAccessibleName("Class labelled +1")
        make_row(self.only, (self.first, 1), (self.second, 1), into=self, spacing=8)
        self.only.toggled.connect(self._update_fields)
        self.show_value(None)

    def value(self) -> tuple[int, int] | None:
        """Return the classes labelled -1 and +1; None for all classes."""
        if not self.only.isChecked():
            return None
        return value_of(self.first), value_of(self.second)

    def show_value(self, pair: tuple[int, int] | None) -> None:
        self.only.setChecked(pair is not None)
        first, second = pair or (4, 7)
        self.first.setValue(first)
        self.second.setValue(second)
        self._update_fields()

    def _update_fields(self) -> None:
        for field in (self.first, self.second):
            if field.problem and not self.only.isChecked():  # a disabled field cannot be corrected
                field.setValue(field.value())
            field.setEnabled(self.only.isChecked())
        self.changed.emit()


# Fields for settings


def field_for(setting: Setting) -> QWidget:
    """Return a field for a setting, chosen by the type of its default."""
    if setting.choices or setting.offered:
        return PickBox([(choice, setting.words.get(choice, choice)) for choice in setting.choices])
    match setting.default:
        case bool():
            return QCheckBox(setting.label)
        case int():
            low, high = setting.span or (setting.least or 0, setting.most or 10**9)
            return IntegerField(int(low), int(high), setting.zero)
        case float():
            return number_field(setting)
        case str() if setting.path:
            return PathField(setting.title, setting.hint, folder=setting.path == "folder")
        case str():
            line = QLineEdit()
            line.setPlaceholderText(setting.hint)
            line.setAcceptDrops(False)
            return line
        case tuple():
            return ListField(setting.title, setting.hint)
        case None:
            return PairField()
    raise TypeError(f"a form has no field for {setting.default!r}")


def number_field(setting: Setting) -> NumberField:
    """Return a field for a real-valued setting."""
    least, most = (0.0, 1.0) if setting.share else (setting.least, setting.most)
    low, high = setting.span or (1e-9 if least is None else least, 1e9 if most is None else most)
    rungs = setting.rungs or LADDER
    return NumberField(low, high, rungs=rungs, unit=setting.unit, no_limit=setting.zero)


def value_of(field: QWidget) -> Any:
    """Return the value of a field.

    Raises:
        UserError: The input is invalid.
    """
    match field:
        case QCheckBox():
            return field.isChecked()
        case NumberEntry() if field.problem:
            shown = field.text()[:20]
            message = f"{field.accessibleName()} is '{shown}': {field.problem}"
            raise UserError(message, kind="not-a-number", value=field.text())
        case PickBox() | NumberEntry() | PathField() | ListField() | PairField():
            return field.value()
        case QLineEdit():
            return field.text()
    raise _not_a_field(field)


def show_value(field: QWidget, value: Any) -> None:
    match field:
        case QCheckBox():
            field.setChecked(bool(value))
        case PickBox():
            field.pick_value(str(value))
        case NumberEntry() | PathField() | ListField() | PairField():
            field.show_value(value)
        case QLineEdit():
            field.setText(str(value))
        case _:
            raise _not_a_field(field)


def problem_in(form: QWidget) -> str:
    """Return why a form is invalid, as one sentence; '' if it is valid.

    Reports the first field with a problem, ignoring hidden and disabled ones.
    """
    fields = (f for f in form.findChildren(QWidget) if isinstance(f, NumberEntry | ListField))
    asked = (f for f in fields if f.isVisibleTo(form) and f.isEnabledTo(form))
    return next((field.problem for field in asked if field.problem), "")


def is_changed(field: QWidget, setting: Setting) -> bool:
    """Return whether a field differs from its default, valid or not."""
    if isinstance(field, ListField):
        return bool(field.text().strip())
    if isinstance(field, NumberEntry) and field.problem:
        return True
    return bool(value_of(field) != setting.default)


def change_signal(field: QWidget) -> SignalInstance:
    """Return the signal that a field emits when it is edited."""
    match field:
        case QCheckBox():
            return field.toggled
        case PickBox():
            return field.currentIndexChanged
        case NumberEntry():
            return field.valueChanged
        case PathField():
            return field.line.textChanged
        case PairField():
            return field.changed
        case QLineEdit():
            return field.textChanged
    raise _not_a_field(field)


def _not_a_field(field: QWidget) -> TypeError:
    return TypeError(f"a form has no field of type {type(field).__name__}")
