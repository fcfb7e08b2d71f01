"""A collapsible part of a form."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.style.stylesheet import themed_icon
from dgn_viewer.widgets.layouts import make_column


class Collapsible(QWidget):
    """Heading that shows or hides its content; `note` is added to it while collapsed."""

    def __init__(self, title: str, content: QWidget) -> None:
        super().__init__()
        self._title, self._note, self._theme = title, "", LIGHT
        self.content = content
        self.button = QToolButton()
        self.button.setCheckable(True)
        self.button.setProperty("role", "fold")
        self.button.setIconSize(QSize(12, 12))
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.toggled.connect(self._update_heading)
        layout = make_column(self.button, content, into=self, spacing=8)
        layout.setAlignment(self.button, Qt.AlignmentFlag.AlignLeft)
        self._update_heading()

    def set_open(self, wanted: bool = True) -> None:
        self.button.setChecked(wanted)

    def set_note(self, note: str) -> None:
        """Set the note that the heading shows while the content is hidden."""
        self._note = note
        self._update_heading()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._update_heading()

    def _update_heading(self) -> None:
        opened = self.button.isChecked()
        self.content.setVisible(opened)
        self.button.setIcon(
            themed_icon("chevron-down" if opened else "chevron-right", self._theme, 12)
        )
        text = f"{self._title}: {self._note}" if self._note and not opened else self._title
        self.button.setText(text)
        self.button.setAccessibleName(text)
