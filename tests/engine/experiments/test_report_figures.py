"""Figures of a report: what matplotlib is given, line by line, and what its files hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawn
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dgn_engine.experiments.report.figure_labels import LABEL, apart
from dgn_engine.experiments.report.formatting import SERIES, tokens
from dgn_engine.experiments.report.report_figures import (
    HEIGHT,
    WIDE,
    WIDTH,
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
MODELS = tuple(float(n % 7) for n in range(48))
BOXES = Figure(
    "models",
    "The models",
    "",
    "test accuracy (%)",
    (
        PlottedLine("", (0.0,) * 48 + (1.0,) * 48, MODELS * 2, style="boxes"),
        PlottedLine("x^v = x", (0.0,) * 24 + (1.0,) * 24, MODELS, style="cloud"),
        PlottedLine("x^v = 1", (0.0,) * 24 + (1.0,) * 24, MODELS, style="cloud"),
        PlottedLine("one network", (2.0, 2.0, 2.0), (5.0, 6.0, 7.0), style="cloud"),
        PlottedLine("printed", (0.0, 2.0), (4.0, 6.5), (0.5, 0.25), "printed"),
    ),
    categories=("FR-II", "FR-DI", "ReLU"),
)


def same(colour: object, token: str) -> bool:
    return to_hex(colour) == LIGHT[token].lower()  # type: ignore[arg-type]


@pytest.fixture
def drawn() -> Iterator[Drawn]:
    with print_style("curve"):
        yield draw(FIGURE)


def axes_of(drawn: Drawn) -> Axes:
    (axes,) = drawn.axes
    return axes


def given(*lines: PlottedLine, **other: object) -> Axes:
    return axes_of(draw(replace(FIGURE, lines=lines, **other)))  # type: ignore[arg-type]


def labels(axes: Axes, which: str) -> list[str]:
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    found = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [text.get_text() for at, text in found if low <= at <= high]


def words(drawn: Drawn) -> list[tuple[Text, Bbox]]:
    """All words of a figure with the boxes they take, in points."""
    drawn.set_dpi(72)
    renderer = FigureCanvasAgg(drawn).get_renderer()
    drawn.draw(renderer)
    axes = axes_of(drawn)
    found = [
        *drawn.texts, *axes.texts, axes.xaxis.label, axes.yaxis.label,
        *axes.get_xticklabels(), *axes.get_yticklabels(),
    ]  # fmt: skip
    return [(text, text.get_window_extent(renderer)) for text in found if text.get_text().strip()]


def assert_legible(drawn: Drawn) -> None:
    """No words overlap, leave the paper, or are smaller than 7 points."""
    wide, high = drawn.get_figwidth() * 72, drawn.get_figheight() * 72
    found = words(drawn)
    assert found
    for text, box in found:
        assert text.get_size() >= 7, text
        assert box.x0 >= -0.5, text
        assert box.y0 >= -0.5, text
        assert box.x1 <= wide + 0.5, text
        assert box.y1 <= high + 0.5, text
    for (one, a), (other, b) in combinations(found, 2):
        lap = Bbox.intersection(a, b)
        assert lap is None or min(lap.width, lap.height) < 1.0, (one, other)


def test_a_figure_is_one_column_wide_and_has_no_title(drawn: Drawn) -> None:
    assert drawn.get_figwidth() == 3.25
    assert drawn.get_figwidth() * 72 == WIDTH
    axes = axes_of(drawn)
    place = axes.get_position()
    assert place.height * drawn.get_figheight() * 72 == pytest.approx(HEIGHT)
    assert not axes.get_title()
    assert not any(FIGURE.title in text.get_text() for text, _ in words(drawn))
    assert same(drawn.get_facecolor(), "panel")


MANY = tuple(
    PlottedLine(f"ReLU, d = {depth}", LONG, tuple(n / (20 + depth) for n in LONG))
    for depth in range(2, 18)
)
NEAR = tuple(
    PlottedLine(name, LONG, tuple(90 + n / 4 + step / 100 for n in LONG))
    for step, name in enumerate(("FRNPF(II)", "FRNPF(DI)", "DNPFL", "FLNPF", "ReLU"))
)


@pytest.mark.parametrize(
    "figure",
    [
        FIGURE,
        BOXES,
        replace(FIGURE, lines=MANY),
        replace(FIGURE, lines=NEAR, y="test accuracy (%)"),
        replace(FIGURE, lines=(replace(LINES[0], label="a very long name of a file " * 4),)),
        replace(FIGURE, lines=(), x="", y=""),
        replace(FIGURE, lines=LINES, y="‖e‖²/‖e_0‖²", log_y=True),
        replace(BOXES, categories=("FRNPF(II)", "a very long category", "ReLU")),
        replace(BOXES, categories=("NPF trained, random pixels", "unbreakableword", "ReLU")),
        replace(FIGURE, lines=(PlottedLine("$x_{", LONG, LONG),), x="a $ b", y="100 % of $5"),
    ],
)
def test_no_words_overlap_and_all_are_seven_points_at_least(figure: Figure) -> None:
    with print_style(figure.name):
        assert_legible(draw(figure))


def test_axes_are_named_and_quiet(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth $d$", "share (%)")
    for axis in (axes.xaxis, axes.yaxis):
        assert same(axis.label.get_color(), "muted")
        assert axis.label.get_size() == LABEL
        assert axis.get_tick_params()["labelcolor"] == LIGHT["muted"]  # type: ignore[index]
    assert [side for side, spine in axes.spines.items() if spine.get_visible()] == ["bottom"]
    across, down = axes.yaxis.get_gridlines()[0], axes.xaxis.get_gridlines()[0]
    assert (across.get_visible(), down.get_visible()) == (True, False)
    assert axes.get_axisbelow() is True


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "ends",
    [(3000.0, 11000.0), (1.0, 2.0), (0.97, 0.99), (20.0, 95.0), (1e-9, 3e-9), (2e5, 3e5),
     (0.4, 60.0), (1e-6, 1e3), (7.0, 7.0), (8.0, 8.1)],
)  # fmt: skip
def test_each_axis_has_three_labelled_ticks_at_least(ends: tuple[float, float], log: bool) -> None:
    line = PlottedLine("", (0.0, 1.0), ends)
    found = labels(given(line, log_y=log), "y")
    assert 3 <= len(found) <= 9, found
    assert len(set(found)) == len(found), found
    turned = PlottedLine("", ends, (0.0, 1.0))
    if ends[0] < ends[1]:
        assert 3 <= len(labels(given(turned, log_x=log), "x")) <= 9


def test_ticks_are_round_and_of_one_spelling() -> None:
    nu = given(PlottedLine("", (0.0, 60.0), (3200.0, 14000.0)), log_y=True)
    assert labels(nu, "y") == ["3,000", "5,000", "10,000"]
    traces = given(PlottedLine("", (0.0, 60.0), (9e3, 2e6)), log_y=True)
    assert labels(traces, "y") == ["$10^{4}$", "$10^{5}$", "$10^{6}$"]
    widths = given(PlottedLine("", (16.0, 64.0, 256.0), (1.0, 2.0, 3.0)), log_x=True)
    assert labels(widths, "x") == ["16", "64", "256"]
    epochs = given(PlottedLine("", (1.0, 4.0), (-0.5, 1.0)))
    assert labels(epochs, "x") == ["1", "2", "3", "4"]
    assert labels(epochs, "y") == ["−0.5", "0.0", "0.5", "1.0"]


def test_an_accuracy_is_never_below_0_or_above_100() -> None:
    wide = PlottedLine("", (0.0, 1.0), (3.0, 99.5), (30.0, 20.0))
    assert given(wide, y="test accuracy (%)").get_ylim() == (0.0, 100.0)
    assert given(wide, y="loss").get_ylim()[0] < 0
    narrow = PlottedLine("", (0.0, 1.0), (96.0, 98.0))
    low, high = given(narrow, y="test accuracy (%)").get_ylim()
    assert (low, high) == pytest.approx((95.88, 98.12))


def test_values_that_are_not_negative_have_no_axis_below_zero() -> None:
    assert given(PlottedLine("", (0.0, 1.0), (0.0, 1.0))).get_ylim()[0] == 0.0
    assert given(PlottedLine("", (0.0, 1.0), (-0.1, 1.0))).get_ylim()[0] < -0.1


def test_one_wide_interval_of_a_long_curve_does_not_press_it_flat() -> None:
    spread = (80.0, *(0.5,) * 39)
    curve = PlottedLine("", tuple(map(float, range(40))), (90.0,) * 40, spread)
    low, _ = given(curve).get_ylim()
    assert 80 < low < 90
    few = PlottedLine("", (0.0, 1.0), (90.0, 90.0), (80.0, 0.5), "points")
    assert given(few).get_ylim()[0] < 10


def test_a_zero_on_a_logarithmic_axis_is_a_gap_and_no_line_leaves_the_axes() -> None:
    axes = given(PlottedLine("", (0.0, 1.0, 2.0, 3.0), (1.0, 0.0, 1e-3, 1e-2)), log_y=True)
    (line,) = axes.lines
    assert list(np.isnan(np.asarray(line.get_ydata(), dtype=float))) == [False, True, False, False]
    low, high = axes.get_ylim()
    assert 1e-4 < low < 1e-3
    assert 1.0 < high < 10


def test_each_line_has_the_style_of_what_it_is(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    a, b, c, e = (line for line in axes.lines if line.get_markersize() == 3.2)
    for line, plotted in zip((a, b, c, e), (*LINES[:3], LINES[4]), strict=True):
        assert tuple(line.get_xdata()) == plotted.x
        assert tuple(line.get_ydata()) == plotted.y
    assert [line.get_linestyle() for line in (a, b, e)] == ["-", "None", "-"]
    # Points where there are few, and none where there are more than twelve.
    assert [line.get_marker() for line in (a, b, c, e)] == ["o", "s", "D", "None"]
    colours = [SERIES[0], SERIES[1], "muted", SERIES[3]]
    for line, token in zip((a, b, c, e), colours, strict=True):
        assert same(line.get_color(), token)
        assert same(line.get_markerfacecolor(), "panel" if token == "muted" else token)
    across = next(line for line in axes.lines if list(line.get_ydata()) == [3.5, 3.5])
    assert (across.get_linewidth(), same(across.get_color(), SERIES[2])) == (0.9, True)


def dashes(*lines: PlottedLine) -> set[str]:
    """Of all lines in the file, in points: those of `formatting.DASHES` by the line's width."""
    svg = figure_bytes(replace(FIGURE, lines=lines), "svg").decode()
    return set(re.findall(r"stroke-dasharray: ([\d., ]+)", svg))


