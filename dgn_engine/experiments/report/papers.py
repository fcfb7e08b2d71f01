"""The papers by the names that experiments, formulas and documents give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST = re.compile(r"\[([A-Z]+)\](?: (.*))?")


@dataclass(frozen=True)
class Publication:
    title: str
    year: int
    source: str  # where it appeared
    arxiv: str = ""  # its number there, where it has one

    @property
    def whole(self) -> str:
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
    """The full title of the paper that is cited first: '[NPF], [DGN]' → that of [NPF]."""
    found = _FIRST.match(cited)
    return PAPERS[found[1]].title if found is not None and found[1] in PAPERS else OTHERS


def place_in_paper(cited: str) -> str:
    """What is cited of the first paper: '[NPF] Table 2' → 'Table 2'."""
    found = _FIRST.match(cited)
    return (found[2] or "").partition(", [")[0] if found is not None else cited
