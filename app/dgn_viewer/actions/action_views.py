"""The three places that list all actions: menu bar, command palette and shortcut sheet."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtWidgets import QMenuBar, QWidget

from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.shell.window_theme import WindowTheme


class ActionViews:
    """Menu bar, palette and shortcut sheet of one registry."""

    def __init__(self, actions: Actions, window: QWidget, theme: WindowTheme) -> None:
        self._actions, self._window = actions, window
        theme.changed.connect(actions.set_icons)

    @cached_property
    def palette(self) -> Palette:
        """The command palette, made when it is first opened."""
        return Palette(self._actions, self._window)

    @cached_property
    def sheet(self) -> ShortcutSheet:
        return ShortcutSheet(self._actions, self._window)

    def fill_menu_bar(self, bar: QMenuBar) -> None:
        """Build the menu bar; call this once all menus are registered."""
        self.menus = Menus(bar, self._actions)
