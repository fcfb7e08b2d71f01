"""The pure parts of drawing: ticks, places, ranges, ramps, letters."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from dgn_engine.scene import ramps
from dgn_engine.scene.axes import chart_range, thinned
from dgn_engine.scene.chart_layout import GAP, Margins, arrange, spread
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Ramp, same
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_engine.scene.ticks import linear_ticks, log_ticks
from dgn_engine.scene.typeset import TextRun, html, plain, runs
from dgn_engine.text.written_numbers import number
from dgn_viewer.docks.panel_dock import PanelDock

RAMPS: tuple[Ramp, ...] = ("gates", "sequential", "diverging")


@given(
    st.floats(-1e9, 1e9, allow_nan=False),
    st.floats(1e-6, 1e9),
    st.integers(2, 5),
)
def test_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    high = low + span
    ticks = linear_ticks(low, high, most)
    assert len(ticks) <= most
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= value <= high + slack for value, _ in ticks)


@given(st.floats(-250, 250), st.floats(0.01, 40))
def test_logarithmic_ticks_are_few_and_inside(exponent: float, decades: float) -> None:
    low, high = 10.0**exponent, 10.0 ** min(exponent + decades, 300)
    ticks = log_ticks(low, high)
    assert len(ticks) <= 5
    assert all(low * 0.999 <= value <= high * 1.001 for value, _ in ticks)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.25", "0.50", "0.75", "1.00"]),
        (0, 12480, ["0", "2.5k", "5k", "7.5k", "10k"]),
        (-1, 1, ["−1.0", "−0.5", "0", "0.5", "1.0"]),
        (0, 0.0004, ["0", "1×10⁻⁴", "2×10⁻⁴", "3×10⁻⁴", "4×10⁻⁴"]),
        (1, 1, []),
    ],
)
def test_labels_are_short(low: float, high: float, labels: list[str]) -> None:
    assert [text for _, text in linear_ticks(low, high)] == labels


def test_decades_are_written_as_powers() -> None:
    assert [text for _, text in log_ticks(1e-3, 1e1)] == ["10⁻³", "10⁻²", "10⁻¹", "1", "10"]
    assert [text for _, text in log_ticks(1500, 60_000)] == ["2,000", "5,000", "10k", "20k", "50k"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12480.0, "12,480"),
        (-0.5, "−0.5"),
        (3.14159, "3.142"),
        (1.5e-7, "1.5×10⁻⁷"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_are_set_for_reading(value: float, text: str) -> None:
    assert number(value) == text


def test_formulas_become_runs_and_html() -> None:
    assert runs("trace $K^V$") == (TextRun("trace "), TextRun("K", 0, True), TextRun("V", 1, True))
    assert runs("$ρ_{12}$") == (TextRun("ρ", 0, True), TextRun("12", -1, False))
    assert html("a < $K^V$") == "a &lt; <i>K</i><sup><i>V</i></sup>"
    assert plain("$K^{V}$ now") == "K^V now"


def _square(key: str, column: int, n: int = 8) -> Chart:
    matrix = Matrix(key, np.zeros((n, n)), "gates", 0, 1)
    return Chart(key, key, Axis(), Axis(), matrix=matrix, square=True, column=column)


@given(
    st.floats(100, 3000),
    st.floats(60, 2000),
    st.integers(1, 4),
    st.booleans(),
)
def test_charts_stay_inside_and_apart(
    width: float, height: float, squares: int, curve: bool
) -> None:
    charts = [_square(f"s{i}", i) for i in range(squares)]
    if curve:
        charts.append(Chart("c", "c", Axis(), Axis(), column=squares))
    margins = {chart.key: Margins(4, 4, 4, 4) for chart in charts}
    boxes = [place.box for place in arrange(charts, margins, width, height).values()]
    for box in boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= width + 8 * (squares + 1)
        assert box.y + box.height <= max(height, 40)
    for left, right in itertools.pairwise(boxes):
        assert left.x + left.width + GAP <= right.x + 1e-6
    for box in boxes[:squares]:
        assert box.width == pytest.approx(box.height)
        assert box.width == pytest.approx(boxes[0].width)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_spread_labels_do_not_overlap(wanted: list[float]) -> None:
    places = spread(wanted, 12.0, 6.0, 94.0)
    ordered = sorted(places)
    assert all(b - a >= 12.0 - 1e-6 for a, b in itertools.pairwise(ordered))
    assert min(places) >= 6.0 - 1e-6
    assert max(places) <= 94.0 + 1e-6


def test_thinning_keeps_every_spike_and_the_last_value() -> None:
    x = np.arange(100_000)
    y = np.zeros(100_000)
    y[[777, 50_001, 99_999]] = (5.0, -7.0, 3.0)
    thin_x, thin_y = thinned(x, y, -np.inf, np.inf, 2000)
    assert len(thin_x) <= 2100
    assert (np.diff(thin_x) >= 0).all()
    assert {5.0, -7.0, 3.0} <= set(thin_y.tolist())
    assert thin_y[-1] == 3.0


def test_thinning_shows_all_points_of_a_small_part() -> None:
    x = np.arange(100_000)
    thin_x, _ = thinned(x, x.astype(float), 500.0, 600.0, 2000)
    assert thin_x.tolist() == list(range(499, 602))


def test_a_constant_curve_has_a_range_around_it() -> None:
    flat = Curve("a", np.array([1, 2]), np.array([3.0, 3.0]))
    _, (low, high) = chart_range(Chart("c", "", Axis(), Axis(), curves=(flat,)))
    assert low < 3.0 < high
    nothing = Curve("a", np.array([1, 2]), np.array([np.nan, np.nan]))
    _, (low, high) = chart_range(Chart("c", "", Axis(), Axis(log=True), curves=(nothing,)))
    assert 0 < low < high


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("ramp", RAMPS)
def test_a_ramp_is_told_apart_by_luminance(ramp: Ramp, theme: Theme) -> None:
    """Luminance alone orders the colours, so that any kind of colour vision reads the ramp."""
    table = ramps.table(ramp, theme)[: ramps.EMPTY, :3] / 255.0
    linear = np.where(table <= 0.04045, table / 12.92, ((table + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    halves = (luminance[:128][::-1], luminance[127:]) if ramp == "diverging" else (luminance,)
    for half in halves:
        assert abs(half[-1] - half[0]) > 0.35
        steps = np.diff(half)
        assert (steps >= -4e-3).all() or (steps <= 4e-3).all()


def test_values_find_their_place_in_the_ramp() -> None:
    matrix = Matrix("m", np.array([[-1.0, 0.0, 1.0, 9.0, np.nan]]), "diverging", -1.0, 1.0)
    assert ramps.indices(matrix).tolist() == [[0, 127, 254, 254, 255]]
    hard = Matrix("m", np.array([[0, 1]], dtype=np.uint8), "gates", 0.0, 1.0)
    assert ramps.indices(hard).tolist() == [[0, 254]]


def test_sameness_looks_into_arrays() -> None:
    assert same(_square("a", 0), _square("a", 0))
    assert not same(_square("a", 0), _square("a", 1))
    assert not same(_square("a", 0, 8), _square("a", 0, 9))
    nan = np.array([np.nan])
    assert same((nan, 1), (nan.copy(), 1))
    assert not same(np.array([1]), np.array([1.0]))


def test_a_closed_panel_is_gone(qapp: QApplication) -> None:
    host = PanelDock("ntk", all_panels()["ntk"], LIGHT)
    host.resize(300, 200)
    host.grab()
    alive = weakref.ref(host)
    host.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    del host
    gc.collect()
    assert alive() is None
