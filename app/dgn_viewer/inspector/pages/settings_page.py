"""The settings page: run at startup, theme, viewer overhead, storage, shortcuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QKeySequenceEdit,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from dgn_engine.scene.number_style import NUMBERS
from dgn_engine.scene.theme import Theme
from dgn_engine.storage.runs import folder_layout
from dgn_viewer.inspector.pages.storage_section import StorageSection
from dgn_viewer.settings import BUDGETS, DEFAULT_BUDGET, Settings
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.form_fields import PickBox
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    push_button,
)
from dgn_viewer.widgets.message_line import MessageLine

_STARTS = (
    ("card", "start card"),
    ("last", "continue last run"),
    ("digits", "digits, now"),
)
_THEMES = (("system", "system default"), ("light", "light"), ("dark", "dark"))
_ID = int(Qt.ItemDataRole.UserRole)
_ROWS = 12
_ROW = 26


class KeyTable(Protocol):
    """The keyboard shortcuts of all actions, and how to change them."""

    def key_rows(self) -> tuple[tuple[str, str, str], ...]:
        """Return (id, text, keys) of every action; keys in the platform's notation, '' for none."""

    def assign_keys(self, name: str, keys: str) -> str:
        """Assign keys to an action ('' for none); return why that was refused, or ''."""

    def reset_keys(self, name: str) -> str:
        """Restore the default keys of an action, or of all ('*'); return a refusal, or ''."""


class SettingsPage(QWidget):
    """The settings, which are applied and saved immediately."""

    title = "Settings"

    def __init__(
        self,
        settings: Settings,
        keys: KeyTable,
        choose_theme: Callable[[str], None],
        set_budget: Callable[[int], None],
        set_numbers: Callable[[str], None],
        theme_choice: str,
        limits_changed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._keys = keys
        self._set_budget = set_budget
        self.start = PickBox(_STARTS)
        self.start.pick_value(settings.start)
        self.start.currentIndexChanged.connect(self._keep_start)
        self.theme = PickBox(_THEMES)
        self.theme.pick_value(theme_choice)
        self.theme.currentIndexChanged.connect(lambda _: choose_theme(self.theme.value()))
        self.numbers = PickBox([(style, style) for style in NUMBERS])
        self.numbers.pick_value(settings.numbers)
        self.numbers.currentIndexChanged.connect(lambda _: set_numbers(self.numbers.value()))
        self.budget = IntegerField(*BUDGETS, unit="% of the step rate")
        self.budget.setValue(settings.budget or DEFAULT_BUDGET)
        self.budget.setKeyboardTracking(False)
        self.budget.valueChanged.connect(lambda share: self._keep_budget(round(share)))
        self.limits = StorageSection(folder_layout.runs_root(), limits_changed)
        self.table = _make_key_table()
        self.table.itemSelectionChanged.connect(self._show_chosen)
        self.keys = QKeySequenceEdit()
        self.keys.setMaximumSequenceLength(1)
        self.keys.setAccessibleName("New shortcut for the selected action")
        self.keys.setToolTip("Click here, then press the new shortcut")
        self.keys.editingFinished.connect(self._assign_typed_keys)
        self.no_keys = push_button(
            "Clear",
            lambda: self._show_key_refusal(self._keys.assign_keys(self._selected_action(), "")),
        )
        self.own_keys = push_button(
            "Default",
            lambda: self._show_key_refusal(self._keys.reset_keys(self._selected_action())),
        )
        self.own_keys.setToolTip("Restore the default shortcut of this action")
        self.all_own = push_button(
            "All defaults", lambda: self._show_key_refusal(self._keys.reset_keys("*"))
        )
        self.message = MessageLine()
        self.message.end_with(self.table.itemSelectionChanged, self.keys.keySequenceChanged)
        self._lay_out()
        self._fill_key_table()

    def set_theme(self, theme: Theme) -> None:
        """Do nothing: all colours come from the application."""

    def select_action(self, name: str) -> None:
        for row_index in range(self.table.rowCount()):
            item = self.table.item(row_index, 0)
            if item is not None and item.data(_ID) == name:
                self.table.selectRow(row_index)

    def _keep_start(self) -> None:
        self._settings.start = self.start.value()

    def _keep_budget(self, share: int) -> None:
        self._settings.budget = share
        self._set_budget(share)

    def _fill_key_table(self) -> None:
        rows, chosen = self._keys.key_rows(), self._selected_action()
        self.table.setRowCount(len(rows))
        for row_index, (name, text, keys) in enumerate(rows):
            for column_index, cell_text in enumerate((text, keys)):
                item = QTableWidgetItem(cell_text)
                item.setData(_ID, name)
                item.setToolTip(wrapping_tip(cell_text))
                self.table.setItem(row_index, column_index, item)
        self.select_action(chosen)
        self._show_chosen()

    def _selected_action(self) -> str:
        items = self.table.selectedItems()
        return str(items[0].data(_ID)) if items else ""

    def _show_chosen(self) -> None:
        name = self._selected_action()
        for part in (self.keys, self.no_keys, self.own_keys):
            part.setEnabled(bool(name))
        items = self.table.selectedItems()
        text = items[1].text() if len(items) > 1 else ""
        native = QKeySequence.SequenceFormat.NativeText
        self.keys.setKeySequence(QKeySequence.fromString(text, native))

    def _assign_typed_keys(self) -> None:
        name = self._selected_action()
        portable = QKeySequence.SequenceFormat.PortableText
        keys = self.keys.keySequence().toString(portable)
        if name and keys:
            self._show_key_refusal(self._keys.assign_keys(name, keys))

    def _show_key_refusal(self, refusal: str) -> None:
        self._fill_key_table()
        self.message.show_refusal(refusal)

    def _lay_out(self) -> None:
        window = Section("Window")
        window.add_field(
            "at startup", self.start, "Unless a configuration is given on the command line"
        )
        window.add_field("theme", self.theme)
        window.add_field("numbers", self.numbers, "In all text of the window")
        overhead = Section("Viewer overhead")
        about = (
            "How much a run may slow down because you watch it: readings, drawing, recording "
            "and the window together. Higher: fresher charts, slower training"
        )
        overhead.add_field("at most", self.budget, about)
        heading = PlainLabel("Shortcuts", role="heading")
        buttons = make_row((self.keys, 1), self.no_keys, self.own_keys, spacing=8)
        form = QWidget()
        parts = (window, overhead, self.limits, heading, self.table, buttons, self.message)
        footer = make_row(self.all_own, 1)
        make_column(*parts, footer, 1, into=form, margins=(16, 4, 16, 12), spacing=12)
        make_column((make_scroll_area(form), 1), into=self, spacing=0)


def _make_key_table() -> QTableWidget:
    table = QTableWidget(0, 2)
    table.setAccessibleName("Actions and shortcuts")
    table.setHorizontalHeaderLabels(["action", "keys"])
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(_ROW)
    table.setFrameShape(QFrame.Shape.NoFrame)
    table.setShowGrid(False)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setTabKeyNavigation(False)
    table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
    table.setFixedHeight(_ROW * _ROWS)
    return table
