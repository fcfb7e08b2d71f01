"""Where all actions are found: the menu bar, the palette and the sheet of shortcuts."""

from __future__ import annotations

from PySide6.QtWidgets import QMenuBar, QWidget

from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.shell.window_theme import WindowTheme


class ActionViews:
    """Each shows the rows of one registry."""

    def __init__(self, actions: Actions, window: QWidget, theme: WindowTheme) -> None:
        self._actions = actions
        theme.changed.connect(actions.set_icons)
        self.palette = Palette(actions, window)
        self.sheet = ShortcutSheet(actions, window)

    def fill_menu_bar(self, bar: QMenuBar) -> None:
        """Fill the menu bar, once all menus are declared."""
        self.menus = Menus(bar, self._actions)
