"""The history of a run: a list of its changes, to go to their steps or undo them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListWidget, QListWidgetItem

from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import ChangesListed, ListedChange, UndoMany, UndoSetting
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button

_NONE = "No changes yet. Changes of regime, gate order, weights and settings will appear here."
_PLACE = Qt.ItemDataRole.UserRole
_STEP = Qt.ItemDataRole.UserRole + 1


class ChangesPage(QFrame):
    """The changes of a run, the newest first.

    A click shows a change's step in the charts. One button undoes it and everything after it, or
    redoes everything up to it; another one reverts only the last changed setting.
    """

    title = "History"

    def __init__(self, send: Callable[[Command], None], go_to_step: Callable[[int], None]) -> None:
        super().__init__()
        self._send, self._go_to_step = send, go_to_step
        self.list = QListWidget()
        self.list.setAccessibleName("History, newest first")
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemClicked.connect(lambda item: self._go_to_step(item.data(_STEP)))
        self.list.currentItemChanged.connect(lambda *_: self._update_buttons())
        self.back = push_button("Undo to here", self._undo_to_selected, "primary")
        self.only = push_button(
            "", lambda: self._send(UndoSetting()), about="Keep the current weights."
        )
        self.nothing = plain_label(_NONE, "muted")
        self.about = plain_label(
            "Undo restores weights, optimiser, settings and data order. The record stays "
            "complete: the step counter keeps running, and charts mark what was undone.",
            "muted",
        )
        self._listed: ChangesListed | None = None
        self._diverged = False
        make_column(
            self.nothing,
            (self.list, 1),
            make_row(self.back, 1),
            make_row(self.only, 1),
            self.about,
            into=self,
            margins=(16, 8, 16, 12),
            spacing=8,
        )
        self._fill_list()

    def on_event(self, event: Event, state: RunState) -> None:
        diverged = state.diverged is not None
        if (state.changes, diverged) != (self._listed, self._diverged):
            self._listed, self._diverged = state.changes, diverged
            self._fill_list()
        self.setEnabled(state.has_run)

    def set_theme(self, theme: Theme) -> None:
        """Refill the list in the theme's number format; its colours are the window's."""
        self._fill_list()

    def _fill_list(self) -> None:
        listed = self._listed or ChangesListed()
        self.list.clear()
        undone = [(-offset, change) for offset, change in enumerate(listed.undone, start=1)]
        done = [(offset, change) for offset, change in enumerate(reversed(listed.done), start=1)]
        for offset, change in (*reversed(undone), *done):
            self._add_change(offset, change)
        has_changes = bool(self.list.count())
        self.list.setVisible(has_changes)
        self.nothing.setVisible(not has_changes)
        self.only.setVisible(bool(listed.last_setting) and not self._diverged)
        self.only.setText(f"Revert {listed.last_setting} only")
        self._update_buttons()

    def _add_change(self, place: int, one: ListedChange) -> None:
        text = with_chosen_numbers(f"step {one.step:,}  {one.what}")
        item = QListWidgetItem(text if place > 0 else f"{text} (undone)")
        item.setData(_PLACE, place)
        item.setData(_STEP, one.step)
        item.setToolTip(wrapping_tip(item.text()))
        if place < 0:
            font = item.font()
            font.setItalic(True)
            item.setFont(font)
        self.list.addItem(item)

    def _update_buttons(self) -> None:
        item = self.list.currentItem()
        self.back.setEnabled(item is not None)
        undone = item is not None and item.data(_PLACE) < 0
        self.back.setText("Redo to here" if undone else "Undo to here")

    def _undo_to_selected(self) -> None:
        if (item := self.list.currentItem()) is not None:
            self._send(UndoMany(item.data(_PLACE)))
