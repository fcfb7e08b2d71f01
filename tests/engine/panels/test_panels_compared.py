"""A panel with another network beside the run: both are drawn, in the same scales."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.compared import b_name
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.plugins import each

PANELS = all_panels()
MakeView = Callable[..., View]
Compare = Callable[[View], View]


@pytest.mark.parametrize(
    ("panel", "kind"), each(itertools.product(PANELS, ("hard", "soft", "conv", "nan", "constant")))
)
def test_a_panel_draws_every_kind_of_reading_beside_another_network(
    panel: str, kind: str, make_view: MakeView, compared: Compare
) -> None:
    spec, view = PANELS[panel], compared(make_view(kind))
    for option in spec.options:
        for value, _ in option.values(view):
            scene = spec.draw(replace(view, choices={option.id: value}))
            assert isinstance(scene, Scene)
            keys = [chart.key for chart in scene.charts]
            assert len(set(keys)) == len(keys)
            places = [(chart.row, chart.column) for chart in scene.charts]
            assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("panel", "choices"),
    [
        ("gate_maps", {}),
        ("overlap", {"scale": "contrast"}),
        ("overlap", {"kind": "sensitive"}),
        ("spectrum", {"show": "kernel"}),
        ("ntk", {"scale": "raw"}),
    ],
)
def test_matrices_of_both_have_one_scale(
    panel: str, choices: dict[str, str], make_view: MakeView, compared: Compare
) -> None:
    view = replace(compared(make_view("soft")), choices=choices)
    scene = PANELS[panel].draw(view)
    assert isinstance(scene, Scene)
    matrices = [chart.matrix for chart in scene.charts if chart.matrix is not None]
    assert len(matrices) == (2 if panel == "gate_maps" else 3)
    first, second = matrices[:2]
    for third in matrices[2:]:
        slow = np.array(first.values, np.float64) - np.array(second.values, np.float64)
        np.testing.assert_array_equal(third.values, slow)
        assert (third.name, third.ramp, third.low) == ("A - B", "diverging", -third.high)
    assert (first.low, first.high, first.ramp) == (second.low, second.high, second.ramp)
    assert not np.array_equal(first.values, second.values)
    titles = [chart.title for chart in scene.charts if chart.matrix is not None]
    assert titles[0].startswith("A")
    assert titles[1].startswith("B · other.safetensors")


def test_curves_of_both_stand_in_one_chart_and_differ_by_colour_and_dash(
    make_view: MakeView, compared: Compare
) -> None:
    view = compared(make_view("hard"))
    for panel, names in (("spectrum", {"A", "B"}), ("training", {"test", "B test"})):
        scene = PANELS[panel].draw(view)
        assert isinstance(scene, Scene)
        curves = {curve.name: curve for curve in scene.charts[0].curves}
        ours, theirs = (curves[name] for name in sorted(names, key=lambda n: n.startswith("B")))
        assert ours.role != theirs.role
        assert ours.dash != theirs.dash


def test_the_eigenvalues_of_both_are_inside_the_axes(
    make_view: MakeView, compared: Compare
) -> None:
    view = compared(make_view("hard"))
    assert view.compared is not None
    reading = view.compared.readings["npk"]
    larger = {**reading.arrays, "eigenvalues": 50 * reading.arrays["eigenvalues"]}
    readings = {**view.compared.readings, "npk": replace(reading, arrays=larger)}
    scene = PANELS["spectrum"].draw(
        replace(view, compared=replace(view.compared, readings=readings))
    )
    assert isinstance(scene, Scene)
    limits = scene.charts[0].y.limits
    assert limits is not None
    assert limits[1] > larger["eigenvalues"][0]


def test_a_layer_that_the_other_network_lacks_is_shown_alone_and_said(
    make_view: MakeView, compared: Compare
) -> None:
    view = compared(make_view("hard"))
    assert view.compared is not None
    reading = view.compared.readings["gates"]
    arrays = {name: a for name, a in reading.arrays.items() if not name.endswith("_2")}
    readings = {**view.compared.readings, "gates": replace(reading, arrays=arrays)}
    compared = replace(view.compared, readings=readings)
    scene = PANELS["gate_maps"].draw(replace(view, compared=compared, choices={"layer": "2"}))
    assert isinstance(scene, Scene)
    assert "B · other.safetensors has no layer 3." in scene.note


def test_a_long_name_is_cut_and_never_read_as_a_formula() -> None:
    assert b_name(ComparedRun("a$b$c.pt")) == "B · a_b_c.pt"
    assert len(b_name(ComparedRun("x" * 200))) < 32


@pytest.mark.parametrize(("ours", "theirs"), [(20, 8), (8, 20)])
@pytest.mark.parametrize(
    ("panel", "choices"),
    [("overlap", {}), ("spectrum", {"show": "kernel"}), ("ntk", {}), ("ntk", {"scale": "raw"})],
)
def test_each_matrix_has_the_examples_that_it_was_read_on(
    panel: str, choices: dict[str, str], ours: int, theirs: int, make_view: MakeView
) -> None:
    view, other = make_view("soft", n=ours), make_view("soft", n=theirs)
    assert view.compared is not None
    view = replace(view, compared=replace(view.compared, readings=other.readings), choices=choices)
    scene = PANELS[panel].draw(view)
    assert isinstance(scene, Scene)
    charts = [chart for chart in scene.charts if chart.matrix is not None]
    for chart, n in zip(charts, (ours, theirs), strict=True):
        assert chart.matrix is not None
        assert chart.matrix.values.shape == (n, n)
        assert chart.x.limits == (-0.5, n - 0.5)
        labels = np.sort(np.arange(n) % 10)
        tags = tuple(f"example {i}, class {label}" for i, label in enumerate(labels))
        assert chart.matrix.row_labels == chart.matrix.column_labels == tags


def test_sizes_of_kernels_of_different_numbers_of_examples_are_not_drawn_together(
    make_view: MakeView,
) -> None:
    view, other = make_view("soft", n=8), make_view("soft", n=20)
    assert view.compared is not None
    scenes = {
        n: PANELS["ntk"].draw(replace(view, compared=replace(view.compared, readings=readings)))
        for n, readings in ((8, make_view("soft", n=8).readings), (20, other.readings))
    }
    names = {}
    for n, scene in scenes.items():
        assert isinstance(scene, Scene)
        names[n] = {curve.name for curve in scene.charts[0].curves}
    assert "B $K^V$" in names[8]
    assert not any(name.startswith("B") for name in names[20])
    assert "read on another number of examples" in scenes[20].note  # type: ignore[union-attr]


@pytest.mark.parametrize(("ours", "theirs"), [(20, 8), (8, 20)])
def test_all_eigenvalues_of_both_are_shown(ours: int, theirs: int, make_view: MakeView) -> None:
    view, other = make_view("hard", n=ours), make_view("hard", n=theirs)
    assert view.compared is not None
    view = replace(view, compared=replace(view.compared, readings=other.readings))
    scene = PANELS["spectrum"].draw(view)
    assert isinstance(scene, Scene)
    for chart in scene.charts:
        assert chart.x.limits == (0.5, 20.5)
