"""The row that says what is not an ordinary run: a network inspected, or one stood beside."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolBar, QToolButton, QWidget

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.scene.run_text import data_in_words
from dgn_viewer.shell.toolbar import ActionSource
from dgn_viewer.style.stylesheet import mixed
from dgn_viewer.style.theme import LIGHT, Theme
from dgn_viewer.widgets.elided_label import ElidedLabel


class InspectedBanner(QToolBar):
    """Hidden while there is a run alone. `actions`: of its buttons."""

    def __init__(self, actions: ActionSource, window: QWidget) -> None:
        super().__init__("Inspected and compared", window)
        self.setObjectName("bar.standing")
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self._badge_a, self.current = QLabel("A"), ElidedLabel("", least=12)
        self._badge_b, self.beside = QLabel("B"), ElidedLabel("", least=12)
        self.inspected = ElidedLabel("", least=24)
        self.new_run = _button(actions["file.new_run"])
        self.close_comparison = _button(actions["file.close_comparison"])
        self.new_run.setText("New run…")
        line = QWidget(self)
        line.setObjectName("standing")
        row = QHBoxLayout(line)
        row.setContentsMargins(12, 2, 8, 2)
        row.setSpacing(8)
        self._of_comparison: tuple[QWidget, ...] = (
            self._badge_a,
            self.current,
            self._badge_b,
            self.beside,
            self.close_comparison,
        )
        for part in (self.inspected, self.new_run, *self._of_comparison):
            row.addWidget(part)
        line.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(line)
        self.set_theme(LIGHT)
        self.show_state(RunState())

    def show_state(self, now: RunState) -> None:
        """What is inspected, and what is compared with what."""
        inspected, beside, run = now.inspected, now.comparison, now.run
        if run is not None and inspected:
            self.inspected.say(
                f"Inspecting {inspected} on {data_in_words(run.config.data)} – not training",
                "Every panel shows this network as it is in the file; nothing changes it",
            )
        if run is not None and beside is not None:
            ours = f"{inspected}, not training" if inspected else f"current run, {now.regime}"
            self.current.say(ours, "A, the current run")
            words = f"{beside.name} · {beside.about}"
            self.beside.say(words, f"B, what is compared with: {words}")
        alone: tuple[QWidget, ...] = (self.inspected, self.new_run)
        for part in alone:
            part.setVisible(bool(inspected) and beside is None)
        for part in self._of_comparison:
            part.setVisible(beside is not None)
        self.setVisible(bool(inspected) or beside is not None)

    def set_theme(self, theme: Theme) -> None:
        """Tinted, so that it is not taken for an ordinary run."""
        ground = mixed(theme.window, theme.accent, 0.12)
        self.setStyleSheet(
            f"QToolBar {{ padding: 0; border: none; background: {ground}; }}"
            f"#standing {{ background: {ground}; }} #standing QLabel {{ color: {theme.text}; }}"
        )
        for badge, tone in ((self._badge_a, theme.text), (self._badge_b, theme.beside)):
            badge.setStyleSheet(
                f"color: {theme.panel}; background: {tone}; border-radius: 4px; "
                "padding: 1px 6px; font-weight: bold;"
            )


def _button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    return button