def test_lines_are_dashed_where_a_colour_comes_again_dotted_where_they_were_printed() -> None:
    plain = replace(LINES[0], label="")
    assert dashes(*[plain] * 6) == set()
    assert dashes(*[plain] * 7) == {"4,2"}
    assert dashes(replace(LINES[2], label="")) == {"1,1.5"}
    assert dashes(replace(LINES[3], label="")) == {"3.6,1.8"}  # a line across is thinner


def test_what_was_printed_beside_a_line_is_dotted_in_its_colour_and_named_once() -> None:
    ideal = tuple(
        PlottedLine(f"ideal, d = {d}", (0.0, 1.0), (0.0, d), style="printed") for d in (2.0, 4.0)
    )
    lines = (PlottedLine("d = 2.0", LONG, LONG), ideal[0], PlottedLine("d = 4.0", LONG, LONG),
             ideal[1])  # fmt: skip
    found = draw(replace(FIGURE, lines=lines))
    first, dotted, second, other = axes_of(found).lines
    assert [same(line.get_color(), SERIES[0]) for line in (first, dotted)] == [True, True]
    assert [same(line.get_color(), SERIES[1]) for line in (second, other)] == [True, True]
    assert [text.get_text() for text in found.texts] == ["$d$ = 2.0", "$d$ = 4.0", "ideal"]


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


