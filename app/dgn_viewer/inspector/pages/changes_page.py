"""The inspector's page of a run's changes in words: go to the step of one, or undo back to it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListWidget, QListWidgetItem

from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import ChangesListed, ListedChange, UndoMany, UndoSetting
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import tip
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row

_NONE = (
    "No change yet. A swap of the regime, an order of the gate layers, weights of a file or a "
    "setting stands here once it was made."
)
_PLACE = Qt.ItemDataRole.UserRole
_STEP = Qt.ItemDataRole.UserRole + 1


class ChangesPage(QFrame):
    """The newest change is the uppermost. A click shows its step in the charts; the button undoes
    it and all that came after it, or does those again that were undone. Another one puts only the
    setting back that was changed last."""

    title = "Changes of the run"

    def __init__(self, send: Callable[[Command], None], go_to_step: Callable[[int], None]) -> None:
        super().__init__()
        self._send, self._go_to_step = send, go_to_step
        self.list = QListWidget()
        self.list.setAccessibleName("Changes of the run, the newest first")
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemClicked.connect(lambda item: self._go_to_step(item.data(_STEP)))
        self.list.currentItemChanged.connect(lambda *_: self._show())
        self.back = push_button("Undo back to before it", self._back, "primary")
        self.only = push_button(
            "", lambda: self._send(UndoSetting()), about="The weights stay as they are now."
        )
        self.nothing = plain_label(_NONE, "muted")
        self.about = plain_label(
            "Undo puts back weights, optimiser, settings and order of the data. Nothing is taken "
            "out of the record: the count of steps goes on, and the charts say what was undone.",
            "muted",
        )
        self._listed: ChangesListed | None = None
        self._diverged = False
        column(
            self.nothing,
            (self.list, 1),
            row(self.back, 1),
            row(self.only, 1),
            self.about,
            into=self,
            margins=(16, 8, 16, 12),
            spacing=8,
        )
        self._fill()

    def on_event(self, event: Event, state: RunState) -> None:
        diverged = state.diverged is not None
        if (state.changes, diverged) != (self._listed, self._diverged):
            self._listed, self._diverged = state.changes, diverged
            self._fill()
        self.setEnabled(state.has_run)

    def set_theme(self, theme: Theme) -> None:
        """Write the list in the chosen style of numbers; it has the colours of the window."""
        self._fill()

    def _fill(self) -> None:
        listed = self._listed or ChangesListed()
        self.list.clear()
        undone = [(-place, one) for place, one in enumerate(listed.undone, start=1)]
        done = [(place, one) for place, one in enumerate(reversed(listed.done), start=1)]
        for place, one in (*reversed(undone), *done):
            self._add(place, one)
        found = bool(self.list.count())
        self.list.setVisible(found)
        self.nothing.setVisible(not found)
        self.only.setVisible(bool(listed.setting) and not self._diverged)
        self.only.setText(f"Put only {listed.setting} back")
        self._show()

    def _add(self, place: int, one: ListedChange) -> None:
        words = with_chosen_numbers(f"step {one.step:,}  {one.what}")
        item = QListWidgetItem(words if place > 0 else f"{words} (undone)")
        item.setData(_PLACE, place)
        item.setData(_STEP, one.step)
        item.setToolTip(tip(item.text()))
        if place < 0:
            font = item.font()
            font.setItalic(True)
            item.setFont(font)
        self.list.addItem(item)

    def _show(self) -> None:
        item = self.list.currentItem()
        self.back.setEnabled(item is not None)
        again = item is not None and item.data(_PLACE) < 0
        self.back.setText("Do again up to it" if again else "Undo back to before it")

    def _back(self) -> None:
        if (item := self.list.currentItem()) is not None:
            self._send(UndoMany(item.data(_PLACE)))
