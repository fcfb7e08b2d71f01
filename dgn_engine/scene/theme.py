"""Design tokens: the colours of the window in light and dark, and of figures on paper."""

from __future__ import annotations

import json
from importlib.resources import files

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.elements import Role

PALE = 0.16  # opacity of a filled area
DIMMED = 0.45  # opacity of data from an earlier network


@dataclass(frozen=True)
class Theme:
    """One set of tokens; every colour in the program comes from here ('#RRGGBB')."""

    name: str
    window: str
    panel: str
    line: str
    text: str
    muted: str
    accent: str
    value: str  # value network, K^V
    feature: str  # feature network, K^F
    cross: str  # K^X
    compared: str  # compared run or network (B)
    overlay_1: str  # recorded runs whose curves are drawn over those of the run
    overlay_2: str
    overlay_3: str
    overlay_4: str
    overlay_5: str
    overlay_6: str
    refused: str
    gate_closed: str
    gate_open: str
    numbers: str = "1,234.5"  # how numbers are written, by example: the user's choice
    scale: float = 1.0  # of type, lines and controls on the screen

    def role_colour(self, role: Role) -> str:
        colour: str = getattr(self, role)
        return colour


def _load_theme(name: str) -> Theme:
    """Load a theme from the resources, which the reports of `dgn reproduce` use too."""
    text = (files("dgn_resources") / "tokens.json").read_text(encoding="utf-8")
    return Theme(name=name, **json.loads(text)[name])


LIGHT = _load_theme("light")
DARK = _load_theme("dark")
