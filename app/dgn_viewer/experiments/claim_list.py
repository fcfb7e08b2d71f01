"""The claims of a result, each with its verdict and the statistic behind it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from dgn_engine.experiments.report import formatting
from dgn_engine.protocol.experiments import Claim
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.layouts import PlainLabel, clear_layout, make_column

MARKS = {"held": "✓", "not held": "✗"}


class ClaimList(QWidget):
    """List of claims: each statement once, then its verdicts, each above its evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Claims")
        self._claims: tuple[Claim, ...] = ()
        self.verdicts: list[QLabel] = []
        self._lines = make_column(into=self, margins=(8, 0, 8, 0), spacing=2)

    def show_claims(self, claims: tuple[Claim, ...], theme: Theme, scale: str = "") -> None:
        clear_layout(self._lines)
        statements: dict[str, list[Claim]] = {}
        for claim in claims:
            statements.setdefault(f"{claim.id}: {claim.statement}", []).append(claim)
        self._claims = tuple(claim for same in statements.values() for claim in same)
        self.verdicts = []
        for statement, same in statements.items():
            self._lines.addWidget(_wrapped_label(statement))
            for claim in same:
                verdict_text = formatting.format_verdict(claim, scale)
                verdict = _wrapped_label(f"{MARKS.get(claim.verdict, '○')} {verdict_text}")
                self.verdicts.append(verdict)
                evidence_label = _wrapped_label(describe_evidence(claim))
                evidence_label.setProperty("role", "small")
                evidence_label.setContentsMargins(0, 0, 0, 6)
                if claim.remark:
                    evidence_label.setToolTip(wrapping_tip(claim.remark))
                self._lines.addWidget(verdict)
                self._lines.addWidget(evidence_label)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        colours = {"held": theme.cross, "not held": theme.refused}
        for label, claim in zip(self.verdicts, self._claims, strict=True):
            weight = "600" if claim.verdict in colours else "normal"
            colour = colours.get(claim.verdict, theme.muted)
            label.setStyleSheet(f"color: {colour}; font-weight: {weight};")


def describe_evidence(claim: Claim) -> str:
    """Return a text such as 'DL − FR-II; above 0: 5.31 [4.1, 6.5], n = 3'.

    The interval by flipping signs and an outlier follow, if there are any. Without replicates, it
    is the remark that says why.
    """
    if claim.n == 0 and claim.remark:
        return f"{claim.statistic}: {claim.remark}"
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


def _wrapped_label(text: str) -> QLabel:
    label = PlainLabel(text)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
