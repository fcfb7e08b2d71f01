"""Results as tables of a notebook: what they hold, and nothing of others as markup."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dgn_engine import kernels as k
from dgn_engine.kernels.html_fields import LONGEST, HtmlFields, html_table


@dataclass
class Found(HtmlFields):
    name: str
    mean_value: float
    kernel: object
    layers: tuple[int, ...] = ()
    missing: object = None


def test_names_of_others_are_no_markup() -> None:
    shown = html_table({"<b>a</b>": "<script>alert(1)</script>", "b": "x\x1b[31m" + "y" * 900})
    assert "<script" not in shown
    assert "<b>" not in shown
    assert "\x1b" not in shown
    assert "y" * (LONGEST + 1) not in shown
    assert "&lt;script&gt;" in shown


def test_arrays_are_shown_by_shape_and_range() -> None:
    shown = Found("a&b", 0.125, torch.tensor([[1.0, -2.0]]), (1,) * 9)._repr_html_()
    for words in ("a&amp;b", "mean value", "0.125", "1 × 2, −2 to 1", "9 of int", "none"):
        assert words in shown
    assert "2 × 0" in Found("", 0.0, np.zeros((2, 0)))._repr_html_()
    assert "with NaN" in Found("", 0.0, np.full(2, np.nan))._repr_html_()


def test_a_spectrum_is_a_table_in_a_notebook() -> None:
    shown = k.spectrum(torch.eye(3) / 3, torch.ones(3, 1))._repr_html_()
    assert "Spectrum" in shown
    assert "effective rank" in shown