def test_a_line_of_one_point_is_a_point_with_a_bar() -> None:
    axes = given(PlottedLine("", (1.0,), (2.0,), (0.5,)))
    (bars,) = axes.collections
    assert type(bars).__name__ == "LineCollection"
    assert axes.lines[0].get_marker() == "o"
    assert given(PlottedLine("", LONG[:12], LONG[:12])).lines[0].get_marker() == "o"
    points = PlottedLine("", LONG, LONG, style="points")
    assert given(points).lines[0].get_marker() == "o"


def ends(axes: Axes) -> dict[str, float]:
    """Heights of names above the foot of the axes, as shares."""
    return {text.get_text(): text.get_position()[1] for text in axes.texts}


def test_names_stand_at_the_ends_of_their_lines_in_their_colours(drawn: Drawn) -> None:
    axes = axes_of(drawn)
    low, high = axes.get_ylim()
    wanted = {"a": 2.0, "b": 4.0, "d": 3.5, "e": 3.0}
    heights = {name: (end - low) / (high - low) for name, end in wanted.items()}
    found = ends(axes)
    assert {name: found[name] for name in heights} == pytest.approx(heights)
    assert abs(found["c"] - found["a"]) * HEIGHT == pytest.approx(9.0), "both end at 2"
    assert all(text.get_position()[0] > 1.0 for text in axes.texts)
    for text, token in zip(axes.texts, (*SERIES[:2], "muted", *SERIES[2:4]), strict=True):
        assert same(text.get_color(), token)


