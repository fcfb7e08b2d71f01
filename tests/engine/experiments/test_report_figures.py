"""Figures of a report: what matplotlib is given, line by line, and what its files hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawn

from dgn_engine.experiments.report.formatting import SERIES, tokens
from dgn_engine.experiments.report.report_figures import (
    HEIGHT,
    LABEL,
    WIDTH,
    apart,
    draw,
    figure_bytes,
    inline_svg,
    print_style,
)
from dgn_engine.protocol.results import Figure, PlottedLine

LIGHT = tokens("light")
LONG = tuple(float(n) for n in range(13))
LINES = (
    PlottedLine("a", (1.0, 2.0, 4.0), (1.0, 3.0, 2.0), (0.5, 0.25, 0.125)),
    PlottedLine("b", (1.0, 2.0), (5.0, 4.0), (0.5, 1.0), "points"),
    PlottedLine("c", (1.0, 4.0), (2.5, 2.0), style="printed"),
    PlottedLine("d", (), (3.5,)),
    PlottedLine("e", LONG, tuple(n / 4 for n in LONG)),
)
FIGURE = Figure("curve", "What it shows", "depth d", "share (%)", LINES)


def same(colour: object, token: str) -> bool:
    return to_hex(colour) == LIGHT[token].lower()  # type: ignore[arg-type]


@pytest.fixture
def drawn() -> Iterator[Drawn]:
    with print_style("curve"):
        yield draw(FIGURE)


def axes_of(drawn: Drawn) -> Axes:
    (axes,) = drawn.axes
    return axes


def box(axes: Axes, drawn: Drawn) -> list[float]:
    """Left, bottom, right and top margin in points."""
    place = axes.get_position()
    wide, high = drawn.get_figwidth() * 72, drawn.get_figheight() * 72
    return [place.x0 * wide, place.y0 * high, (1 - place.x1) * wide, (1 - place.y1) * high]


def test_a_figure_is_as_wide_as_a_page_and_leaves_room_for_names(drawn: Drawn) -> None:
    assert (drawn.get_figwidth() * 72, drawn.get_figheight() * 72) == pytest.approx((504, 240))
    assert same(drawn.get_facecolor(), "panel")
    # One letter of 7.5 points: 4.2 wide, and 14 of air.
    assert box(axes_of(drawn), drawn) == pytest.approx([48, 34, 18.2, 26])
    (title,) = drawn.texts
    assert (title.get_text(), title.get_weight(), title.get_size()) == ("What it shows", "bold", 9)
    assert same(title.get_color(), "text")
    assert title.get_position() == pytest.approx((8 / WIDTH, 1 - 15 / HEIGHT))


def test_long_names_take_two_fifths_of_the_width_and_many_make_it_higher() -> None:
    many = tuple(replace(LINES[0], label=f"{n:_>90}") for n in range(30))
    found = draw(replace(FIGURE, lines=many))
    assert found.get_figheight() * 72 == pytest.approx(26 + 34 + 30 * 10)
    assert box(axes_of(found), found) == pytest.approx([48, 34, 0.42 * 504, 26])
    bare = draw(replace(FIGURE, lines=()))
    assert box(axes_of(bare), bare)[2] == pytest.approx(14)


def test_axes_are_named_and_quiet(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth d", "share (%)")
    for axis, pad in ((axes.xaxis, 2), (axes.yaxis, 3)):
        assert same(axis.label.get_color(), "muted")
        assert (axis.label.get_size(), axis.labelpad) == (LABEL, pad)
        style: dict[str, Any] = axis.get_tick_params()
        assert (style["length"], style["pad"], style["labelsize"]) == (0, 3, LABEL)
        assert style["labelcolor"] == LIGHT["muted"]
    assert same(axes.get_facecolor(), "panel")
    assert [side for side, spine in axes.spines.items() if spine.get_visible()] == ["bottom"]
    assert same(axes.spines["bottom"].get_edgecolor(), "muted")
    assert axes.spines["bottom"].get_linewidth() == 0.5
    across, down = axes.yaxis.get_gridlines()[0], axes.xaxis.get_gridlines()[0]
    assert (across.get_visible(), down.get_visible()) == (True, False)
    assert (same(across.get_color(), "line"), across.get_linewidth()) == (True, 0.5)
    assert axes.get_axisbelow() is True
    assert axes.margins() == (0.02, 0.06)
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        assert 3 <= len(ticks) <= 8


def test_each_line_has_the_style_of_what_it_is(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    a, b, c, e = (line for line in axes.lines if line.get_markersize() == 3.2)
    for line, plotted in zip((a, b, c, e), (*LINES[:3], LINES[4]), strict=True):
        assert tuple(line.get_xdata()) == plotted.x
        assert tuple(line.get_ydata()) == plotted.y
        assert line.get_linewidth() == 1.2
    assert [line.get_linestyle() for line in (a, b, e)] == ["-", "None", "-"]
    # Points where there are few, and none where there are more than twelve.
    assert [line.get_marker() for line in (a, b, c, e)] == ["o", "s", "D", "None"]
    colours = [SERIES[0], SERIES[1], "muted", SERIES[4]]
    for line, token in zip((a, b, c, e), colours, strict=True):
        assert same(line.get_color(), token)
        assert same(line.get_markerfacecolor(), "panel" if token == "muted" else token)
    across = next(line for line in axes.lines if list(line.get_ydata()) == [3.5, 3.5])
    assert (across.get_linewidth(), same(across.get_color(), SERIES[3])) == (0.9, True)


def dashes(*lines: PlottedLine) -> set[str]:
    """Of all lines in the file, in points: those of `formatting.DASHES` by the line's width."""
    svg = figure_bytes(replace(FIGURE, lines=lines), "svg").decode()
    return set(re.findall(r"stroke-dasharray: ([\d., ]+)", svg))


