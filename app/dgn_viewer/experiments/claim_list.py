"""The claims of a result, each with its verdict and the statistic behind it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from dgn_engine.experiments.report import formatting
from dgn_engine.protocol.experiments import Claim
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.layouts import PlainLabel, clear_layout

MARKS = {"held": "✓", "not held": "✗"}


class ClaimList(QWidget):
    """List of claims: the statement with its verdict, then the statistic with its interval."""

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
        clear_layout(self._grid)
        self.verdicts, self._claims = [], claims
        for index, claim in enumerate(claims):
            statement = _selectable_label(f"{claim.id}: {claim.statement}")
            statement.setWordWrap(True)
            verdict_text = formatting.format_verdict(claim, scale)
            verdict = _selectable_label(f"{MARKS.get(claim.verdict, '○')} {verdict_text}")
            verdict.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
            verdict.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
            self.verdicts.append(verdict)
            evidence_label = _selectable_label(describe_evidence(claim))
            evidence_label.setWordWrap(True)
            evidence_label.setProperty("role", "small")
            evidence_label.setContentsMargins(0, 0, 0, 6)
            if claim.remark:
                evidence_label.setToolTip(wrapping_tip(claim.remark))
            self._grid.addWidget(statement, 2 * index, 0)
            self._grid.addWidget(verdict, 2 * index, 1)
            self._grid.addWidget(evidence_label, 2 * index + 1, 0, 1, 2)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        colours = {"held": theme.cross, "not held": theme.refused}
        for label, claim in zip(self.verdicts, self._claims, strict=True):
            weight = "600" if claim.verdict in colours else "normal"
            colour = colours.get(claim.verdict, theme.muted)
            label.setStyleSheet(f"color: {colour}; font-weight: {weight};")


def describe_evidence(claim: Claim) -> str:
    """Return a text such as 'DL − FR-II; above 0: 5.31 [4.1, 6.5], n = 3'.

    The interval by flipping signs and an outlier follow, if there are any.
    """
    cells = dict(zip(formatting.CLAIM_HEADS, formatting.claim_cells(claim), strict=True))
    interval, flipped = cells["95 % interval"], cells["sign-flip interval"]
    text = f"{claim.statistic}: {cells['value']}"
    if interval != formatting.NOTHING:
        text += f" {interval}"
    text += f", n = {claim.n}"
    if flipped != formatting.NOTHING:
        text += f", sign-flip {flipped}"
    outlier = formatting.format_outlier(claim.outlier, claim.of)
    return f"{text}; {outlier}" if outlier else text


def _selectable_label(text: str) -> QLabel:
    label = PlainLabel(text)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
