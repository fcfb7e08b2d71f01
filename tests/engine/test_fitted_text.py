"""Text is shortened without cutting a number."""

from __future__ import annotations

from dgn_engine.scene.overlaid import short_name
from dgn_engine.text.fitted_text import fit_text, join_fitting


def test_letters_are_left_out_and_numbers_are_not() -> None:
    assert fit_text("fc 32×5", 7, len) == "fc 32×5"
    assert fit_text("resnet18", 5, len) == "re…18"
    assert fit_text("width 1024", 6, len) == "w…1024"
    assert fit_text("width 1024", 4, len) == "wid…"
    assert fit_text("1,024.5", 3, len) == ""
    assert join_fitting(("lr 0.001", "seed 3"), 17, len) == "lr 0.001 · seed 3"
    assert join_fitting(("lr 0.001", "seed 3"), 16, len) == "lr 0.001"
    assert short_name("20261129-101559-FR-II-resnet18-cifar10") == "10:15 · FR-II"
