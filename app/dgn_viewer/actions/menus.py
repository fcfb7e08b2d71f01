"""The menu bar, made of the registry's menus; filled again when the catalogue brings its rows."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu, QMenuBar

from dgn_viewer.actions.action_rows import ActionRow, Family, Menu
from dgn_viewer.actions.registry import Actions

BAR = ("File", "Edit", "Run", "Gates", "Experiments", "View", "Help")  # from the left


class Menus(QObject):
    """Keeps the menu bar in step with the registry."""

    def __init__(self, bar: QMenuBar, actions: Actions) -> None:
        super().__init__(bar)
        self._actions = actions
        menus = sorted(actions.menus, key=lambda menu: BAR.index(menu.title))
        self._menus = [(bar.addMenu(menu.title), menu) for menu in menus]
        self._submenus: dict[str, QMenu] = {}
        for menu, declared in self._menus:
            menu.setToolTipsVisible(True)
            menu.aboutToShow.connect(partial(self._on_open, declared))
        actions.changed.connect(self.fill)
        self.fill()

    def fill(self) -> None:
        """Empty menus are not shown."""
        for menu, declared in self._menus:
            self._fill_menu(menu, declared)
            menu.menuAction().setVisible(not menu.isEmpty())

    def _on_open(self, declared: Menu) -> None:
        declared.opening()
        for submenu in self._submenus.values():
            submenu.setEnabled(any(action.isVisible() for action in submenu.actions()))

    def _fill_menu(self, menu: QMenu, declared: Menu) -> None:
        menu.clear()
        for entry in declared.entries:
            match entry:
                case ActionRow(id=name):
                    menu.addAction(self._actions[name])
                case Menu():
                    self._fill_menu(self._submenu(menu, entry.title), entry)
                case Family():
                    self._fill_family(menu, entry)
                case None:
                    menu.addSeparator()

    def _fill_family(self, menu: QMenu, family: Family) -> None:
        """Add a family's groups of rows, with lines between them or as menus of their own."""
        family_rows = self._actions.family(family.pattern)
        if family.submenus:
            order = list(dict.fromkeys(row.group for row in family_rows))
            family_rows = tuple(sorted(family_rows, key=lambda row: order.index(row.group)))
        groups = groupby(family_rows, key=lambda row: row.group)
        for index, (group, rows) in enumerate(groups):
            into = menu
            if family.submenus:
                into = self._submenu(menu, group)
                into.clear()
            elif index:
                menu.addSeparator()
            for row in rows:
                into.addAction(self._actions[row.id])

    def _submenu(self, menu: QMenu, title: str) -> QMenu:
        if title not in self._submenus:
            self._submenus[title] = QMenu(title, menu)
            self._submenus[title].setToolTipsVisible(True)
        menu.addMenu(self._submenus[title])
        return self._submenus[title]
