"""Numbers as they are written for people: one style for figures, powers, percent and signs."""

from __future__ import annotations

import math

import pytest

from dgn_engine.text.written_numbers import (
    decimals,
    duration,
    number,
    percent,
    plus_minus,
    rate,
    time_left,
)


@pytest.mark.parametrize(
    ("value", "figures", "words"),
    [
        (0.01234567, 0, "0.01235"),
        (12480.0, 0, "12,480"),
        (12345.678, 0, "12,345.7"),
        (12345.678, 3, "12,300"),
        (1234.567, 6, "1,234.57"),
        (1234.5, 6, "1,234.5"),
        (-3.5e-7, 0, "−3.5×10⁻⁷"),
        (2e-9, 2, "2×10⁻⁹"),
        (1e9, 3, "1×10⁹"),
        (0.1234567, 6, "0.123457"),
        (1.234567e-9, 6, "1.23457×10⁻⁹"),
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


def test_decimals_keep_their_zeros_with_thousands_and_a_true_minus() -> None:
    assert [decimals(value, 1) for value in (1250.0, -0.25, 0.0)] == ["1,250.0", "−0.2", "0.0"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"), (5e-5, "50 µs"), (0.00212, "2.1 ms"), (0.0334, "33 ms"), (0.0996, "0.1 s"),
        (0.256, "0.26 s"), (9.96, "10 s"), (99.4, "99 s"), (99.6, "1.7 min"), (900.0, "15 min"),
        (5999, "100 min"), (6000, "1.7 h"), (48 * 3600, "2 days"), (99.6 * 86400, "100 days"),
        (729 * 86400, "729 days"), (1461 * 86400, "4 years"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_a_duration_has_two_figures_and_the_unit_that_suits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_time_that_is_left_is_whole_seconds_and_at_least_one() -> None:
    assert [time_left(seconds) for seconds in (0.2, 41.6, 824.0)] == ["1 s", "42 s", "14 min"]


def test_a_rate_keeps_one_decimal_place_below_ten() -> None:
    rates = (12_000.0, 812.4, 9.96, 3.0)
    assert [rate(one) for one in rates] == [
        "12,000 steps/s",
        "812 steps/s",
        "10 steps/s",
        "3.0 steps/s",
    ]


def test_a_value_is_written_as_far_as_its_error_reaches() -> None:
    assert plus_minus(0.41234, 0.0131) == "0.412 ± 0.013"
    assert plus_minus(-1250.4, 12.3) == "−1,250 ± 12"
    assert plus_minus(0.41234, 0.0) == "0.4123"
    assert plus_minus(math.nan, 0.1) == "–"
