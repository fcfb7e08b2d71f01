"""The row that says that a recorded run is looked at and nothing is trained."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolBar, QToolButton, QWidget

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.shell.toolbar import ActionSource
from dgn_viewer.style.stylesheet import mixed
from dgn_viewer.style.theme import LIGHT, Theme
from dgn_viewer.widgets.elided_label import ElidedLabel


class RecordedBanner(QToolBar):
    """Hidden while a run trains. `actions`: of its buttons."""

    def __init__(self, actions: ActionSource, window: QWidget) -> None:
        super().__init__("Recorded run", window)
        self.setObjectName("bar.recorded")
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.words = ElidedLabel("", least=24)
        self.go_on = _button(actions["run.toggle"])
        self.back = _button(actions["file.go_back"])
        line = QWidget(self)
        line.setObjectName("recorded")
        row = QHBoxLayout(line)
        row.setContentsMargins(12, 4, 8, 4)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.go_on)
        row.addWidget(self.back)
        line.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(line)
        self.set_theme(LIGHT)
        self.show_state(RunState())

    def show_state(self, now: RunState) -> None:
        """Which run, and how it ended."""
        shown = now.recorded
        self.setVisible(shown is not None)
        if shown is not None:
            run = f"{shown.name} · step {shown.step:,}"
            words = f"Recorded run {run} · {shown.status}"
            if shown.file_name:
                words = f"Session {shown.file_name} · run {run}"
            self.words.say(
                f"{words} – not training", "Every panel shows what was recorded; nothing is trained"
            )
            self.back.setVisible(bool(shown.aside))

    def set_theme(self, theme: Theme) -> None:
        """Tinted, so that it is not taken for a run that trains."""
        ground = mixed(theme.window, theme.accent, 0.12)
        self.setStyleSheet(
            f"QToolBar {{ padding: 0; border: none; background: {ground}; }}"
            f"#recorded {{ background: {ground}; }} #recorded QLabel {{ color: {theme.text}; }}"
        )


def _button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    return button
