"""A combo box whose list is a menu: some choices in sight, the others in groups under 'More'."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QAction, QCursor
from PySide6.QtWidgets import QComboBox, QMenu, QWidget

from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_viewer.style.stylesheet import wrapping_tip

MORE = "More"
_KEPT = ", kept"  # suffix of a regime id: same regime, but keeps the value network


@dataclass(frozen=True)
class BoxChoice:
    """One entry: its value, the short text of the closed box and the long text of the list."""

    value: str
    short: str
    title: str = ""
    about: str = ""
    group: str = ""  # its heading under 'More'; empty: in sight

    @property
    def listed_title(self) -> str:
        return self.title or self.short


def regime_choices(
    regimes: Sequence[RegimeEntry], *, of_swaps: bool = False
) -> tuple[BoxChoice, ...]:
    """Return the list of regimes that every chooser shows.

    Args:
        regimes: The regimes of the catalogue, in its order.
        of_swaps: Choosing swaps the regime of the run. Copied gates are then offered twice, the
            second time with the value network kept; `parse_swap` reads the values.
    """
    in_sight: list[BoxChoice] = []
    more: list[BoxChoice] = []
    for entry in regimes:
        title = entry.title if entry.title.startswith(entry.id) else f"{entry.id} · {entry.title}"
        redrawn = " Reinitialises the value network." if of_swaps and entry.for_copied_gates else ""
        group, about = entry.group or MORE, f"{entry.about}{redrawn}"
        if entry.in_sight:
            in_sight.append(BoxChoice(entry.id, entry.id, title, about))
        else:
            more.append(BoxChoice(entry.id, entry.id, title, about, group))
        if of_swaps and entry.for_copied_gates:
            title = f"{entry.id}, value network kept"
            about = "Freezes the feature network; the value network keeps its weights."
            more.append(BoxChoice(f"{entry.id}{_KEPT}", entry.id, title, about, group))
    groups = [entry.group or MORE for entry in regimes if not entry.in_sight]
    groups += [choice.group for choice in more]
    return (*in_sight, *sorted(more, key=lambda choice: groups.index(choice.group)))


def parse_swap(value: str) -> tuple[str, bool]:
    """Return the regime of a swap, and whether the value network is kept."""
    return value.removesuffix(_KEPT), value.endswith(_KEPT)


def fill_grouped_menu(menu: QMenu, more: QMenu, actions: Iterable[tuple[str, QAction]]) -> None:
    """Add actions without a group to `menu`, the others to `more` below the name of their group.

    Args:
        menu: The menu.
        more: Its submenu, added last if it is not empty.
        actions: Each action with its group.
    """
    more.clear()
    for group, members in groupby(actions, key=lambda pair: pair[0]):
        if group and group != MORE:
            more.addSeparator()  # a section shows no text under a style sheet
            more.addAction(group).setEnabled(False)
        for _, action in members:
            (more if group else menu).addAction(action)
    if not more.isEmpty():
        menu.addMenu(more)


class GroupedBox(QComboBox):
    """Combo box that opens a menu if any of its choices has a group.

    `menus`: that menu and its submenu 'More'; empty otherwise.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choices: tuple[BoxChoice, ...] = ()
        self._closing = False  # by the mouse press that is being handled
        self.menus: tuple[QMenu, ...] = ()

    def offer_choices(self, choices: Sequence[BoxChoice]) -> None:
        """Replace all choices."""
        self._choices = tuple(choices)
        self.clear()
        for index, choice in enumerate(self._choices):
            self.addItem(choice.listed_title, choice.value)
            if tip := choice.about or choice.title:
                self.setItemData(index, wrapping_tip(tip), Qt.ItemDataRole.ToolTipRole)
        for menu in self.menus:
            menu.deleteLater()
        self.menus = self._make_menus() if any(choice.group for choice in self._choices) else ()

    def showPopup(self) -> None:
        """Open the menu below the box, or the list if no choice is under 'More'."""
        if self._closing:
            return
        if not self.menus:
            super().showPopup()
            return
        for action in (action for menu in self.menus for action in menu.actions()):
            if action.isCheckable():
                action.setChecked(action.data() == self.currentIndex())
        menu = self.menus[0]
        menu.setMinimumWidth(self.width())
        menu.popup(self.mapToGlobal(QPoint(0, self.height())))

    def hidePopup(self) -> None:
        for menu in self.menus[:1]:
            menu.close()
        super().hidePopup()

    def _make_menus(self) -> tuple[QMenu, QMenu]:
        menu = QMenu(self)
        more = QMenu(MORE, menu)
        actions: list[tuple[str, QAction]] = []
        for index, choice in enumerate(self._choices):
            action = QAction(choice.listed_title.replace("&", "&&"), menu)
            action.setData(index)
            action.setCheckable(True)
            action.setToolTip(wrapping_tip(choice.about or choice.listed_title))
            actions.append((choice.group, action))
        fill_grouped_menu(menu, more, actions)
        for part in (menu, more):
            part.setToolTipsVisible(True)
        menu.triggered.connect(self._on_triggered)
        menu.aboutToHide.connect(self._on_menu_hidden)
        return menu, more

    def _on_triggered(self, action: QAction) -> None:
        """Choose an entry as a click on it in a list does."""
        self.setCurrentIndex(action.data())
        self.activated.emit(action.data())

    def _on_menu_hidden(self) -> None:
        """Let a press on the box close its menu: Qt passes the press on to the box afterwards."""
        if self.rect().contains(self.mapFromGlobal(QCursor.pos())):
            self._closing = True
            QTimer.singleShot(0, self, self._end_closing)

    def _end_closing(self) -> None:
        self._closing = False