def test_lines_are_dashed_where_a_colour_comes_again_dotted_where_they_were_printed() -> None:
    plain = LINES[0]
    assert dashes(*[plain] * 6) == set()
    assert dashes(*[plain] * 7) == {"4.8,2.4"}
    assert dashes(LINES[2]) == {"1.2,1.8"}
    assert dashes(LINES[3]) == {"3.6,1.8"}  # a line across is thinner


def test_a_spread_is_a_band_around_a_line_and_bars_on_points(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    band, bars = sorted(axes.collections, key=lambda one: type(one).__name__)
    assert type(band).__name__ == "FillBetweenPolyCollection"
    assert (band.get_alpha(), list(band.get_linewidth())) == (0.16, [0])
    assert same(band.get_facecolor()[0], SERIES[0])  # type: ignore[index]
    edges = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}  # type: ignore[union-attr]
    assert {(1.0, 0.5), (1.0, 1.5), (2.0, 2.75), (2.0, 3.25), (4.0, 1.875), (4.0, 2.125)} <= edges
    segments = [segment.tolist() for segment in bars.get_segments()]  # type: ignore[attr-defined]
    assert segments == [[[1.0, 4.5], [1.0, 5.5]], [[2.0, 3.0], [2.0, 5.0]]]
    assert same(bars.get_edgecolor()[0], SERIES[1])  # type: ignore[index]
    assert list(bars.get_linewidth()) == [0.8]


def test_a_line_of_one_point_is_a_point_with_a_bar() -> None:
    axes = axes_of(draw(replace(FIGURE, lines=(PlottedLine("", (1.0,), (2.0,), (0.5,)),))))
    (bars,) = axes.collections
    assert type(bars).__name__ == "LineCollection"
    assert axes.lines[0].get_marker() == "o"
    twelve = PlottedLine("", LONG[:12], LONG[:12])
    assert axes_of(draw(replace(FIGURE, lines=(twelve,)))).lines[0].get_marker() == "o"
    points = PlottedLine("", LONG, LONG, style="points")
    assert axes_of(draw(replace(FIGURE, lines=(points,)))).lines[0].get_marker() == "o"


def names(axes: Axes) -> list[tuple[str, float, float]]:
    """(name, x, height above the foot of the axes in points)."""
    found = draw_height(axes)
    return [(t.get_text(), t.get_position()[0], t.get_position()[1] * found) for t in axes.texts]


def draw_height(axes: Axes) -> float:
    figure = axes.figure
    assert isinstance(figure, Drawn)
    return axes.get_position().height * figure.get_figheight() * 72


