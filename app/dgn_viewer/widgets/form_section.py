"""A titled group of labelled fields, and a group whose fields are settings."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QFormLayout, QVBoxLayout, QWidget

from dgn_engine.config.setting import Conditions, Setting
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.form_fields import (
    ListField,
    WordField,
    change_signal,
    field_for,
    is_changed,
    show_value,
    value_of,
)
from dgn_viewer.widgets.layouts import PlainLabel
from dgn_viewer.widgets.number_entry import NumberEntry

LABELS = 116  # width of the label column, pixels

Holds: TypeAlias = Callable[[Conditions], bool]


class Section(QWidget):
    def __init__(self, title: str = "") -> None:
        super().__init__()
        self._rows = QFormLayout()
        self._refusals: dict[QWidget, PlainLabel] = {}  # messages below fields
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setHorizontalSpacing(8)
        self._rows.setVerticalSpacing(6)
        self._rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._rows.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        column = self._column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        if title:
            heading = PlainLabel(title, role="heading")
            column.addWidget(heading)
        column.addLayout(self._rows)

    def add_field(self, text: str, field: QWidget, about: str = "") -> None:
        """Add a row. A check box has its own text and gets no label.

        The problem of a field is shown in a message below it.
        """
        label = PlainLabel(text, role="small")
        label.setFixedWidth(LABELS)
        label.setWordWrap(True)
        label.setBuddy(field)
        field.setMinimumWidth(48)
        if about:
            field.setToolTip(plain_tip(about))
            label.setToolTip(plain_tip(about))
        if text and not field.accessibleName():
            field.setAccessibleName(text)
        self._rows.addRow(label, field)
        if isinstance(field, NumberEntry | ListField | WordField):
            field.shown_beside = True
            field.refused.connect(partial(self._show_refusal, field))

    def append_section(self, group: Section) -> None:
        self._column.addWidget(group)

    def show_row(self, field: QWidget, wanted: bool) -> None:
        self._rows.setRowVisible(field, wanted)
        if field in self._refusals:
            below = self._refusals[field]
            self._rows.setRowVisible(below, wanted and bool(below.text()))

    def _show_refusal(self, field: QWidget, problem: str) -> None:
        """Show a message below the field, creating it on first use."""
        if field not in self._refusals:
            if not problem:
                return
            below = self._refusals[field] = _Refusal()
            rows = range(self._rows.rowCount())
            at = next(row for row in rows if self._field_in(row) is field)
            self._rows.insertRow(at + 1, "", below)
        self._refusals[field].setText(problem)
        self._rows.setRowVisible(self._refusals[field], bool(problem))

    def _field_in(self, row: int) -> QWidget | None:
        item = self._rows.itemAt(row, QFormLayout.ItemRole.FieldRole)
        return item.widget() if item is not None else None

    def clear_rows(self) -> None:
        self._refusals.clear()
        while self._rows.rowCount():
            self._rows.removeRow(0)


class _Refusal(PlainLabel):
    """Message below a field, as tall as its wrapped text; form layouts ignore heightForWidth."""

    def __init__(self) -> None:
        super().__init__(role="refused")
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        super().setText(text)
        self._fit_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        self.setMinimumHeight(
            max(0, self.heightForWidth(self.width()))
        )  # heightForWidth is -1 without text


class SettingSection(Section):
    """Section with one row per setting.

    `changed`: a field was edited, or became invalid.
    """

    changed = Signal()

    def __init__(self, title: str = "", settings: Iterable[Setting] = ()) -> None:
        super().__init__(title)
        self.settings: dict[str, Setting] = {}
        self.fields: dict[str, QWidget] = {}
        self.add_settings(settings)

    def add_settings(self, settings: Iterable[Setting]) -> None:
        """Add a row for each setting, filled with its default."""
        for setting in settings:
            field = field_for(setting)
            self.add_field(
                "" if isinstance(field, QCheckBox) else setting.label, field, setting.tip
            )
            show_value(field, setting.default)
            change_signal(field).connect(self.changed)
            if isinstance(field, NumberEntry | ListField):
                field.refused.connect(self.changed)
            self.settings[setting.name], self.fields[setting.name] = setting, field

    def replace_settings(self, settings: Sequence[Setting]) -> None:
        self.clear_rows()
        self.settings, self.fields = {}, {}
        self.add_settings(settings)
        self.setVisible(bool(settings))
        self.changed.emit()

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Fill in these values; names without a row are ignored."""
        for name, field in self.fields.items():
            if name in values:
                show_value(field, values[name])

    def values(self, holds: Holds = operator.not_) -> dict[str, Any]:
        """Return the values by name, without settings whose `when` does not hold.

        Raises:
            UserError: A field is invalid.
        """
        wanted = [name for name, setting in self.settings.items() if holds(setting.when)]
        return {name: value_of(self.fields[name]) for name in wanted}

    def show_rows(self, holds: Holds) -> None:
        """Hide rows that do not apply, and the section if none does."""
        wanted = {n: holds(s.when) and holds(s.shown) for n, s in self.settings.items()}
        for name, is_wanted in wanted.items():
            self.show_row(self.fields[name], is_wanted)
        self.setVisible(any(wanted.values()))

    def describe_changes(self) -> list[str]:
        """Describe the settings that differ from their defaults; limits come last."""
        changed = [s for n, s in self.settings.items() if is_changed(self.fields[n], s)]
        changed.sort(key=lambda setting: bool(setting.zero))
        return [setting.changed or setting.label for setting in changed]
