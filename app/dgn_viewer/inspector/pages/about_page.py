"""The page 'About this panel': explanation, formulas and sources of a panel, and things to try."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from dgn_engine.protocol.messages import Command
from dgn_engine.scene.panel_spec import PanelSpec, Trial, View
from dgn_engine.scene.theme import Theme
from dgn_engine.scene.typeset import label_html
from dgn_viewer.inspector.formula import FormulaView
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.layouts import make_column, plain_label, push_button

_NOT_NOW = "Not possible in the current view, or already set"


class AboutPage(QWidget):
    """The explanation of a panel.

    Args:
        spec: The panel.
        theme: The colours.
        view: Returns the current view, which determines what can be tried.
        send: Sends a command to the engine.
    """

    def __init__(
        self,
        spec: PanelSpec,
        theme: Theme,
        view: Callable[[], View],
        send: Callable[[Command], None],
    ) -> None:
        super().__init__()
        about = spec.about
        self.title = spec.title
        self.formulas = [FormulaView(tex) for tex in about.formulas]
        self._view, self._send = view, send
        self.trials = [
            (trial, push_button(trial.label, partial(self._run_trial, trial)))
            for trial in about.trials
        ]
        parts: list[QWidget] = [_make_text_label(about.text), *self.formulas]
        if about.symbols:
            parts.append(_make_text_label(about.symbols, "small"))
        if about.source:
            parts.append(_make_text_label(f"Source: {about.source}", "small"))
        if about.computed:
            parts += [
                plain_label("How it is computed", "heading"),
                _make_text_label(about.computed),
            ]
        if self.trials:
            parts.append(plain_label("What to try next", "heading"))
        for trial, button in self.trials:
            parts += [button, _make_text_label(trial.watch, "small")]
        make_column(*parts, 1, into=self, margins=(16, 4, 16, 16), spacing=12)
        self.set_theme(theme)
        self.refresh_trials()

    def refresh_trials(self) -> None:
        view = self._view()
        for trial, button in self.trials:
            possible = bool(trial.commands(view))
            button.setEnabled(possible)
            button.setToolTip(plain_tip("Undo with Ctrl+Z" if possible else _NOT_NOW))

    def set_theme(self, theme: Theme) -> None:
        for formula in self.formulas:
            formula.set_theme(theme)

    def _run_trial(self, trial: Trial, _checked: bool = False) -> None:
        for command in trial.commands(self._view()):
            self._send(command)


def _make_text_label(text: str, role: str = "") -> QLabel:
    label = QLabel(label_html(text))
    label.setProperty("role", role or None)
    label.setTextFormat(Qt.TextFormat.RichText)  # trusted: escaped by html()
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
