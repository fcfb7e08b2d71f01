"""The menu bar, filled from `MENUS`; filled again when regimes or experiments bring their rows."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QMenuBar

from dgn_viewer.actions.action_table import MENUS, SEPARATOR, Grouped, Submenu
from dgn_viewer.actions.registry import Actions


class Menus(QObject):
    """Keeps the menu bar in step with the registry. `opening(title)`: a menu is about to show."""

    opening = Signal(str)

    def __init__(self, bar: QMenuBar, actions: Actions) -> None:
        super().__init__(bar)
        self._actions = actions
        self._menus = {title: bar.addMenu(title) for title in MENUS}
        self._submenus: dict[str, QMenu] = {}
        for menu in self._menus.values():
            menu.setToolTipsVisible(True)
        for title, menu in self._menus.items():
            menu.aboutToShow.connect(partial(self._on_open, title))
        actions.changed.connect(self.fill)
        self.fill()

    def fill(self) -> None:
        """Empty menus are not shown."""
        for title, menu in self._menus.items():
            self._fill_menu(menu, MENUS[title])
            menu.menuAction().setVisible(not menu.isEmpty())

    def _on_open(self, title: str) -> None:
        self.opening.emit(title)
        for submenu in self._submenus.values():
            submenu.setEnabled(any(action.isVisible() for action in submenu.actions()))

    def _fill_menu(self, menu: QMenu, entries: tuple[str | Submenu | Grouped, ...]) -> None:
        menu.clear()
        for entry in entries:
            if isinstance(entry, Grouped):
                self._fill_groups(menu, entry.family)
            elif isinstance(entry, Submenu):
                self._fill_menu(self._submenu(menu, entry.title), entry.entries)
            elif entry == SEPARATOR:
                menu.addSeparator()
            else:
                self._fill_family(menu, entry)

    def _fill_groups(self, menu: QMenu, entry: str) -> None:
        family = self._actions.family(entry)
        for group in dict.fromkeys(spec.group for spec in family):
            submenu = self._submenu(menu, group)
            submenu.clear()
            for spec in family:
                if spec.group == group:
                    submenu.addAction(self._actions[spec.id])

    def _fill_family(self, menu: QMenu, entry: str) -> None:
        family = self._actions.family(entry)
        for spec in family[:1]:
            menu.addAction(self._actions[spec.id])
        for before, spec in pairwise(family):
            if before.group != spec.group:
                menu.addSeparator()
            menu.addAction(self._actions[spec.id])

    def _submenu(self, menu: QMenu, title: str) -> QMenu:
        if title not in self._submenus:
            self._submenus[title] = QMenu(title, menu)
            self._submenus[title].setToolTipsVisible(True)
        menu.addMenu(self._submenus[title])
        return self._submenus[title]
