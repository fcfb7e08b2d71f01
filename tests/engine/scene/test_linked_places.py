"""What is under the cursor, by kind, and where every panel that shows it has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene, Subjects
from dgn_engine.scene.linked_places import curve_at, selection_at, selection_boxes
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.selection import NOTHING, make_selection

AXIS = Axis()


def scene(panel: str, view: View) -> dict[str, Chart]:
    shown = all_panels()[panel].draw(view)
    assert isinstance(shown, Scene)
    return {chart.key: chart for chart in shown.charts}


def with_pictures(view: View) -> View:
    assert view.run is not None
    known = view.run.probe_set
    return replace(view, pictures=ProbeExamples(known, missing="none here"))


def test_a_gate_under_the_cursor_is_an_example_a_layer_and_a_unit(
    make_view: Callable[..., View],
) -> None:
    view = replace(with_pictures(make_view("hard")), choices={"layer": "1"})
    large = scene("gate_maps", view)["large"]
    assert selection_at(large, 5.2, 2.9) == make_selection(example=3, layer=1, unit=5)
    assert selection_at(large, 12.4, 3) == selection_at(large, 5, 20) == NOTHING  # beyond it


# Of layer 2 (from 1) and its unit 5: which charts of which panels show them, and how many places.
@pytest.mark.parametrize(
    ("panel", "choices", "places"),
    [
        ("gate_maps", {}, {"overview_0": 0, "overview_1": 1, "overview_2": 0, "large": 0}),
        ("gate_maps", {"layer": "1"}, {"overview_1": 1, "large": 1}),
        ("gate_statistics", {}, {"by_layer": 1, "by_class": 1, "over_steps": 0}),
        ("layer_kernels", {}, {"overview_1": 1, "tau_0": 0, "product": 0, "along": 1}),
        ("updates", {}, {"gradient": 1, "update": 1, "over_steps": 0}),
        ("drift", {}, {"switched": 1}),
        ("hidden_outputs", {}, {"units_as_is": 1, "units_reversed": 1, "units_ones": 1}),
        ("paths", {"graph": "weights"}, {"units": 1, "graph": 1}),
        ("paths", {"graph": "largest"}, {"largest": 1}),
        ("agreement", {"layer": "1"}, {"by_layer": 1, "difference": 1}),
        ("overlap", {}, {"active": 0}),
    ],
)
def test_a_layer_and_its_unit_are_lit_where_a_panel_shows_them(
    make_view: Callable[..., View], panel: str, choices: dict[str, str], places: dict[str, int]
) -> None:
    charts = scene(panel, replace(make_view("hard"), choices=choices))
    unit, layer = make_selection(layer=1, unit=5), make_selection(layer=1)
    assert {key: len(selection_boxes(charts[key], unit)) for key in places} == places
    for key, count in places.items():
        small = charts[key].small
        for box in selection_boxes(charts[key], unit) if count and not small else ():
            x, y = (
                (a + b) / 2 if math.isfinite(a + b) else 0.0
                for a, b in ((box[0], box[2]), (box[1], box[3]))
            )
            assert selection_at(charts[key], x, y).ids_of_kind("layer") == (
                1,
            )  # hovering leads back
        assert len(selection_boxes(charts[key], layer)) <= count
    lit = [curve.layer for chart in charts.values() for curve in chart.curves]
    assert panel not in ("gate_statistics", "updates") or {0, 1, 2} <= set(lit)


def test_a_unit_is_no_unit_of_another_layer_and_a_chart_of_no_layer_has_none() -> None:
    units = Axis(subjects=Subjects("unit", range(4)))
    rows = Axis(subjects=Subjects("layer", (0, 2)))
    table = Matrix("m", np.zeros((2, 4)), "sequential", 0, 1)
    grid = Chart("c", "", units, rows, matrix=table)
    assert selection_boxes(grid, make_selection(layer=2, unit=3)) == ((2.5, 0.5, 3.5, 1.5),)
    assert selection_boxes(grid, make_selection(layer=2, unit=9)) == (
        (-0.5, 0.5, 3.5, 1.5),
    )  # a narrower layer
    assert selection_boxes(grid, make_selection(layer=1, unit=3)) == ()
    assert selection_boxes(grid, make_selection(layer=0)) == ((-0.5, -0.5, 3.5, 0.5),)
    assert selection_at(grid, 3, 1) == make_selection(layer=2, unit=3)
    of_one = replace(grid, y=AXIS, matrix=replace(table, layer=2))
    assert selection_boxes(of_one, make_selection(layer=2, unit=3)) == ((2.5, -0.5, 3.5, 1.5),)
    assert selection_boxes(of_one, make_selection(layer=1, unit=3)) == ()
    unknown = replace(of_one, matrix=table)
    assert selection_boxes(unknown, make_selection(layer=2, unit=3)) == ()
    assert selection_at(unknown, 3, 1) == NOTHING


def test_tiles_of_maps_are_channels_of_layers() -> None:
    across = Axis(subjects=Subjects("layer", (0, 1), 1.0 + 4.0, 4.0, 3.0))  # one tile before them
    along = Axis(subjects=Subjects("unit", (7, 8), 1.0 + 4.0, 4.0, 3.0))
    tiles = Matrix("t", np.zeros((11, 11)), "diverging", -1, 1, tile=(3, 3))
    chart = Chart("c", "", across, along, matrix=tiles)
    assert selection_boxes(chart, make_selection(layer=1, unit=7)) == ((7.5, 3.5, 10.5, 6.5),)
    assert selection_boxes(chart, make_selection(layer=1)) == ((7.5, -0.5, 10.5, 10.5),)
    assert selection_at(chart, 8, 4) == make_selection(layer=1, unit=7)
    assert selection_at(chart, 8, 7) == make_selection(layer=1)  # between two tiles
    assert selection_at(chart, 1, 5) == NOTHING  # the input


def test_what_is_pinned_goes_before_what_is_under_the_cursor() -> None:
    pinned, under = make_selection(layer=1), make_selection(layer=2, unit=3, example=5)
    assert pinned.merged_over(under) == make_selection(
        layer=1, example=5
    )  # unit 3 is one of layer 2
    assert pinned.merged_over(make_selection(layer=1, unit=3)) == make_selection(layer=1, unit=3)
    assert NOTHING.merged_over(under) == under
    assert make_selection(layer=None, example=()) == NOTHING


def test_of_curves_the_nearest_is_under_the_cursor() -> None:
    x = np.arange(4.0)
    curves = (Curve("", x, x, layer=0), Curve("", x, x + 3, layer=1), Curve("other", x, x + 2.9))
    chart = Chart("c", "", AXIS, AXIS, curves=curves)

    def at(place: float) -> object:
        return curve_at(chart, 1.2, place, lambda y: 10 * y, 8.0)

    assert at(43.0) == make_selection(layer=1)
    assert at(11.0) == make_selection(layer=0)
    assert at(25.0) == NOTHING


def test_what_is_outlined_of_examples_is_rows_entries_and_tiles() -> None:
    def found(matrix: Matrix | None, *examples: int) -> list[tuple[float, ...]]:
        chart = Chart("c", "", AXIS, AXIS, matrix=matrix)
        return [
            (a + 0.5, b + 0.5, c - a, d - b)
            for a, b, c, d in selection_boxes(chart, make_selection(example=examples))
        ]

    square = Matrix(
        "m", np.zeros((3, 3)), "sequential", 0, 1, row_examples=(0, 2, 4), column_examples=(0, 2, 4)
    )
    assert found(square, 0, 4) == [(2, 0, 1, 1), (0, 2, 1, 1)]
    assert found(square, 2) == [(0, 1, 3, 1), (1, 0, 1, 3)]
    assert found(square, 0, 1) == []  # one of them was not read
    rows = replace(square, column_examples=())
    assert found(rows, 0, 4) == [(0, 0, 3, 1), (0, 2, 3, 1)]
    tiles = Matrix("t", np.zeros((5, 5)), "gates", 0, 1, tile=(2, 2), row_examples=(0, 1, 2, 3))
    assert found(tiles, 1, 2) == [(3, 0, 2, 2), (0, 3, 2, 2)]
    assert found(None, 1) == found(square) == []
