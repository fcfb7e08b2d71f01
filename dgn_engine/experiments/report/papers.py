"""The papers by their short names, as used in experiments, formulas and documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST = re.compile(r"\[([A-Z]+)\](?: (.*))?")


@dataclass(frozen=True)
class Publication:
    title: str
    year: int
    source: str  # authors and venue
    arxiv: str = ""  # arXiv number, if any

    @property
    def full_citation(self) -> str:
        parts = (self.title, self.source, self.arxiv and f"arXiv:{self.arxiv}", str(self.year))
        return ", ".join(part for part in parts if part)


PAPERS: Mapping[str, Publication] = {
    "NPF": Publication(
        "Neural Path Features and Neural Path Kernel",
        2020,
        "Lakshminarayanan and Singh, NeurIPS",
        "2006.10529",
    ),
    "DGN": Publication("Deep Gated Networks", 2020, "Lakshminarayanan and Singh", "2002.03996"),
    "WS": Publication(
        "Neural Path Features in Deep Learning",
        2020,
        "Lakshminarayanan and Singh, workshop version",
    ),
    "DUAL": Publication(
        "Disentangling deep neural networks with rectified linear units using duality",
        2021,
        "Lakshminarayanan and Singh",
        "2110.03403",
    ),
    "COMP": Publication(
        "Deep Learning Is Composite Kernel Learning",
        2021,
        "Lakshminarayanan and Singh, submitted to ICLR",
    ),
}
OTHERS = "Other papers"


def paper_title(cited: str) -> str:
    """Return the full title of the first cited paper: for '[NPF], [DGN]' that of [NPF]."""
    match = _FIRST.match(cited)
    return PAPERS[match[1]].title if match is not None and match[1] in PAPERS else OTHERS
