"""Numbers as they are written for people: one style for figures, powers, percent and signs."""

from __future__ import annotations

import math

import pytest

from dgn_engine.text.written_numbers import number, percent


@pytest.mark.parametrize(
    ("value", "figures", "words"),
    [
        (0.01234567, 0, "0.01235"),
        (12480.0, 0, "12,480"),
        (12345.678, 0, "12,345.7"),
        (12345.678, 3, "12,300"),
        (-3.5e-7, 0, "−3.5×10⁻⁷"),
        (2e-9, 2, "2×10⁻⁹"),
        (1e9, 3, "1×10⁹"),
        (math.nan, 3, "–"),
        (-math.inf, 3, "−∞"),
    ],
)
def test_a_number_has_few_figures_true_signs_and_powers_as_powers(
    value: float, figures: int, words: str
) -> None:
    assert number(value, figures) == words


def test_a_signed_number_has_plus_or_minus_and_zero_has_none() -> None:
    assert [number(value, 3, signed=True) for value in (0.2, -0.2, 0.0)] == ["+0.2", "−0.2", "0"]


def test_percent_has_a_space_and_a_true_minus() -> None:
    assert percent(0.936) == "93.6 %"
    assert percent(0.5, 0) == "50 %"
    assert percent(-0.0025, 2) == "−0.25 %"
    assert percent(0.0125, 2, signed=True) == "+1.25 %"