def test_a_name_that_had_to_move_is_led_to_the_end_of_its_line() -> None:
    axes = given(*NEAR)
    leads = [line for line in axes.lines if line.get_gid() == "leader"]
    assert [line.get_color() for line in leads] == [text.get_color() for text in axes.texts]
    for line, text in zip(leads, axes.texts, strict=True):
        assert line.get_ydata()[1] == text.get_position()[1]  # type: ignore[index]
    apart_ = given(LINES[0], LINES[4])
    assert not any(line.get_gid() == "leader" for line in apart_.lines)


@pytest.mark.parametrize(
    "lines",
    [
        MANY,
        tuple(PlottedLine(f"d = {d}", (0.0, 1.0), (0.0, 1.0)) for d in range(8)),
        (replace(LINES[0], label="a name that is far too long for the end"),),
    ],
    ids=["many", "all end in one point", "long"],
)
def test_names_are_a_key_below_where_they_do_not_fit_at_the_ends(
    lines: tuple[PlottedLine, ...],
) -> None:
    drawn = draw(replace(FIGURE, lines=lines))
    assert not list(axes_of(drawn).texts)
    assert len(drawn.texts) == len(lines)
    assert all(text.get_position()[1] < axes_of(drawn).get_position().y0 for text in drawn.texts)


def test_the_key_shows_each_line_as_it_is_drawn() -> None:
    long = " and its long name, which needs a key"
    lines = (
        LINES[4], PlottedLine(f"own{long}", (), (3.5,)),
        PlottedLine(f"first{long}", (), (3.0,), style="printed"),
        PlottedLine(f"second{long}", (), (2.0,), style="printed"),
    )  # fmt: skip
    drawn = draw(replace(FIGURE, lines=lines))
    shown = [one for one in drawn.get_children() if isinstance(one, Line2D)]
    assert len(shown) == 4
    for one, of in zip(shown, axes_of(drawn).lines, strict=True):
        assert not one.get_clip_on(), "it lies outside of the axes"
        assert (one.get_color(), one.get_linestyle()) == (of.get_color(), of.get_linestyle())
    assert len({str(one._dash_pattern) for one in shown}) == 4  # type: ignore[attr-defined]


def test_a_single_curve_without_a_name_has_none_beside_it() -> None:
    assert list(given(replace(LINES[0], label="")).texts) == []
    (alone,) = given(LINES[0]).texts
    assert alone.get_text() == "a"


def test_a_curve_that_ends_in_nothing_is_named_at_its_last_value() -> None:
    lines = (
        PlottedLine("up", (1.0, 2.0, 3.0), (0.0, 10.0, math.nan)),
        PlottedLine("down", (1.0, 2.0), (10.0, 5.0)),
    )
    assert ends(given(*lines)) == pytest.approx({"up": 10 / 10.6, "down": 5 / 10.6})


def test_mathematics_is_set_and_a_name_of_a_user_is_not() -> None:
    drawn = draw(replace(FIGURE, lines=(PlottedLine("K^V_0", LONG, LONG),), y="‖e‖²/‖e_0‖²"))
    assert axes_of(drawn).get_ylabel() == "$‖e‖^{2}$/$‖e_{0}‖^{2}$"
    assert axes_of(drawn).texts[0].get_text() == "$K^{V}_{0}$"
    named = PlottedLine(r"my_$\frac{1}{0}$^net", LONG, LONG)
    with print_style("curve"):
        svg = figure_bytes(replace(FIGURE, lines=(named,)), "svg").decode()
    assert r"my_$\frac{1}{0}$^net" in svg


