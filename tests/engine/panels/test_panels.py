"""What holds for the picture of every panel, also of one that is added later: readings of every
kind, alone and beside another network."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.figures.export_values import save_numbers
from dgn_engine.figures.provenance import make_provenance
from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.elements import Chart, Empty, Scene
from dgn_engine.scene.panel_spec import PanelSpec, View, all_panels
from dgn_engine.scene.readout import describe_point
from tests.plugins import each

PANELS = all_panels()
KINDS = ("hard", "soft", "conv", "nan", "constant")
# The number of an equation, theorem, table or figure, or in words the part of the paper.
_PLACE = re.compile(
    r"§\d|equation \(\d|(Lemma|Theorem|Figure|Table|Definition|Proposition) \d|arXiv:[\d.]+: \w"
)
MakeView = Callable[..., View]
Compare = Callable[[View], View]


def shown(panel: str, view: View) -> Scene:
    found = PANELS[panel].draw(view)
    assert isinstance(found, Scene)
    return found


@pytest.mark.discovery
def test_panels_stand_in_two_columns_the_gates_on_the_left() -> None:
    places = {name: (spec.area, spec.order) for name, spec in PANELS.items()}
    ours = ["gate_maps", "overlap", "agreement", "spectrum", "ntk", "training"]
    assert [name for name in places if name in ours] == ours  # as in the menu
    assert [places[name] for name in ours] == [(a, n) for a in ("left", "right") for n in range(3)]
    assert [name for name in ours if PANELS[name].prompt] == ["gate_maps"]
    assert [name for name in ours if PANELS[name].compares] == ["agreement"]
    assert len(set(places.values())) == len(places)


def choices(spec: PanelSpec, view: View) -> Iterator[dict[str, str]]:
    """Each value of each option at least once."""
    offered = [option.values(view) or (("", ""),) for option in spec.options]
    for place in range(max(map(len, offered), default=1)):
        yield {
            option.id: values[place % len(values)][0]
            for option, values in zip(spec.options, offered, strict=True)
        }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("panel", each(PANELS))
def test_the_picture_of_every_choice_can_be_read(
    panel: str, kind: str, make_view: MakeView, compared: Compare
) -> None:
    spec = PANELS[panel]
    for view in (make_view(kind), compared(make_view(kind))):
        assert all(label for option in spec.options for _, label in option.values(view))
        for one in choices(spec, view):
            scene = shown(panel, replace(view, choices=one))
            assert scene.step > 0
            assert scene.charts
            assert_in_its_own_place(scene)
            for chart in scene.charts:
                assert_said(chart)
                assert_within_finite_ranges(chart)
                assert chart.click is None or chart.click[0] in {o.id for o in spec.options}
                assert not chart.pick or chart.pick in {o.id for o in spec.options}


def assert_in_its_own_place(scene: Scene) -> None:
    """In a wide and in a narrow room."""
    assert len({chart.key for chart in scene.charts}) == len(scene.charts)
    wide = [(c.row, c.column, c.row_span, c.column_span) for c in scene.charts]
    narrow = [chart.narrow or place for chart, place in zip(scene.charts, wide, strict=True)]
    for places in (wide, narrow):
        cells = [
            (row + down, column + across)
            for row, column, rows, columns in places
            for down in range(rows)
            for across in range(columns)
        ]
        assert len(set(cells)) == len(cells)


def assert_said(chart: Chart) -> None:
    assert chart.title.strip(), chart.key
    assert chart.title.count("$") % 2 == 0
    bare = chart.x.ticks == () and chart.y.ticks == ()  # a montage: its place says nothing
    assert chart.x.label or bare, chart.key
    assert all(curve.name or len(chart.curves) == 1 for curve in chart.curves), chart.key
    if chart.matrix is not None and not bare:
        assert chart.matrix.row_name not in ("", "row")
        assert chart.matrix.column_name not in ("", "column")


def assert_within_finite_ranges(chart: Chart) -> None:
    for curve in chart.curves:
        assert curve.x.shape == curve.y.shape
        ends = np.isnan(curve.y.astype(float)) if curve.segments else False
        assert (np.isfinite(curve.x.astype(float)) | ends).all()
    for (low, high), axis in zip(chart_range(chart), (chart.x, chart.y), strict=True):
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert low < high, chart.key
        assert low > 0 or not axis.log, chart.key
        places = (*(tick for tick, _ in axis.ticks or ()), *axis.lines)
        assert all(low <= place <= high for place in places), chart.key
    if (matrix := chart.matrix) is not None:
        assert matrix.values.ndim == 2
        assert math.isfinite(matrix.low)
        assert math.isfinite(matrix.high)
        assert matrix.low < matrix.high
        assert matrix.ramp != "diverging" or matrix.low == -matrix.high


@pytest.mark.parametrize("panel", each(PANELS))
def test_without_a_reading_a_panel_says_what_will_appear(panel: str, make_view: MakeView) -> None:
    for view in (View(), make_view("first")):
        found = PANELS[panel].draw(view)
        assert isinstance(found, Empty)
        assert found.reason.endswith(".")
    if PANELS[panel].probes:
        absent = PANELS[panel].draw(make_view("absent"))
        assert isinstance(absent, Empty)
        assert absent.reason == make_view("absent").readings["gates"].absent


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_choice_that_no_longer_exists_falls_back(panel: str, make_view: MakeView) -> None:
    gone = {option.id: "999" for option in PANELS[panel].options}
    shown(panel, replace(make_view("conv"), choices=gone))


@pytest.mark.parametrize("panel", each(PANELS))
def test_drawing_leaves_readings_untouched_and_gives_the_same_twice(
    panel: str, make_view: MakeView, compared: Compare
) -> None:
    view = compared(make_view("soft", n=300))
    before = {k: v.copy() for r in view.readings.values() for k, v in r.arrays.items()}
    first, second = shown(panel, view), shown(panel, view)
    after = {k: v for r in view.readings.values() for k, v in r.arrays.items()}
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])
    for one, other in zip(first.charts, second.charts, strict=True):
        if one.matrix is not None and other.matrix is not None:
            np.testing.assert_array_equal(one.matrix.values, other.matrix.values)


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_panel_explains_what_it_shows_and_how_that_is_computed(panel: str) -> None:
    about = PANELS[panel].about
    assert about.text.endswith(".")
    assert about.computed.endswith(".")
    assert all(trial.label and trial.watch.endswith(".") for trial in about.trials)
    assert all(formula.count("$") % 2 == 0 for formula in about.formulas)
    assert about.formulas
    assert about.trials
    assert about.source.startswith("Our definition") or _PLACE.search(about.source)


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_mark_lies_on_the_axis_of_steps(panel: str, make_view: MakeView) -> None:
    view = make_view("soft")
    for chart in shown(panel, view).charts:
        assert chart.marks == (view.marks if chart.x.label == "step" else ())
        low, high = chart_range(chart)[0]
        assert all(low <= mark.x <= high for mark in chart.marks)


@pytest.mark.parametrize("panel", each(PANELS))
def test_the_cursor_says_something_wherever_there_is_a_value(
    panel: str, make_view: MakeView
) -> None:
    for kind in ("soft", "conv"):
        for chart in shown(panel, make_view(kind)).charts:
            if chart.matrix is not None:
                rows, columns = chart.matrix.values.shape
                places = [(0.0, 0.0), (0.0, rows - 1.0), (columns - 1.0, 0.0)]
                places = [
                    (x, y) for x, y in places if np.isfinite(chart.matrix.values[int(y), int(x)])
                ]
            else:
                places = [(float(curve.x[0]), 0.0) for curve in chart.curves]
            for x, y in places:
                assert len(describe_point(chart, x, y)) >= 2, chart.key
                assert all(describe_point(chart, x, y)), chart.key


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_scene_can_be_exported_as_tables_with_headings(
    panel: str, make_view: MakeView, compared: Compare, tmp_path: Path
) -> None:
    for view in (make_view("conv"), compared(make_view("soft"))):
        scene = shown(panel, view)
        context = make_provenance(view, PANELS[panel], scene)
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


# Beside another network.


def of_other_examples(view: View, other: View) -> View:
    assert view.compared is not None
    return replace(view, compared=replace(view.compared, readings=other.readings))


@pytest.mark.parametrize(("ours", "theirs"), [(20, 8), (8, 20)])
@pytest.mark.parametrize(
    ("panel", "options"),
    [("overlap", {}), ("spectrum", {"show": "kernel"}), ("ntk", {}), ("ntk", {"scale": "raw"})],
)
def test_each_matrix_has_the_examples_that_it_was_read_on(
    panel: str, options: dict[str, str], ours: int, theirs: int, make_view: MakeView
) -> None:
    view = of_other_examples(make_view("soft", n=ours), make_view("soft", n=theirs))
    scene = shown(panel, replace(view, choices=options))
    charts = [chart for chart in scene.charts if chart.matrix is not None]
    for chart, n in zip(charts, (ours, theirs), strict=True):
        assert chart.matrix is not None
        assert chart.matrix.values.shape == (n, n)
        assert chart.x.limits == (-0.5, n - 0.5)
        labels = np.sort(np.arange(n) % 10)
        tags = tuple(f"example {i}, class {label}" for i, label in enumerate(labels))
        assert chart.matrix.row_labels == chart.matrix.column_labels == tags
    for chart in shown("spectrum", view).charts:
        assert chart.x.limits == (0.5, 20.5)  # all eigenvalues of both


def test_sizes_of_kernels_of_different_numbers_of_examples_are_not_drawn_together(
    make_view: MakeView,
) -> None:
    for n, lines in ((8, {"B $K^V$", "B |$K^X$|"}), (20, set())):
        view = of_other_examples(make_view("soft", n=8), make_view("soft", n=n))
        names = {curve.name for curve in shown("ntk", view).charts[0].curves}
        assert bool({name for name in names if name.startswith("B")}) == bool(lines)


def test_panels_load_neither_torch_nor_qt() -> None:
    script = (
        "import sys; from dgn_engine.scene.panel_spec import all_panels; all_panels();"
        "print([m for m in ('torch', 'PySide6', 'pyqtgraph', 'matplotlib') if m in sys.modules])"
    )
    path = os.pathsep.join(one for one in sys.path if one)
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert found.stdout.strip() == "[]"
