"""The kinds of gates of [DGN] and what is compared with what, as expected."""

KINDS = {
    "GaLU, frozen gates": "FR-II",
    "soft-GaLU, frozen gates": "FR-II-soft",
    "GaLU, learnt gates": "FL",
    "soft-GaLU": "DL",
    "soft-ReLU": "soft-ReLU",
    "ReLU": "ReLU",
}
COMPARED = [
    ("soft-GaLU", "GaLU, frozen gates"),
    ("soft-ReLU", "GaLU, frozen gates"),
    ("ReLU", "GaLU, frozen gates"),
    ("GaLU, learnt gates", "GaLU, frozen gates"),
    ("soft-GaLU", "soft-GaLU, frozen gates"),
]
LEARNS = "'learns' is chosen as half of the way from chance to training both"
