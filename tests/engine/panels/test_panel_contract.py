"""What holds for the picture of every panel, also of one that is added later."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.figures.export_values import save_numbers
from dgn_engine.figures.provenance import context_of
from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.elements import Axis, Chart, Scene
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.readout import describe
from tests.plugins import each

PANELS = all_panels()
# The number of an equation, theorem, table or figure, or in words the part of the paper.
_PLACE = re.compile(
    r"§\d|equation \(\d|(Lemma|Theorem|Figure|Table|Definition|Proposition) \d|arXiv:[\d.]+: \w"
)
KINDS = ("hard", "soft", "conv", "nan", "constant")
MakeView = Callable[..., View]
Compare = Callable[[View], View]


@pytest.fixture
def scenes(make_view: MakeView, compared: Compare) -> Callable[[str], Iterator[Scene]]:
    """Every scene of a panel: each kind of reading, each choice, with B and without."""

    def every(panel: str) -> Iterator[Scene]:
        spec = PANELS[panel]
        for kind, both in itertools.product(KINDS, (False, True)):
            view = compared(make_view(kind)) if both else make_view(kind)
            offered = [option.values(view) or (("", ""),) for option in spec.options]
            most = max(map(len, offered), default=1)
            for place in range(most):  # each value of each option at least once
                chosen = {
                    option.id: values[place % len(values)][0]
                    for option, values in zip(spec.options, offered, strict=True)
                }
                shown = spec.draw(replace(view, choices=chosen))
                assert isinstance(shown, Scene)
                yield shown

    return every


def charts(scene: Scene) -> Iterator[Chart]:
    assert scene.charts
    yield from scene.charts


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_panel_says_what_it_shows_and_how_that_is_computed(panel: str) -> None:
    about = PANELS[panel].about
    assert about.text.endswith(".")
    assert about.computed.endswith(".")
    assert all(trial.label and trial.watch.endswith(".") for trial in about.trials)
    assert about.formulas
    assert about.trials
    assert about.source.startswith("Our definition") or _PLACE.search(about.source)


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_chart_has_a_title_and_says_what_its_axes_are(
    panel: str, scenes: Callable[[str], Iterator[Scene]]
) -> None:
    for scene in scenes(panel):
        for chart in charts(scene):
            assert chart.title.strip(), chart.key
            assert chart.title.count("$") % 2 == 0
            bare = chart.x.ticks == () and chart.y.ticks == ()  # a montage: its place says nothing
            assert chart.x.label or bare, chart.key
            for curve in chart.curves:
                assert curve.name or len(chart.curves) == 1, chart.key
            if chart.matrix is not None and not bare:
                assert chart.matrix.row_name not in ("", "row")
                assert chart.matrix.column_name not in ("", "column")


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_range_is_finite_and_ascends(
    panel: str, scenes: Callable[[str], Iterator[Scene]]
) -> None:
    for scene in scenes(panel):
        for chart in charts(scene):
            for (low, high), axis in zip(chart_range(chart), (chart.x, chart.y), strict=True):
                assert math.isfinite(low)
                assert math.isfinite(high)
                assert low < high, chart.key
                assert low > 0 or not axis.log, chart.key
                _check_axis(axis, (low, high))
            if chart.matrix is not None:
                matrix = chart.matrix
                assert math.isfinite(matrix.low)
                assert math.isfinite(matrix.high)
                assert matrix.low < matrix.high
                assert matrix.ramp != "diverging" or matrix.low == -matrix.high


def _check_axis(axis: Axis, reach: tuple[float, float]) -> None:
    for place in (*(tick for tick, _ in axis.ticks or ()), *axis.lines):
        assert reach[0] <= place <= reach[1]


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_mark_lies_on_the_axis_of_steps(panel: str, make_view: MakeView) -> None:
    scene = PANELS[panel].draw(make_view("soft"))
    assert isinstance(scene, Scene)
    for chart in charts(scene):
        if chart.x.label == "step":
            assert [mark.label for mark in chart.marks] == ["DL → FR-II", "π 2 1 3", "FR-II → FL"]
            low, high = chart_range(chart)[0]
            assert all(low <= mark.x <= high for mark in chart.marks)
        else:
            assert chart.marks == ()


@pytest.mark.parametrize("panel", each(PANELS))
def test_the_cursor_says_something_wherever_there_is_a_value(
    panel: str, make_view: MakeView
) -> None:
    for kind in ("soft", "conv"):
        scene = PANELS[panel].draw(make_view(kind))
        assert isinstance(scene, Scene)
        for chart in charts(scene):
            if chart.matrix is not None:
                rows, columns = chart.matrix.values.shape
                places = [(0, 0), (0, rows - 1), (columns - 1, 0)]
                finite = [(x, y) for x, y in places if np.isfinite(chart.matrix.values[y, x])]
            else:
                finite = [(float(curve.x[0]), 0.0) for curve in chart.curves]
            for x, y in finite:
                assert len(describe(chart, x, y)) >= 2, chart.key
                assert all(describe(chart, x, y)), chart.key


@pytest.mark.parametrize("panel", each(PANELS))
def test_what_can_be_clicked_is_an_option_of_the_panel(
    panel: str, scenes: Callable[[str], Iterator[Scene]]
) -> None:
    options = {option.id for option in PANELS[panel].options}
    for scene in scenes(panel):
        for chart in charts(scene):
            assert chart.click is None or chart.click[0] in options
            assert not chart.pick or chart.pick in options


@pytest.mark.parametrize("panel", each(PANELS))
def test_no_two_charts_share_a_place_in_a_wide_or_a_narrow_room(
    panel: str, scenes: Callable[[str], Iterator[Scene]]
) -> None:
    for scene in scenes(panel):
        wide = [(c.row, c.column, c.row_span, c.column_span) for c in charts(scene)]
        narrow = [chart.narrow or place for chart, place in zip(scene.charts, wide, strict=True)]
        for places in (wide, narrow):
            cells = [
                (row + down, column + across)
                for row, column, rows, columns in places
                for down in range(rows)
                for across in range(columns)
            ]
            assert len(set(cells)) == len(cells)


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_scene_can_be_exported_as_tables_with_headings(
    panel: str, make_view: MakeView, compared: Compare, tmp_path: Path
) -> None:
    for view in (make_view("conv"), compared(make_view("soft"))):
        scene = PANELS[panel].draw(view)
        assert isinstance(scene, Scene)
        context = context_of(view, PANELS[panel], scene)
        files = save_numbers(scene, tmp_path / "a.csv", context)
        assert len(files) == len(scene.charts)
        for file in files:
            rows = list(csv.reader(io.StringIO(file.read_text("utf-8"))))
            assert all(rows[0])
            assert len(set(rows[0])) == len(rows[0])
            assert {len(row) for row in rows} == {len(rows[0])}
            assert all(row[0] for row in rows)
            assert not any("$" in heading for heading in rows[0])
        (archive,) = save_numbers(scene, tmp_path / "a.npz", context)
        with np.load(archive, allow_pickle=False) as found:
            assert all(found[f"{chart.key}.axes"].tolist() for chart in scene.charts)
