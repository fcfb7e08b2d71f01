"""Numbers as the user writes them; names, versions and lists stay as they are."""

from __future__ import annotations

import pytest

from dgn_engine.scene.number_style import NUMBERS, written
from dgn_engine.scene.typeset import runs
from dgn_engine.text.printable import printable

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("text", "spaced", "plain"),
    [
        ("step 12,480 · epoch 7.5", f"step 12{THIN}480 · epoch 7,5", "step 12480 · epoch 7.5"),
        ("1,234.5", f"1{THIN}234,5", "1234.5"),
        ("7.5k", "7,5k", "7.5k"),
        ("−2.1×10⁻³", "−2,1×10⁻³", "−2.1×10⁻³"),
        ("93.06% of 1,000,000", f"93,06% of 1{THIN}000{THIN}000", "93.06% of 1000000"),
        ("torch 2.13.0", "torch 2.13.0", "torch 2.13.0"),
        ("net_1.5.pt and 1.5.pt", "net_1.5.pt and 1.5.pt", "net_1.5.pt and 1.5.pt"),
        ("π 2,1,3", "π 2,1,3", "π 2,1,3"),
        ("(0, 1)", "(0, 1)", "(0, 1)"),
        ("--lr=0.5, '1,234.5', /runs/1.5/x", *2 * ("--lr=0.5, '1,234.5', /runs/1.5/x",)),
        ("It ends at step 5.", "It ends at step 5.", "It ends at step 5."),
    ],
)
def test_a_text_is_written_as_in_the_example(text: str, spaced: str, plain: str) -> None:
    assert written(text, NUMBERS[0]) == text
    assert written(text, NUMBERS[1]) == spaced
    assert written(text, NUMBERS[2]) == plain
    assert written(text, "nonsense") == text


def test_a_narrow_space_between_figures_is_drawn_and_no_escape() -> None:
    text = written("step 12,480", NUMBERS[1])
    assert "".join(run.text for run in runs(text)) == f"step 12{THIN}480"
    assert printable(text) == text
