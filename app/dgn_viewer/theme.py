"""Design tokens: the colours of the window in light and dark, and of figures on paper."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_viewer.scene import Role


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
    beside: str  # what is compared with (B)
    refused: str
    gate_closed: str
    gate_open: str

    def role(self, role: Role) -> str:
        """The colour of a role."""
        colour: str = getattr(self, role)
        return colour


LIGHT = Theme(
    name="light",
    window="#F6F7F9",
    panel="#FFFFFF",
    line="#DDE1E7",
    text="#1B1F26",
    muted="#5B6472",
    accent="#2F6FEB",
    value="#0072B2",
    feature="#D55E00",
    cross="#009E73",
    beside="#9B3F86",
    refused="#B42318",
    gate_closed="#E9ECF1",
    gate_open="#22304A",
)
DARK = Theme(
    name="dark",
    window="#14171C",
    panel="#1B1F26",
    line="#2C323C",
    text="#E7EAEF",
    muted="#98A2B3",
    accent="#6EA2FF",
    value="#56B4E9",
    feature="#E69F00",
    cross="#2CC39A",
    beside="#E58BC8",
    refused="#FF7A6B",
    gate_closed="#262C36",
    gate_open="#DCE6F7",
)
