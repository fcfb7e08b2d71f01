"""The theme of the window: the choice, its current meaning, and a signal for changes."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.theme import Theme
from dgn_viewer.settings import Settings
from dgn_viewer.style import appearance, stylesheet


class Themed(Protocol):
    """A part with colours of its own."""

    def set_theme(self, theme: Theme) -> None: ...


class WindowTheme(QObject):
    """Theme of the window. `changed(theme)`: redraw with this theme.

    `choice`: 'light', 'dark' or 'system'; `now`: the theme that results from it; `scale`: of type
    and controls.
    """

    changed = Signal(object)

    def __init__(self, settings: Settings, choice: str, parent: QObject) -> None:
        """`choice` overrides the settings, unless it is empty."""
        super().__init__(parent)
        self._settings = settings
        self.choice = choice or settings.theme
        self.scale = 1.0
        self.now = appearance.resolve_theme(self.choice, settings.numbers)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_desktop_theme)

    def select_theme(self, name: str, keep: bool = True) -> None:
        """Choose a theme; `keep`: also save it in the settings."""
        self.choice = name
        if keep:
            self._settings.theme = name
        self.apply_theme()

    def set_scale(self, scale: float) -> None:
        """Show type, lines and controls at this size, for this session."""
        self.scale = scale
        self.apply_theme()

    def apply_theme(self) -> None:
        """Redraw everything according to choice, desktop and settings."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self.now = appearance.resolve_theme(self.choice, self._settings.numbers, self.scale)
        appearance.style_application(application, self.now)
        self.changed.emit(self.now)

    def follow(self, part: Themed) -> None:
        """Show a part, which may be made late, in the current theme and in each later one."""
        part.set_theme(self.now)
        self.changed.connect(part.set_theme)

    def make_icon(self, name: str) -> QIcon:
        return stylesheet.themed_icon(name, self.now)

    def _on_desktop_theme(self) -> None:
        if self.choice == "system":
            self.apply_theme()
