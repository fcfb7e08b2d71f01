"""The pure parts of drawing: ticks, places, ranges, ramps, letters."""

from __future__ import annotations

import gc
import itertools
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtTest import QSignalSpy
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.figures.figure_style import TEXT, FigureStyle
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.scene.chart_layout import GAP, Margins, arrange_charts, spread_labels
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.example_readout import ExampleReadout, GateRows, ShownExample
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import LIGHT
from dgn_engine.scene.ticks import linear_ticks, log_ticks
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.plots.chart_frame import (
    ChartStyle,
    PlotArea,
    bar_label,
    measure_margins,
    paint_frame,
)
from dgn_viewer.plots.example_card import card_size, paint_card
from dgn_viewer.plots.rich_text import TextStyle
from dgn_viewer.plots.scene_pointer import PacedCall
from dgn_viewer.plots.scene_view import SceneView
from tests.engine.figures.figure_panels import page
from tests.viewer.seen_charts import visible_range


@given(st.floats(-1e9, 1e9, allow_nan=False), st.floats(1e-6, 1e9), st.integers(2, 5))
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


@given(st.floats(100, 3000), st.floats(60, 2000), st.integers(1, 4), st.booleans())
def test_charts_stay_inside_and_apart(
    width: float, height: float, squares: int, curve: bool
) -> None:
    charts = [_square(f"s{i}", i) for i in range(squares)]
    if curve:
        charts.append(Chart("c", "c", Axis(), Axis(), column=squares))
    margins = {chart.key: Margins(4, 4, 4, 4) for chart in charts}
    boxes = [place.box for place in arrange_charts(charts, margins, width, height).values()]
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
    places = spread_labels(wanted, 12.0, 6.0, 94.0)
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


# The label of a colour bar is whole, or the part of it that has room.


@pytest.mark.parametrize(
    ("whole", "head"),
    [
        ("overlap, normalised", "overlap"),
        ("mean gate over places", "mean gate"),
        ("share of the whole", "share"),
    ],
)
def test_a_colour_bar_without_room_leaves_the_details_out(
    qapp: QApplication, whole: str, head: str
) -> None:
    type_ = TextStyle(qapp.font().family(), 11)
    assert bar_label(type_, whole, type_.width(whole)) == whole
    assert bar_label(type_, whole, type_.width(head) - 8) == head
    assert bar_label(type_, whole, 4.0) == ""


