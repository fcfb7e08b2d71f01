"""The papers by the names that experiments, formulas and documents give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST = re.compile(r"\[([A-Z]+)\](?: (.*))?")


@dataclass(frozen=True)
class Publication:
    title: str
    source: str  # where it appeared

    @property
    def whole(self) -> str:
        return f"{self.title}, {self.source}" if self.source else self.title


PAPERS: Mapping[str, Publication] = {
    "NPF": Publication(
        "Neural Path Features and Neural Path Kernel",
        "Lakshminarayanan and Singh, NeurIPS 2020, arXiv:2006.10529",
    ),
    "DGN": Publication("Deep Gated Networks", "Lakshminarayanan and Singh, arXiv:2002.03996"),
    "WS": Publication("Neural Path Features and Neural Path Kernel, workshop version", ""),
    "DUAL": Publication(
        "Duality simplifies deep neural networks with rectified linear units", "arXiv:2110.03403"
    ),
    "COMP": Publication("Deep Learning is Composite Kernel Learning", ""),
}
OTHERS = "Other papers"


def paper_title(cited: str) -> str:
    """The full title of the paper that is cited first: '[NPF] §3, [DGN] §3' → that of [NPF]."""
    found = _FIRST.match(cited)
    return PAPERS[found[1]].title if found is not None and found[1] in PAPERS else OTHERS


def place_in_paper(cited: str) -> str:
    """What is cited of the first paper: '[NPF] Table 2' → 'Table 2'."""
    found = _FIRST.match(cited)
    return (found[2] or "").partition(", [")[0] if found is not None else cited
