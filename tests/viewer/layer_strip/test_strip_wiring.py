"""Which gates may be exchanged, in what words, and that the colours tell them apart."""

from itertools import pairwise

import pytest

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.layer_strip.gate_chip import chip_fill
from dgn_viewer.layer_strip.painting import gate_colour
from dgn_viewer.style.stylesheet import contrast


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda t: t.name)
def test_gate_colours_stand_out_and_differ_in_lightness(theme: Theme) -> None:
    """Lightness alone tells neighbours apart, so that no kind of colour blindness matters."""
    colours = [gate_colour(theme, i, 6) for i in range(6)]
    assert all(contrast(colour, theme.panel) >= 3.0 for colour in colours)
    assert all(contrast(a, b) > 1.1 for a, b in pairwise(colours))
    assert all(contrast(theme.text, chip_fill(theme, colour)) >= 4.5 for colour in colours)
