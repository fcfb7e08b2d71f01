"""Figures at their final size: no word below 6 pt, none over another, none beyond the edge."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import COLUMN, TEXT, FigureStyle, curve_names
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.figures.set_text import (
    escape_dollars,
    math_error,
    shorten_text,
    width_of,
    wrap_text,
)
from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Scene
from dgn_engine.scene.panel_spec import View, all_panels
from tests.daily import nightly
from tests.engine.figures.figure_panels import page, panel
from tests.plugins import each
from tests.refusals import refused

PANELS = all_panels()
MakeView = Callable[..., View]

KINDS = ("hard", "soft", "conv", "nan")


def words(figure: Figure) -> list[Text]:
    """Every text that is drawn."""
    left_out = {id(label) for axes in figure.axes for label in _labels_of_no_tick(axes)}
    return [
        one
        for one in figure.findobj(Text)
        if one.get_visible() and one.get_text().strip() and id(one) not in left_out
    ]


def _labels_of_no_tick(axes: Axes) -> Iterator[Text]:
    """Those of ticks outside the range, which matplotlib keeps and does not draw."""
    for axis in (axes.xaxis, axes.yaxis):
        drawn = set(axis._update_ticks())  # type: ignore[attr-defined]
        for tick in axis.majorTicks:
            if tick not in drawn:
                yield from (tick.label1, tick.label2)


def collisions(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of words whose letters meet, and words that leave the page with an edge as partner."""
    with print_style():
        boxes = [(one.get_text(), one.get_window_extent()) for one in words(figure)]
    whole = figure.bbox
    found = [
        (text, "the edge")
        for text, box in boxes
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > whole.x1 + 0.5 or box.y1 > whole.y1 + 0.5
    ]
    x0, y0, x1, y1 = np.array([box.extents for _, box in boxes]).T
    wide = np.minimum.outer(x1, x1) - np.maximum.outer(x0, x0) > 1.0
    high = np.minimum.outer(y1, y1) - np.maximum.outer(y0, y0) > 1.5
    for one, other in np.argwhere(np.triu(wide & high, 1)):
        found.append((boxes[one][0], boxes[other][0]))
    return found


@pytest.mark.wide(8)  # all panels: the page below
@pytest.mark.parametrize("width", [COLUMN, TEXT])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", each(PANELS))
def test_no_word_of_a_panel_meets_another(
    name: str, kind: str, width: float, make_view: MakeView
) -> None:
    figure = page([panel(name, make_view(kind, n=40))], FigureStyle(width))
    assert collisions(figure) == []
    assert min(text.get_fontsize() for text in words(figure)) >= 6.0


@pytest.mark.parametrize("width", [COLUMN, *nightly(TEXT)])
@pytest.mark.discovery
def test_no_word_of_a_page_meets_another(width: float, make_view: MakeView) -> None:
    panels = [panel(name, make_view("soft", n=40)) for name in PANELS]
    figure = page(panels, FigureStyle(width, letters=True))
    assert collisions(figure) == []
    said = [text.get_text() for text in words(figure)]
    assert [one for one in said if re.match(r"\([a-z]\) ", one)][: len(PANELS)] == [
        f"({letter}) {spec.title}"
        for letter, spec in zip(string.ascii_lowercase, PANELS.values(), strict=False)
    ]


def test_a_figure_is_as_wide_and_as_high_as_was_asked(make_view: MakeView) -> None:
    shown = panel("training", make_view("hard"))
    figure = page([shown], FigureStyle(COLUMN))
    assert figure.get_figwidth() == pytest.approx(COLUMN)
    low = page([shown], FigureStyle(4.0, 2.5))
    assert low.get_size_inches().tolist() == [4.0, 2.5]
    assert collisions(low) == []


def test_words_are_of_the_size_that_was_asked_and_smaller_ones_not_below_six(
    make_view: MakeView,
) -> None:
    shown = panel("training", make_view("soft"))
    for style, sizes in (
        (FigureStyle(COLUMN), {8.0, 7.0}),
        (FigureStyle(TEXT), {9.0, 8.0}),
        (FigureStyle(TEXT, font=6.0), {6.0}),
        (FigureStyle(TEXT, font=10.0), {10.0, 9.0}),
    ):
        assert {text.get_fontsize() for text in words(page([shown], style))} == sizes


def test_a_size_without_room_for_the_charts_is_refused_by_name(make_view: MakeView) -> None:
    shown = panel("training", make_view("hard"))
    with refused("no-room", value="Loss") as refusal:
        page([shown], FigureStyle(COLUMN, 0.8))
    assert str(refusal.error).startswith("A figure of 3.25 × 0.8 in ")
    with refused("no-room"):
        page([panel("overlap", make_view("hard"))], FigureStyle(1.5, font=24.0))


@pytest.mark.parametrize(
    ("style", "shown"),
    [
        ({"width": 0.2}, "0.2 in"),
        ({"width": float("nan")}, "nan in"),
        ({"height": 90.0}, "90 in"),
        ({"font": 4.0}, "4 pt"),
        ({"dpi": 7}, "7 dpi"),
        ({"across": 9}, "9 panels"),
    ],
)
def test_a_style_that_makes_no_figure_is_refused(style: dict[str, float], shown: str) -> None:
    with refused("out-of-bounds") as refusal:
        FigureStyle(**style)  # type: ignore[arg-type]  # one of its fields
    assert repr(refusal.error.value) == repr(*style.values())
    assert shown in str(refusal.error)


