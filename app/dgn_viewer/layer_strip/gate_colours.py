"""One colour per gate layer: a ramp of rising lightness, told apart by colour-blind eyes too."""

from __future__ import annotations

from dgn_viewer.style.stylesheet import mixed
from dgn_viewer.style.theme import Theme

# Parts of matplotlib's 'plasma' that keep 3:1 against the panel.
_STOPS = {
    "light": ("#0D0887", "#5601A4", "#900DA4", "#BF3984", "#DD5E66"),
    "dark": ("#C5407E", "#DE6164", "#F1844B", "#FCAA36", "#F0F921"),
}


def gate_colour(theme: Theme, index: int, count: int) -> str:
    """The colour of gate layer `index` of `count`, the same wherever it is wired to."""
    stops = _STOPS[theme.name]
    place = index / max(count - 1, 1) * (len(stops) - 1)
    lower = min(int(place), len(stops) - 2)
    return mixed(stops[lower], stops[lower + 1], place - lower)
