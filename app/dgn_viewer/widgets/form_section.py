"""A titled group of labelled fields, and the group that a network's own options make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QFormLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from dgn_engine.config import OptionValue
from dgn_engine.protocol.catalogue import OptionField
from dgn_viewer.widgets.form_fields import PickBox
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_field import NumberField

LABELS = 116  # width of the column of labels


class Section(QWidget):
    """A heading and rows of label and field."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self._rows = QFormLayout()
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setHorizontalSpacing(8)
        self._rows.setVerticalSpacing(6)
        self._rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._rows.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        column = self._column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        if title:
            heading = QLabel(title)
            heading.setProperty("role", "heading")
            column.addWidget(heading)
        column.addLayout(self._rows)

    def add(self, text: str, field: QWidget, about: str = "") -> None:
        """One row; a check box says its own name and has no label."""
        label = QLabel(text)
        label.setProperty("role", "small")
        label.setFixedWidth(LABELS)
        label.setWordWrap(True)
        label.setBuddy(field)
        field.setMinimumWidth(48)
        if about:
            field.setToolTip(about)
            label.setToolTip(about)
        if text and not field.accessibleName():
            field.setAccessibleName(text)
        self._rows.addRow(label, field)

    def append(self, group: Section) -> None:
        """More rows below these, kept apart so that they can be exchanged."""
        self._column.addWidget(group)

    def show_row(self, field: QWidget, wanted: bool) -> None:
        """Show or hide a row by its field."""
        self._rows.setRowVisible(field, wanted)

    def clear(self) -> None:
        """Take every row out."""
        while self._rows.rowCount():
            self._rows.removeRow(0)


class OptionsForm(Section):
    """What a network asks for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, QWidget] = {}

    def offer(self, options: Sequence[OptionField]) -> None:
        """Ask these questions, with their defaults filled in."""
        self.clear()
        self.fields = {}
        for option in options:
            field = _field_for(option)
            self.fields[option.name] = field
            self.add("" if isinstance(field, QCheckBox) else option.label, field)
        self.setVisible(bool(options))
        self.show_values({option.name: option.default for option in options})

    def show_values(self, values: Mapping[str, OptionValue]) -> None:
        """Fill these in; names that are not asked for are left."""
        for name, value in values.items():
            match self.fields.get(name):
                case QCheckBox() as box:
                    box.setChecked(bool(value))
                case PickBox() as box:
                    box.pick(str(value))
                case IntegerField() as number:
                    number.setValue(int(value))
                case NumberField() as number:
                    number.show_value(float(value))
                case QLineEdit() as line:
                    line.setText(str(value))
                case _:
                    pass

    def values(self) -> tuple[tuple[str, OptionValue], ...]:
        """What is filled in, by name."""
        return tuple((name, _value_of(field)) for name, field in self.fields.items())


def _field_for(option: OptionField) -> QWidget:
    default, least, most = option.default, option.least, option.most
    if option.choices:
        return PickBox([(choice, choice) for choice in option.choices])
    if isinstance(default, bool):
        return QCheckBox(option.label)
    if isinstance(default, int):
        low = 0 if least is None else int(least)
        return IntegerField(low, 10**9 if most is None else int(most))
    if isinstance(default, float):
        return NumberField(1e-9 if least is None else least, 1e9 if most is None else most)
    line = QLineEdit()
    line.setAcceptDrops(False)
    return line


def _value_of(field: QWidget) -> OptionValue:
    match field:
        case QCheckBox():
            return field.isChecked()
        case PickBox() | IntegerField() | NumberField():
            return field.value()
        case QLineEdit():
            return field.text()
    raise TypeError(f"a form has no field of type {type(field).__name__}")