@pytest.mark.parametrize("high", [1.0, 12345.0])
def test_a_colour_bar_fills_the_room_beside_the_data_to_the_edge(
    qapp: QApplication, high: float
) -> None:
    matrix = Matrix("m", np.zeros((4, 4)), "gates", 0.0, high, bar="ypsilon, gap")
    chart = Chart("m", "", Axis(), Axis(), matrix=matrix)
    style = ChartStyle(LIGHT, qapp.font().family())
    room = measure_margins(chart, style, (0.0, 4.0), (0.0, 4.0))
    box = QRectF(room.left, room.top, 100.0, 150.0)
    image = QImage(300, 200, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    paint_frame(painter, chart, style, PlotArea(box, (0.0, 4.0), (0.0, 4.0)), room)
    painter.end()
    drawn_on = [x for x in range(300) if any(image.pixelColor(x, y).alpha() for y in range(200))]
    edge = box.right() + room.right
    assert edge - style.label.height / 2 < max(drawn_on) <= edge


@pytest.mark.parametrize(("lower", "shown"), [(0.0, 3), (4.0, 2)])
def test_a_card_of_its_full_height_shows_every_layer_and_a_lower_one_says_how_many_are_left(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch, lower: float, shown: int
) -> None:
    said: list[str] = []
    monkeypatch.setattr(TextStyle, "paint", lambda _, painter, place, label, c: said.append(label))
    layers = tuple(GateRows(f"G{n}", np.ones((1, 4)), None, f"{n} of 4 open") for n in (1, 2, 3))
    readout = ExampleReadout((ShownExample(0, "example 0", "no. 0", why="no picture"),), layers)
    style = ChartStyle(LIGHT, qapp.font().family())
    card = QRectF(QPointF(), card_size(style, readout, False)).adjusted(0, 0, 0, -lower)
    image = QImage(400, 300, QImage.Format.Format_ARGB32)
    painter = QPainter(image)
    paint_card(painter, style, card, readout, False)
    painter.end()
    assert [words for words in said if words.startswith("G")] == ["G1", "G2", "G3"][:shown]
    left = [words.split()[1] for words in said if words.startswith("… ")]
    assert left == ([str(3 - shown)] if shown < 3 else [])


# Calls that are asked for more often than a frame is drawn.


def test_the_first_call_is_made_at_once_and_the_last_with_the_next_frame(
    qapp: QApplication,
) -> None:
    owner, made = QObject(), list[int]()
    count = 0
    paced = PacedCall(lambda: made.append(count), owner, every=1)
    frame_over = QSignalSpy(paced._timer.timeout)
    for count in range(1, 6):  # noqa: B007  # read by the call
        paced.request_call()
    assert made == [1]
    assert frame_over.wait(2000)
    assert made == [1, 5]
    assert frame_over.wait(2000)
    assert made == [1, 5], "nothing was asked for since"


def test_what_was_asked_for_is_made_before_its_time_where_somebody_looks(
    qapp: QApplication,
) -> None:
    owner, made = QObject(), list[str]()
    paced = PacedCall(lambda: made.append("made"), owner, every=60_000)
    paced.catch_up()
    assert made == []
    paced.request_call()
    paced.request_call()
    paced.catch_up()
    assert len(made) == 2
    paced.catch_up()
    assert len(made) == 2
    paced.call_now()
    assert len(made) == 3


# An estimated matrix has a corner on the screen, and an exact one has none.

VALUES = np.random.default_rng(0).random((5, 5))
PAIR = tuple(
    Chart(
        key,
        key,
        Axis(),
        Axis(),
        matrix=Matrix(key, VALUES, "sequential", 0.0, 1.0, "overlap", "example", "example"),
        square=True,
        column=column,
    )
    for column, key in enumerate(("active", "sensitive"))
)


def drawn(estimated: bool) -> Scene:
    """Two matrices side by side, both estimates or both exact."""
    return Scene(
        tuple(
            replace(one, matrix=replace(one.matrix, estimated=estimated))
            for one in PAIR
            if one.matrix is not None
        )
    )


def test_the_corner_is_drawn_and_goes_with_the_exact_kernel(qtbot: QtBot) -> None:
    view = SceneView(LIGHT)
    qtbot.addWidget(view)
    view.resize(640, 340)
    pictures = []
    for estimated in (False, True, False):
        view.show_scene(drawn(estimated))
        pictures.append(view.grab().toImage())
    assert pictures[0] == pictures[2]
    first, second = pictures[0], pictures[1]
    differing = [
        (x, y)
        for x in range(first.width())
        for y in range(first.height())
        if QColor(first.pixel(x, y)) != QColor(second.pixel(x, y))
    ]
    assert 60 < len(differing) < 2 * 20 * 20  # two small corners


# A figure shows the ranges that the screen shows, however they were set.

X = np.arange(0, 3001)
Y = 3.0 / np.sqrt(X + 1.0) + 0.3 * np.random.default_rng(0).random(X.size)
LOSS = Chart(
    "loss",
    "Loss",
    Axis("step", limits=(0.0, 3000.0)),
    Axis(),
    curves=(Curve("train", X, Y, role="muted"),),
)
SETTINGS = (
    ChartSettings(last=200),
    ChartSettings(log_x=True),
    ChartSettings(log_x=True, last=500),
    ChartSettings(log_y=True),
    ChartSettings(y_range=(0.1, 0.7), smoothing=0.9),
    ChartSettings(y_range=(0.1, 0.7), log_y=True),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_paper_shows_the_ranges_of_the_screen(settings: ChartSettings, qtbot: QtBot) -> None:
    scene = apply_chart_settings(Scene((LOSS,)), {"loss": settings})
    view = SceneView(LIGHT)
    qtbot.addWidget(view)
    view.resize(500, 300)
    view.show_scene(scene)
    figure = page([FigurePanel("panel", scene, Provenance("Panel"))], FigureStyle(TEXT))
    axes = next(one for one in figure.axes if str(one.get_gid()).endswith("loss"))
    for seen, drawn, log in zip(
        visible_range(view, "loss"),
        (axes.get_xlim(), axes.get_ylim()),
        (scene.charts[0].x.log, scene.charts[0].y.log),
        strict=True,
    ):
        np.testing.assert_allclose(seen, np.log10(drawn) if log else drawn, rtol=1e-6, atol=1e-9)
