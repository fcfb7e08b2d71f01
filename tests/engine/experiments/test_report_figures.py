"""Figures of a report: what the engine's drawer is given and draws, and what the files hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawn
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dgn_engine.experiments import Figure, PlottedLine
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.formatting import SERIES, theme_colours
from dgn_engine.experiments.report.report_figures import (
    draw_report_figure,
    figure_bytes,
    inline_svg,
)
from dgn_engine.figures.paper import print_style
from dgn_engine.scene.elements import Chart
from tests.engine.experiments.documents import result

LIGHT = theme_colours("light")
LONG = tuple(float(n) for n in range(13))
LINES = (
    PlottedLine("a", (1.0, 2.0, 4.0), (1.0, 3.0, 2.0), (0.5, 0.25, 0.125)),
    PlottedLine("b", (1.0, 2.0), (5.0, 4.0), (0.5, 1.0), "points"),
    PlottedLine("c", (1.0, 4.0), (2.5, 2.0), style="printed"),
    PlottedLine("d", (), (3.5,)),
    PlottedLine("e", LONG, tuple(n / 4 for n in LONG)),
)
FIGURE = Figure("curve", "What it shows", "depth d", "share (%)", LINES)
MODELS = tuple(float(n % 7) for n in range(48))
BOXES = Figure(
    "models",
    "The models",
    "",
    "test accuracy (%)",
    (
        PlottedLine("", (0.0,) * 48 + (1.0,) * 48, MODELS * 2, style="boxes"),
        PlottedLine("x^v = x", (0.0,) * 24 + (1.0,) * 24, MODELS, style="cloud"),
        PlottedLine("printed", (0.0, 2.0), (4.0, 6.5), (0.5, 0.25), "printed"),
    ),
    categories=("FR-II", "FR-DI", "ReLU"),
)
MANY = tuple(PlottedLine(f"ReLU, d = {d}", LONG, tuple(n / d for n in LONG)) for d in range(2, 18))
NEAR = tuple(PlottedLine(f"FRNPF({step})", LONG, (90 + step / 100,) * 13) for step in range(9))
VALUES = np.arange(8.0 * 11).reshape(8, 11)  # two rows of three tiles of 3 × 3, one pixel between
VALUES[3] = VALUES[:, [3, 7]] = math.nan
PICTURE = Figure(
    "tiles",
    "Tiles",
    "layer",
    "",
    (),
    image=tuple(map(tuple, VALUES[:7].tolist())),
    rows=("first", "second"),
    columns=("x", "1", "2"),
    scale="of the largest",
)


def chart(*lines: PlottedLine, **other: object) -> Chart:
    (made,) = scene_of((replace(FIGURE, lines=lines, **other),)).charts  # type: ignore[arg-type]
    return made


def drawn(figure: Figure) -> tuple[Drawn, Axes]:
    with print_style():
        page = draw_report_figure(figure)
    return page, page.axes[0]


def given(*lines: PlottedLine, **other: object) -> Axes:
    return drawn(replace(FIGURE, lines=lines, **other))[1]  # type: ignore[arg-type]


def named(axes: Axes, name: str) -> Line2D:
    return next(line for line in axes.lines if str(line.get_gid()).endswith(f".{name}"))


def words(page: Drawn) -> Iterator[tuple[Text, Bbox]]:
    """All words of a figure with the boxes they take, in points."""
    page.set_dpi(72)
    renderer = FigureCanvasAgg(page).get_renderer()  # type: ignore[no-untyped-call]
    page.draw(renderer)
    found = list(page.texts)
    for axes in page.axes:
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        found += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return ((one, one.get_window_extent(renderer)) for one in found if one.get_text().strip())


@pytest.mark.parametrize(
    "figure",
    [
        FIGURE,
        BOXES,
        PICTURE,
        replace(FIGURE, lines=MANY),
        replace(FIGURE, lines=NEAR, y="test accuracy (%)"),
        replace(FIGURE, lines=(replace(LINES[0], label="a very long name of a file " * 4),)),
        replace(FIGURE, lines=(), x="", y=""),
        replace(FIGURE, y="‖e‖²/‖e_0‖²", log_y=True),
        replace(BOXES, categories=("NPF trained, random pixels", "unbreakableword" * 9, "ReLU")),
        replace(FIGURE, lines=(PlottedLine("$x_{", LONG, LONG),), x="a $ b", y="100 % of $5"),
        replace(PICTURE, rows=(), columns=(), scale="", y="image"),
    ],
)
def test_a_report_figure_has_no_title_and_words_that_can_all_be_read(figure: Figure) -> None:
    page, axes = drawn(figure)
    wide, high = (side * 72 for side in page.get_size_inches())
    assert wide / 72 == (6.75 if figure.image else 3.25)
    assert axes.get_position().height * high > 60
    found = list(words(page))
    for text, box in found:
        assert float(text.get_fontsize()) >= 7, text
        assert min(box.x0, box.y0, wide - box.x1, high - box.y1) > -0.5, text
        assert figure.title not in text.get_text()
    for (one, a), (other, b) in combinations(found, 2):
        lap = Bbox.intersection(a, b)
        assert lap is None or min(lap.width, lap.height) < 1.0, (one, other)


def test_an_accuracy_in_a_report_is_never_below_0_or_above_100() -> None:
    wide = PlottedLine("", (0.0, 1.0), (3.0, 99.5), (30.0, 20.0))
    assert given(wide, y="test accuracy (%)").get_ylim() == (0.0, 100.0)
    assert given(wide, y="loss").get_ylim()[0] < 0
    narrow = PlottedLine("", (0.0, 1.0), (96.0, 98.0))
    assert given(narrow, y="test accuracy (%)").get_ylim() == pytest.approx((95.88, 98.12))


def test_the_axis_of_values_that_are_not_negative_begins_at_zero_or_above() -> None:
    assert given(PlottedLine("", (0.0, 1.0), (0.0, 1.0))).get_ylim()[0] == 0.0
    assert given(PlottedLine("", (0.0, 1.0), (-0.1, 1.0))).get_ylim()[0] < -0.1


def test_a_single_wide_interval_of_a_long_curve_does_not_press_it_flat() -> None:
    at = tuple(map(float, range(40)))
    curve = PlottedLine("", at, (90.0,) * 40, (80.0, *(0.5,) * 39))
    assert 80 < given(curve).get_ylim()[0] < 90
    wide = replace(curve, spread=(90.0 - 1e-7, *(0.5,) * 39))
    assert 80 < given(wide, log_y=True).get_ylim()[0] < 90
    few = PlottedLine("", (0.0, 1.0), (90.0, 90.0), (80.0, 0.5), "points")
    assert given(few).get_ylim()[0] < 10


def test_a_zero_on_a_logarithmic_axis_is_a_gap_and_its_line_is_still_named() -> None:
    axes = given(PlottedLine("a", LONG[:4], (1.0, 0.0, 1e-2, 0.0)), log_y=True)
    assert np.isnan(named(axes, "a").get_ydata()).tolist() == [False, True, False, True]
    assert (axes.get_ylim()[0] > 1e-3, [text.get_text() for text in axes.texts]) == (True, ["a"])


def test_the_spread_of_a_line_is_a_filled_outline_that_breaks_where_the_line_does() -> None:
    y, half = (4.0, 5.0, math.nan, 6.0, 7.0), (1.0, 2.0, 1.0, 8.0, 1.0)
    line = PlottedLine("a", LONG[:5], y, half)
    one, other = (curve for curve in chart(line).curves if curve.filled)
    assert (one.x.tolist(), one.y.tolist()) == ([0, 1, 1, 0], [5, 7, 3, 3])
    assert (other.x.tolist(), other.y.tolist()) == ([3, 4, 4, 3], [14, 8, 6, -2])
    areas = [patch for patch in given(line).patches if isinstance(patch, Polygon)]
    assert [area.get_xy()[:4].tolist() for area in areas] == [
        [[0, 5], [1, 7], [1, 3], [0, 3]],
        [[3, 14], [4, 8], [4, 6], [3, -2]],
    ]
    assert to_hex(areas[0].get_facecolor()) == LIGHT[SERIES[0]].lower()
    assert areas[0].get_alpha() == pytest.approx(0.16)
    log = [curve for curve in chart(line, log_y=True).curves if curve.filled]
    assert 0.0 < log[1].y[-1] < 1e-6, "far down, out of sight"
    empty = replace(line, spread=(math.nan,) * 5)
    assert not any(curve.filled for curve in chart(empty).curves)


def test_printed_lines_are_grey_or_dotted_beside_their_partner_and_printed_points_rings() -> None:
    lines = (
        PlottedLine("d = 2", LONG, LONG),
        PlottedLine("ideal, d = 2", LONG, LONG, style="printed"),
        *(PlottedLine(name, (), (1.0,), style="printed") for name in "pq"),
    )
    own, p, q, ideal = given(*lines).lines
    assert own.get_color() == ideal.get_color() == LIGHT[SERIES[0]]
    assert p.get_color() == q.get_color() == LIGHT["muted"]
    patterns = [str(line._unscaled_dash_pattern) for line in (own, ideal, q)]  # type: ignore[attr-defined]
    assert len(set(patterns)) == 3
    assert (own.get_linestyle(), ideal.get_linestyle()) == ("-", "--")
    ring = named(drawn(BOXES)[1], "printed")
    assert (ring.get_marker(), ring.get_markerfacecolor()) == ("o", "none")
    assert ring.get_color() == LIGHT["muted"]


def test_names_stand_at_the_ends_of_curves_and_long_or_many_or_of_places_above() -> None:
    axes = given(*LINES)
    low, high = axes.get_ylim()
    ends = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert ends["b"] == pytest.approx((4.0 - low) / (high - low))
    assert set(ends) == set("abcde")
    assert [text.get_color() for text in axes.texts][:2] == [LIGHT[role] for role in SERIES[:2]]
    long = (replace(LINES[0], label="a name that is far too long for the end"),)
    for figure in (replace(FIGURE, lines=MANY), replace(FIGURE, lines=long), BOXES):
        page, axes = drawn(figure)
        assert not list(axes.texts)
        assert all(text.get_position()[1] > axes.get_position().y1 for text in page.texts)
        assert len(page.texts) == len(page.artists)


def test_the_key_of_scattered_points_shows_one_marker() -> None:
    page, _ = drawn(BOXES)
    keys = [artist for artist in page.artists if isinstance(artist, Line2D)]
    names = [text.get_text() for text in page.texts]
    found = {
        name: (len(set(key.get_xdata())), key.get_marker())  # type: ignore[arg-type]
        for name, key in zip(names, keys, strict=True)
    }
    assert found == {"median": (2, "None"), "$x^{v} = x$": (1, "o"), "printed": (1, "o")}


def test_few_whole_x_are_ticks_of_their_own_with_room_at_both_ends() -> None:
    widths = PlottedLine("", (16.0, 64.0, 256.0), (1.0, 2.0, 3.0))
    for log in (False, True):
        axes = given(widths, log_x=log)
        assert [text.get_text() for text in axes.get_xticklabels()] == ["16", "64", "256"]
        assert axes.get_xlim()[0] < 16 < 256 < axes.get_xlim()[1]
    assert chart(PlottedLine("", (0.5, 1.0), (1.0, 2.0))).x.ticks is None
    layers = tuple(float(layer) for layer in range(1, 12))
    ticks = chart(PlottedLine("", layers, layers)).x.ticks
    assert ticks is not None
    assert [text for _, text in ticks] == ["2", "4", "6", "8", "10"], "whole layers only"
    steps = tuple(float(step) for step in range(200))
    assert chart(PlottedLine("", steps, steps)).x.ticks is None


def test_a_picture_names_its_tiles_at_their_middles_and_leaves_outliers_to_the_ends() -> None:
    (made,) = scene_of((PICTURE,)).charts
    assert made.x.ticks == ((1.0, "x"), (5.0, "1"), (9.0, "2"))
    assert made.y.ticks == ((1.0, "first"), (5.0, "second"))
    assert made.matrix is not None
    reach = np.nanpercentile(PICTURE.image, (1, 99))
    assert (made.matrix.low, made.matrix.high) == pytest.approx(tuple(reach))
    assert made.matrix.beyond == (True, True)
    page, axes = drawn(PICTURE)
    (image,) = axes.images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), PICTURE.image)  # type: ignore[arg-type]
    assert image.get_clim() == pytest.approx(tuple(reach))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["first", "second"]
    assert page.axes[1].get_ylabel() == "of the largest"


def test_a_picture_of_an_older_result_is_still_read_and_drawn(tmp_path: Path) -> None:
    tree = json.loads(document.to_bytes(result(figures=(PICTURE,))))
    for name in ("rows", "columns", "scale"):
        del tree["figures"][0][name]
    (tmp_path / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    (found,) = document.read_document(tmp_path).figures
    assert (found.rows, found.columns, found.scale) == ((), (), "")
    page, axes = drawn(found)
    assert len(page.axes) == 1, "no bar of colours"
    assert (axes.get_xticklabels(), axes.get_yticklabels()) == ([], [])


@pytest.mark.wide
@pytest.mark.parametrize("figure", [FIGURE, BOXES, PICTURE], ids=["lines", "boxes", "picture"])
@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_the_same_numbers_make_the_same_file_with_the_title_and_no_date(
    kind: str, figure: Figure
) -> None:
    first = figure_bytes(figure, kind)
    assert first == figure_bytes(figure, kind)
    assert figure.title.encode() in first
    assert b"CreationDate" not in first
    assert b"<dc:date>" not in first


def test_text_in_a_file_stays_text() -> None:
    assert ">share (%)</text>" in figure_bytes(FIGURE, "svg").decode()
    pdf = figure_bytes(FIGURE, "pdf")
    assert b"/TrueType" in pdf or b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf


def test_a_figure_in_a_page_has_names_and_colours_of_its_own() -> None:
    svg = inline_svg(FIGURE)
    head, _, _ = svg.partition(">")
    assert (head.startswith("<svg "), head.count('role="img"')) == (True, 1)
    assert "width=" not in head  # as wide as the page
    assert 'viewBox="0 0 234 ' in head
    assert "<metadata>" not in svg
    ids = [part.split('"', 1)[0] for part in svg.split(' id="')[1:]]
    assert len(set(ids)) == len(ids)
    for names in (ids, svg.split('href="#')[1:], svg.split("url(#")[1:]):
        assert names
        assert all(name.startswith("curve-") for name in names)
    for token in ("muted", "line", "panel", *SERIES[:4]):
        assert f"var(--{token})" in svg
        assert LIGHT[token].lower() not in svg


@pytest.mark.parametrize("shape", [(89, 8), (8, 150), (1, 200)])
def test_a_picture_far_wider_or_taller_than_a_page_is_drawn(shape: tuple[int, int]) -> None:
    image = tuple((0.5,) * shape[1] for _ in range(shape[0]))
    assert figure_bytes(Figure("p", "A picture", "", "", (), image=image, scale="s"), "svg")


def test_words_of_a_figure_in_a_page_are_left_as_they_are() -> None:
    lines = (PlottedLine('id="x" at #0072b2', (1.0, 2.0), (1.0, 2.0)),)
    page = inline_svg(Figure("f", "T", "", "", lines))
    assert "#0072b2" in page
    assert not [one for one in re.findall(r' id="([^"]*)"', page) if " " in one]


def test_a_long_label_of_an_upright_axis_is_on_the_page() -> None:
    with print_style():
        drawn = draw_report_figure(replace(FIGURE, y="log10 of the remaining squared error"))
        FigureCanvasAgg(drawn).draw()
        (axes,) = drawn.axes
        extent, page = axes.yaxis.label.get_window_extent(), drawn.bbox
    assert page.x0 <= extent.x0
    assert page.y0 <= extent.y0
    assert extent.y1 <= page.y1
