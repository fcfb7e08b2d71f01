"""Which gates may be exchanged, in what words, and that the colours tell them apart."""

from itertools import pairwise

import pytest

from dgn_engine.protocol.training import LayerInfo
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_engine.views.strip_state import exchanged, identity, why_not
from dgn_viewer.layer_strip.gate_chip import chip_fill
from dgn_viewer.layer_strip.painting import gate_colour
from dgn_viewer.style.stylesheet import contrast

SHAPES = ((64, 32, 32), (64, 32, 32), (128, 16, 16), (256,), (64,))
LAYERS = tuple(
    LayerInfo(i, f"layer {i + 1}", "conv" if len(s) == 3 else "dense", s)
    for i, s in enumerate(SHAPES)
)


def test_gates_of_equal_shape_may_be_exchanged() -> None:
    assert why_not(LAYERS, identity(5), 0, 1) == ""
    assert exchanged(identity(5), 0, 1) == (1, 0, 2, 3, 4)


@pytest.mark.parametrize(
    ("origin", "target", "reason"),
    [
        (2, 1, "G3 has 128 channels of 16×16, layer 2 needs 64 of 32×32"),
        (3, 4, "G4 has 256 units, layer 5 needs 64"),
        (3, 0, "G4 has 256 units, layer 1 needs 64 channels of 32×32"),
    ],
)
def test_gates_of_another_shape_are_refused_in_words(origin: int, target: int, reason: str) -> None:
    assert why_not(LAYERS, identity(5), origin, target) == reason


def test_the_reason_names_the_gate_that_is_there_now() -> None:
    assert why_not(LAYERS, (1, 0, 2, 3, 4), 0, 2).startswith("G2 has 64 channels")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda t: t.name)
def test_gate_colours_stand_out_and_differ_in_lightness(theme: Theme) -> None:
    """Lightness alone tells neighbours apart, so that no kind of colour blindness matters."""
    colours = [gate_colour(theme, i, 6) for i in range(6)]
    assert all(contrast(colour, theme.panel) >= 3.0 for colour in colours)
    assert all(contrast(a, b) > 1.1 for a, b in pairwise(colours))
    assert all(contrast(theme.text, chip_fill(theme, colour)) >= 4.5 for colour in colours)
