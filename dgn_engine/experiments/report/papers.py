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
RELATED: Mapping[str, Publication] = {  # what followed the five papers, and neighbours
    "DLGN": Publication(
        "Explicitising The Implicit Intrepretability of Deep Neural Networks Via Duality",
        2022,
        "Lakshminarayanan, Singh and Rajkumar",
        "2203.16455",
    ),
    "HALF": Publication(
        "Half-Space Feature Learning in Neural Networks",
        2024,
        "Yadav, Ramaswamy and Lakshminarayanan",
        "2404.04312",
    ),
    "CUTS": Publication(
        "Deep Networks Learn Features From Local Discontinuities in the Label Function",
        2025,
        "Banerjee, Ramaswamy, Yadav and Lakshminarayanan, ICLR",
    ),
    "GALU": Publication(
        "Decoupling Gating from Linearity",
        2019,
        "Fiat, Malach and Shalev-Shwartz",
        "1906.05032",
    ),
    "NTH": Publication(
        "Dynamics of Deep Neural Networks and Neural Tangent Hierarchy",
        2019,
        "Huang and Yau",
        "1909.08156",
    ),
    "SILENT": Publication(
        "Neural Networks as Kernel Learners: The Silent Alignment Effect",
        2021,
        "Atanasov, Bordelon and Pehlevan",
        "2111.00034",
    ),
    "CONVEX": Publication(
        "Fast Convex Optimization for Two-Layer ReLU Networks: Equivalent Model Classes and Cone "
        "Decompositions",
        2022,
        "Mishkin, Sahiner and Pilanci",
        "2202.01331",
    ),
    "NORM": Publication(
        "A path-norm toolkit for modern networks: consequences, promises and challenges",
        2023,
        "Gonon, Brisebarre, Riccietti and Gribonval",
        "2310.01225",
    ),
    "METRIC": Publication(
        "A Rescaling-Invariant Lipschitz Bound Based on Path-Metrics for Modern ReLU Network "
        "Parameterizations",
        2024,
        "Gonon, Brisebarre, Riccietti and Gribonval",
        "2405.15006",
    ),
    "LOCAL": Publication(
        "Training Dynamics of Deep Network Linear Regions",
        2023,
        "Humayun, Balestriero and Baraniuk",
        "2310.12977",
    ),
}
OTHERS = "Other papers"


def paper_title(cited: str) -> str:
    """Return the full title of the first cited paper: for '[NPF], [DGN]' that of [NPF]."""
    match = _FIRST.match(cited)
    paper = {**PAPERS, **RELATED}.get(match[1]) if match is not None else None
    return OTHERS if paper is None else paper.title
