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

from dgn_engine.scene.chart_layout import GAP, Margins, arrange, spread
from dgn_engine.scene.elements import Axis, Chart, Matrix
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import LIGHT
from dgn_engine.scene.ticks import linear_ticks, log_ticks
from dgn_viewer.docks.panel_dock import PanelDock


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