def test_names_stand_at_the_ends_of_their_curves_in_their_colours(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    low, high = axes.get_ylim()
    ends = {"a": 2.0, "b": 4.0, "c": 2.0, "d": 3.5, "e": 3.0}
    heights = {name: 180 * (end - low) / (high - low) for name, end in ends.items()}
    heights["c"] = heights["a"] + 9.5  # both end at 2: two points of air between the names
    assert [(name, x) for name, x, _ in names(axes)] == [(name, 1.012) for name in "abcde"]
    found = {name: height for name, _, height in names(axes)}
    assert found == pytest.approx(heights)
    for text, token in zip(axes.texts, (*SERIES[:2], "muted", *SERIES[3:5]), strict=True):
        assert same(text.get_color(), token)
        assert (text.get_size(), text.get_verticalalignment()) == (LABEL, "center")


def test_a_curve_that_ends_in_nothing_is_named_at_its_last_value() -> None:
    lines = (
        PlottedLine("up", (1.0, 2.0, 3.0), (0.0, 10.0, math.nan)),
        PlottedLine("down", (1.0, 2.0), (10.0, 5.0)),
        PlottedLine("nothing", (1.0, 2.0), (math.nan, math.nan)),
    )
    axes = axes_of(draw(replace(FIGURE, lines=lines)))
    found = {name: height / 180 for name, _, height in names(axes)}
    assert found == pytest.approx({"up": 0.06 / 1.12 + 10 / 11.2, "down": 0.5, "nothing": 0.0})


def test_a_single_curve_without_a_name_has_none_beside_it() -> None:
    assert list(axes_of(draw(replace(FIGURE, lines=(replace(LINES[0], label=""),)))).texts) == []
    (alone,) = axes_of(draw(replace(FIGURE, lines=LINES[:1]))).texts
    assert alone.get_text() == "a"


def test_a_logarithmic_axis_has_decades_or_one_two_and_five_of_each() -> None:
    wide = PlottedLine("", (1.0, 10.0, 1e4), (1.0, 2.0, 20.0))
    axes = axes_of(draw(replace(FIGURE, lines=(wide,), log_x=True, log_y=True)))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    low, high = axes.get_xlim()
    assert list(axes.get_xticks()) == [1.0, 10.0, 100.0, 1000.0, 10_000.0]
    assert list(axes.get_yticks()) == [1.0, 2.0, 5.0, 10.0, 20.0]
    assert axes.xaxis.get_major_formatter()(10_000.0) == "10,000"
    assert list(axes.get_xticks(minor=True)) == []
    assert low < 1.0 < 1e4 < high
    more = replace(wide, y=(1.0, 2.0, 200.0))
    axes = axes_of(draw(replace(FIGURE, lines=(more,), log_y=True)))
    assert list(axes.get_yticks()) == [1.0, 10.0, 100.0]
    linear = axes_of(draw(replace(FIGURE, lines=(wide,), log_x=True)))
    assert (linear.get_xscale(), linear.get_yscale()) == ("log", "linear")


def test_an_image_is_grey_over_the_whole_width() -> None:
    grey = ((0.0, 0.5, 1.0, math.nan), (1.0, 0.25, 0.0, 0.5))
    found = draw(replace(FIGURE, lines=(), image=grey))
    axes = axes_of(found)
    # 504 − 48 − 14 wide for four columns: two rows are half of that.
    assert found.get_figheight() * 72 == pytest.approx(26 + 34 + 221)
    assert found.get_figwidth() * 72 == pytest.approx(504)
    assert box(axes, found) == pytest.approx([48, 34, 14, 26])
    (image,) = axes.images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), grey)  # type: ignore[arg-type]
    assert (image.get_cmap().name, image.get_clim()) == ("gray", (0, 1))
    assert image.get_interpolation() == "nearest"
    assert (list(axes.get_xticks()), list(axes.get_yticks())) == ([], [])
    assert not any(spine.get_visible() for spine in axes.spines.values())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth d", "share (%)")
    for axis in (axes.xaxis, axes.yaxis):
        assert (axis.label.get_size(), same(axis.label.get_color(), "muted")) == (LABEL, True)
    (title,) = found.texts
    assert (title.get_text(), title.get_weight(), title.get_size()) == ("What it shows", "bold", 9)
    assert title.get_position() == pytest.approx((8 / 504, 1 - 15 / 281))
    assert same(found.get_facecolor(), "panel")


@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_the_same_numbers_make_the_same_file_with_the_title_and_no_date(kind: str) -> None:
    first = figure_bytes(FIGURE, kind)
    assert first == figure_bytes(FIGURE, kind)
    assert b"What it shows" in first
    assert b"CreationDate" not in first
    assert b"<dc:date>" not in first
    assert figure_bytes(replace(FIGURE, name="other"), "svg") != figure_bytes(FIGURE, "svg")


def test_text_in_a_file_stays_text() -> None:
    svg = figure_bytes(FIGURE, "svg").decode()
    assert ">share (%)</text>" in svg
    pdf = figure_bytes(FIGURE, "pdf")
    assert b"/TrueType" in pdf or b"/CIDFontType2" in pdf
    assert b"/Type3" not in pdf


def test_a_figure_in_a_page_has_names_and_colours_of_its_own() -> None:
    svg = inline_svg(FIGURE)
    head, _, _ = svg.partition(">")
    assert head.startswith("<svg ")
    assert head.count('role="img"') == 1
    assert "width=" not in head  # as wide as the page
    assert 'viewBox="0 0 504 240"' in head
    assert "<metadata>" not in svg
    assert 'id="curve-axes_1"' in svg
    ids = {part.split('"', 1)[0] for part in svg.split(' id="')[1:]}
    assert all(name.startswith("curve-") for name in ids)
    assert "url(#curve-" in svg
    assert all(part.startswith("curve-") for part in svg.split('href="#')[1:])
    for token in ("muted", "line", "text", *SERIES[:2]):
        assert f"var(--{token})" in svg
        assert LIGHT[token].lower() not in svg


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ([5.0, 5.0, 5.0], [5, 7, 9]),
        ([1.0, 9.0, 4.0], [1, 9, 4]),
        ([9.0, 1.0, 8.0], [10, 1, 8]),
        ([99.0, 98.5], [100, 98]),
        ([100.0, 100.0, 100.0], [96, 98, 100]),
        ([101.0], [100]),
        ([0.0], [0]),
        ([], []),
    ],
)
def test_names_are_moved_apart_and_no_higher_than_the_top(
    places: list[float], moved: list[float]
) -> None:
    assert apart(places, 2.0, 100.0) == moved