def test_curves_are_called_as_the_legend_says(make_view: MakeView) -> None:
    shown = panel("training", make_view("hard"))
    assert curve_names([shown.scene]) == ("train", "test")
    style = FigureStyle(COLUMN, legend=(("train", r"$L_{\mathrm{train}}$"), ("test", "")))
    said = {text.get_text() for text in words(page([shown], style))}
    assert r"$L_{\mathrm{train}}$" in said
    assert not {"train", "test"} & said


def test_a_name_that_is_no_formula_is_refused_with_its_curve(make_view: MakeView) -> None:
    style = FigureStyle(COLUMN, legend=(("train", "$K^{$"),))
    with refused("no-formula", value="$K^{$") as refusal:
        page([panel("training", make_view("hard"))], style)
    assert " train " in str(refusal.error)


def test_long_names_stand_in_a_key_above_the_chart() -> None:
    steps = np.arange(20.0)
    names = ("A long name of a curve, seed 0", "Another name of this kind")
    curves = tuple(Curve(name, steps, steps * place) for place, name in enumerate(names, 1))
    scene = Scene((Chart("one", "Loss", Axis("step"), Axis(), curves),))
    figure = page([FigurePanel("p", scene, Provenance("P"))], FigureStyle(COLUMN))
    assert collisions(figure) == []
    axes = figure.axes[0].get_position()
    assert axes.width > 0.7, "the names do not take the room of the curves"
    above = [text for text in words(figure) if text.get_text() in names]
    assert len(above) == 2
    assert all(text.get_position()[1] > axes.y1 for text in above)


def test_a_key_that_is_wider_than_its_narrow_chart_stays_on_the_page() -> None:
    """Two charts in a column, as in Predicted errors: the right one ends at the page's edge."""
    steps, ends = np.arange(11.0), np.array([-1.1e-5, 1.2e-5])
    slow = 2.3e-6 + 1e-9 * steps
    losses = (Curve("measured", steps, slow), Curve("predicted", steps, slow))
    changes = (Curve("as predicted", ends, ends), Curve("measured", ends, ends[::-1]))
    reach = Axis("predicted", limits=(-1.1e-5, 1.2e-5))
    charts = (
        Chart("losses", "A title of this length", Axis("virtual step"), Axis(), losses),
        Chart("changes", "Another title of such a length", reach, reach, changes, column=1),
    )
    figure = page([FigurePanel("p", Scene(charts), Provenance("P"))], FigureStyle(COLUMN))
    assert collisions(figure) == []


def test_letters_name_the_charts_of_one_panel(make_view: MakeView) -> None:
    figure = page([panel("training", make_view("hard"))], FigureStyle(TEXT, letters=True))
    said = {text.get_text() for text in words(figure)}
    assert {"(a) Loss", "(b) Accuracy, %"} <= said


def test_a_figure_without_caption_is_lower_by_it(make_view: MakeView) -> None:
    shown = panel("training", make_view("hard"))
    bare = page([shown], FigureStyle(TEXT, caption=False))
    assert bare.get_figheight() < page([shown], FigureStyle(TEXT)).get_figheight()
    assert not [text for text in words(bare) if "seed" in text.get_text()]


def test_lines_end_at_spaces_outside_formulas() -> None:
    with print_style():
        text = "one word and another and $Θ^f and so on$ and then one more of them"
        lines = wrap_text(text, 8.0, 120.0)
        assert " ".join(lines) == text
        assert len(lines) > 1
        assert all(line.count("$") % 2 == 0 for line in lines)
        assert all(width_of(line, 8.0) <= 120.0 for line in lines)
        assert wrap_text("", 8.0, 50.0) == []


def test_what_is_too_wide_is_cut_in_its_middle() -> None:
    with print_style():
        cut = shorten_text("Labrador retriever", 8.0, 50.0)
        assert width_of(cut, 8.0) <= 50.0
    assert (cut[0], cut[-1], "…" in cut) == ("L", "r", True)


def test_dollars_that_are_no_formula_are_letters() -> None:
    with print_style():
        assert escape_dollars("$K^V$") == "$K^V$"
        assert escape_dollars("5 $ a piece") == "5 $ a piece"
        assert escape_dollars("$^{$ and more") == r"\$^{\$ and more"
        assert math_error("plain") == ""


def test_a_figure_names_events_below_the_axis_and_names_never_overprint() -> None:
    marks = tuple(Mark(20.0 * n, f"lr {0.001 / n:.3g}", "dial") for n in range(1, 31))
    axis = Axis("step", limits=(0.0, 640.0), epoch=64)
    steps = np.arange(640)
    charts = tuple(
        Chart(
            key, key, axis, Axis(), curves=(Curve("a", steps, np.sin(steps)),), marks=marks, row=row
        )
        for row, key in enumerate(("above", "below"))
    )
    with print_style():
        figure = draw_page(
            [FigurePanel("training", Scene(charts), Provenance("Training"))], FigureStyle()
        )
        FigureCanvasAgg(figure).draw()
        names = [text for axes in figure.axes for text in axes.texts]
        events = [text for text in names if str(text.get_gid()).endswith(".event")]
        assert events
        assert {text.get_gid() for text in events} == {"below.event"}
        boxes = sorted((text.get_window_extent() for text in events), key=lambda box: box.x0)
        assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))
        ticks = [label.get_window_extent() for label in figure.axes[1].get_xticklabels()]
        ticks.append(figure.axes[1].xaxis.label.get_window_extent())
        assert not any(box.overlaps(tick) for box in boxes for tick in ticks)
