"""The menu bar, made of the registered actions; filled again when the engine names its regimes."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu, QMenuBar

from dgn_viewer.actions.action_table import MENUS
from dgn_viewer.actions.registry import Actions, ActionSpec


class Menus(QObject):
    """Keeps the menu bar in step with the registry."""

    def __init__(self, bar: QMenuBar, actions: Actions) -> None:
        super().__init__(bar)
        self._actions = actions
        self._menus = {title: bar.addMenu(title) for title in MENUS}
        self._submenus: dict[str, QMenu] = {}
        for menu in self._menus.values():
            menu.setToolTipsVisible(True)
        actions.changed.connect(self.fill)
        self.fill()

    def fill(self) -> None:
        """Empty menus are not shown."""
        for title, menu in self._menus.items():
            specs = [spec for spec in self._actions.specs if spec.menu == title]
            menu.clear()
            self._fill_one(menu, sorted(specs, key=lambda spec: spec.section))
            menu.menuAction().setVisible(bool(specs))

    def _fill_one(self, menu: QMenu, specs: list[ActionSpec]) -> None:
        before: ActionSpec | None = None
        for spec in specs:
            if before is not None and before.section != spec.section:
                menu.addSeparator()
            before = spec
            self._home(menu, spec).addAction(self._actions[spec.id])

    def _home(self, menu: QMenu, spec: ActionSpec) -> QMenu:
        if not spec.submenu:
            return menu
        known = self._submenus.get(spec.submenu)
        if known is None:
            known = QMenu(spec.submenu, menu)
            known.setToolTipsVisible(True)
            self._submenus[spec.submenu] = known
        if known.menuAction() not in menu.actions():
            known.clear()
            menu.addMenu(known)
        return known
