"""The claims of a result: each with its verdict in colour and in words, and what decided it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from dgn_engine.experiments.report import formatting
from dgn_engine.protocol.experiments import Claim
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import tip
from dgn_viewer.widgets.layouts import PlainLabel, empty

MARKS = {"held": "✓", "not held": "✗"}


class ClaimList(QWidget):
    """Two lines a claim: the statement and its verdict, then the statistic with its interval."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Claims")
        self._claims: tuple[Claim, ...] = ()
        self.verdicts: list[QLabel] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(8, 0, 8, 0)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)

    def show_claims(self, claims: tuple[Claim, ...], theme: Theme, scale: str = "") -> None:
        empty(self._grid)
        self.verdicts, self._claims = [], claims
        for place, claim in enumerate(claims):
            statement = _label(f"{claim.id}: {claim.statement}")
            statement.setWordWrap(True)
            words = formatting.verdict(claim, scale)
            verdict = _label(f"{MARKS.get(claim.verdict, '○')} {words}")
            verdict.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
            verdict.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
            self.verdicts.append(verdict)
            about = _label(evidence(claim))
            about.setWordWrap(True)
            about.setProperty("role", "small")
            about.setContentsMargins(0, 0, 0, 6)
            if claim.remark:
                about.setToolTip(tip(claim.remark))
            self._grid.addWidget(statement, 2 * place, 0)
            self._grid.addWidget(verdict, 2 * place, 1)
            self._grid.addWidget(about, 2 * place + 1, 0, 1, 2)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        colours = {"held": theme.cross, "not held": theme.refused}
        for label, claim in zip(self.verdicts, self._claims, strict=True):
            weight = "600" if claim.verdict in colours else "normal"
            colour = colours.get(claim.verdict, theme.muted)
            label.setStyleSheet(f"color: {colour}; font-weight: {weight};")


def evidence(claim: Claim) -> str:
    """'DL − FR-II; above 0: 5.31 [4.1, 6.5], n = 3'."""
    interval = formatting.interval(claim)
    behind = "" if interval == formatting.NOTHING else f" {interval}"
    return f"{claim.statistic}: {formatting.number(claim.value)}{behind}, n = {claim.n}"


def _label(text: str) -> QLabel:
    label = PlainLabel(text)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
