"""The inspector's page 'what am I seeing': a paragraph, formulas, and where they come from."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from dgn_viewer.inspector.formula import FormulaView
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.scene.typeset import html
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.layouts import column


class AboutPage(QWidget):
    def __init__(self, spec: PanelSpec, theme: Theme) -> None:
        super().__init__()
        self.title = spec.title
        self.formulas = [FormulaView(tex) for tex in spec.about.formulas]
        parts: list[QWidget] = [_words(spec.about.text), *self.formulas]
        if spec.about.source:
            source = _words(spec.about.source)
            source.setProperty("role", "small")
            parts.append(source)
        column(*parts, 1, into=self, margins=(16, 4, 16, 16), spacing=12)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        for formula in self.formulas:
            formula.set_theme(theme)


def _words(text: str) -> QLabel:
    label = QLabel(html(text))
    label.setTextFormat(Qt.TextFormat.RichText)  # our own text, escaped
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
