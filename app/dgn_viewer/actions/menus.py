"""The menu bar. It is rebuilt when the engine's catalogue adds rows."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu, QMenuBar

from dgn_viewer.actions.action_rows import ActionRow, Family, Menu
from dgn_viewer.actions.registry import Actions
from dgn_viewer.widgets.grouped_box import MORE, fill_grouped_menu

BAR = ("File", "Edit", "Run", "Gates", "Experiments", "View", "Help")  # left to right


class Menus(QObject):
    """Menu bar that follows the registry."""

    def __init__(self, bar: QMenuBar, actions: Actions) -> None:
        super().__init__(bar)
        self._actions = actions
        menus = sorted(actions.menus, key=lambda menu: BAR.index(menu.title))
        self._menus = [(bar.addMenu(menu.title), menu) for menu in menus]
        self._submenus: dict[tuple[str, str], QMenu] = {}  # by titles of menu and submenu
        for menu, declared in self._menus:
            menu.setToolTipsVisible(True)
            menu.aboutToShow.connect(partial(self._on_open, declared))
        actions.changed.connect(self.fill_menus)
        self.fill_menus()

    def fill_menus(self) -> None:
        """Rebuild all menus; hide empty ones."""
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
                    self._fill_menu(self._add_submenu(menu, entry.title), entry)
                case Family():
                    self._fill_family(menu, entry)
                case None:
                    menu.addSeparator()

    def _fill_family(self, menu: QMenu, family: Family) -> None:
        """Add a family's rows; those with a group are in a submenu."""
        family_rows = self._actions.rows_matching(family.pattern) if family.listed else ()
        actions = [(row.group, self._actions[row.id]) for row in family_rows]
        fill_grouped_menu(menu, self._submenu(menu, MORE), actions)

    def _add_submenu(self, menu: QMenu, title: str) -> QMenu:
        submenu = self._submenu(menu, title)
        menu.addMenu(submenu)
        return submenu

    def _submenu(self, menu: QMenu, title: str) -> QMenu:
        """Return the submenu of a menu with this title, new the first time."""
        key = menu.title(), title
        if key not in self._submenus:
            self._submenus[key] = QMenu(title, menu)
            self._submenus[key].setToolTipsVisible(True)
        return self._submenus[key]