def test_models_are_boxes_with_quartiles_and_points_beside_each_other() -> None:
    drawn = draw(BOXES)
    axes = axes_of(drawn)
    assert axes.get_xlim() == (-0.5, 2.5)
    assert labels(axes, "x") == ["FR-II", "FR-DI", "ReLU"]
    assert len(axes.patches) == 2
    box = axes.patches[0].get_path().vertices  # type: ignore[attr-defined]
    quartiles = np.quantile(MODELS, (0.25, 0.75))
    assert (box[:, 1].min(), box[:, 1].max()) == pytest.approx(tuple(quartiles))
    clouds = [line for line in axes.lines if line.get_marker() in ("o", "s", "D", "^")]
    x, one, network, printed = (np.asarray(line.get_xdata()) for line in clouds)
    assert sorted(clouds[0].get_ydata()) == sorted(MODELS)
    for place in range(2):
        left, right = x[np.round(x) == place], one[np.round(one) == place]
        assert (len(left), len(right)) == (24, 24)
        assert left.max() < right.min(), "the inputs stand beside each other"
    assert network == pytest.approx([2.0] * 3, abs=0.12)
    assert len(set(network)) == 3, "points of one place are told apart"
    assert all(at + 0.36 < mark < at + 0.5 for at, mark in zip((0.0, 2.0), printed, strict=True))
    assert same(clouds[3].get_color(), "muted")
    # The key has the names of the points; the box is said in the caption.
    assert [t.get_text() for t in drawn.texts] == [
        "$x^{v} = x$", "$x^{v} = 1$", "one network", "printed",
    ]  # fmt: skip


def test_measured_and_printed_stand_beside_each_other() -> None:
    lines = (
        PlottedLine("measured", (0.0, 1.0), (1.0, 2.0), (0.1, math.nan), "points"),
        PlottedLine("printed", (0.0,), (1.5,), (0.2,), "printed"),
    )
    axes = axes_of(draw(replace(BOXES, lines=lines, categories=("A", "B"))))
    measured, printed = (line for line in axes.lines if line.get_marker() in ("o", "s"))
    first, second = measured.get_xdata()
    assert (first, second) == pytest.approx((-0.14, 1.0)), "alone it stands in the middle"
    assert list(printed.get_xdata()) == pytest.approx([0.14])
    bars = [c for c in axes.collections if type(c).__name__ == "LineCollection"]
    assert len(bars) == 2


def test_what_stands_alone_over_categories_needs_no_key() -> None:
    alone = PlottedLine("measured", (0.0, 1.0), (1.0, 2.0), style="points")
    assert not draw(replace(BOXES, lines=(alone,))).texts
    assert len(draw(replace(BOXES, lines=(alone, replace(alone, style="printed")))).texts) == 2


def test_an_image_is_grey_over_the_width_of_a_page() -> None:
    grey = ((0.0, 0.5, 1.0, math.nan), (1.0, 0.25, 0.0, 0.5))
    found = draw(replace(FIGURE, lines=(), image=grey))
    axes = axes_of(found)
    assert found.get_figwidth() * 72 == pytest.approx(WIDE)
    (image,) = axes.images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), grey)  # type: ignore[arg-type]
    assert (image.get_cmap().name, image.get_clim()) == ("gray", (0, 1))
    assert image.get_interpolation() == "nearest"
    assert (list(axes.get_xticks()), list(axes.get_yticks())) == ([], [])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth $d$", "share (%)")
    assert not found.texts
    assert_legible(found)


@pytest.mark.parametrize("figure", [FIGURE, BOXES], ids=["lines", "boxes"])
@pytest.mark.parametrize("kind", ["pdf", "svg"])
def test_the_same_numbers_make_the_same_file_with_the_title_and_no_date(
    kind: str, figure: Figure
) -> None:
    first = figure_bytes(figure, kind)
    assert first == figure_bytes(figure, kind)
    assert figure.title.encode() in first
    assert b"CreationDate" not in first
    assert b"<dc:date>" not in first
    assert figure_bytes(replace(figure, name="other"), "svg") != figure_bytes(figure, "svg")


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
    assert 'viewBox="0 0 234 ' in head
    assert "<metadata>" not in svg
    assert 'id="curve-axes_1"' in svg
    ids = {part.split('"', 1)[0] for part in svg.split(' id="')[1:]}
    assert all(name.startswith("curve-") for name in ids)
    assert "url(#curve-" in svg
    assert all(part.startswith("curve-") for part in svg.split('href="#')[1:])
    for token in ("muted", "line", *SERIES[:2]):
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
