"""Every panel draws every kind of reading, purely."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.elements import Empty, Matrix, Scene
from dgn_engine.scene.panel_spec import View, all_panels
from tests.plugins import each

PANELS = all_panels()
KINDS = ("hard", "soft", "conv", "nan", "constant")
MakeView = Callable[..., View]


@pytest.mark.discovery
def test_panels_stand_in_two_columns_the_gates_on_the_left() -> None:
    places = {name: (spec.area, spec.order) for name, spec in PANELS.items()}
    ours = {
        "gate_maps": ("left", 0),
        "overlap": ("left", 1),
        "agreement": ("left", 2),
        "spectrum": ("right", 0),
        "ntk": ("right", 1),
        "training": ("right", 2),
    }
    assert [name for name in places if name in ours] == list(ours)  # as in the menu
    assert {name: places[name] for name in ours} == ours
    assert [name for name in ours if PANELS[name].prompt] == ["gate_maps"]
    assert [name for name in ours if PANELS[name].compares] == ["agreement"]


@pytest.mark.discovery
def test_no_two_panels_have_one_place() -> None:
    places = [(spec.area, spec.order) for spec in PANELS.values()]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(("panel", "kind"), each(itertools.product(PANELS, KINDS)))
def test_a_panel_draws_every_kind_of_reading(panel: str, kind: str, make_view: MakeView) -> None:
    scene = PANELS[panel].draw(make_view(kind))
    assert isinstance(scene, Scene)
    assert scene.charts
    assert scene.step > 0
    keys = [chart.key for chart in scene.charts]
    assert len(set(keys)) == len(keys)
    for chart in scene.charts:
        for curve in chart.curves:
            assert curve.x.shape == curve.y.shape
            placed = np.isfinite(curve.x.astype(float))
            ends = np.isnan(curve.y.astype(float)) if curve.segments else False
            assert (placed | ends).all()
        if chart.matrix is not None:
            assert chart.matrix.values.ndim == 2
            assert chart.matrix.low < chart.matrix.high


@pytest.mark.parametrize("panel", each(PANELS))
def test_without_a_reading_a_panel_says_what_will_appear(panel: str, make_view: MakeView) -> None:
    for view in (View(), make_view("first")):
        shown = PANELS[panel].draw(view)
        assert isinstance(shown, Empty)
        assert shown.reason.endswith(".")


@pytest.mark.parametrize("panel", each(name for name, spec in PANELS.items() if spec.probes))
def test_an_absent_reading_passes_its_sentence_on(panel: str, make_view: MakeView) -> None:
    shown = PANELS[panel].draw(make_view("absent"))
    assert shown == Empty("There is no feature network in ReLU; choose DL.")


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_choice_of_every_option_can_be_drawn(panel: str, make_view: MakeView) -> None:
    spec = PANELS[panel]
    for kind in ("soft", "conv"):
        view = make_view(kind)
        for option in spec.options:
            for value, label in option.values(view):
                assert label
                chosen = replace(view, choices={option.id: value})
                assert isinstance(spec.draw(chosen), Scene)


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_choice_that_no_longer_exists_falls_back(panel: str, make_view: MakeView) -> None:
    spec = PANELS[panel]
    choices = {option.id: "999" for option in spec.options}
    assert isinstance(spec.draw(replace(make_view("conv"), choices=choices)), Scene)


@pytest.mark.parametrize("panel", each(PANELS))
def test_many_examples_are_drawn(panel: str, make_view: MakeView) -> None:
    assert isinstance(PANELS[panel].draw(make_view("soft", n=700)), Scene)


@pytest.mark.parametrize("panel", each(PANELS))
def test_drawing_leaves_readings_untouched_and_gives_the_same_twice(
    panel: str, make_view: MakeView
) -> None:
    view = make_view("soft")
    before = {k: v.copy() for r in view.readings.values() for k, v in r.arrays.items()}
    first, second = PANELS[panel].draw(view), PANELS[panel].draw(view)
    assert isinstance(first, Scene)
    assert isinstance(second, Scene)
    after = {k: v for r in view.readings.values() for k, v in r.arrays.items()}
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])
    for one, other in zip(first.charts, second.charts, strict=True):
        if one.matrix is not None and other.matrix is not None:
            np.testing.assert_array_equal(one.matrix.values, other.matrix.values)


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_panel_explains_itself(panel: str) -> None:
    about = PANELS[panel].about
    assert about.text.endswith(".")
    assert about.source or not about.formulas, "a formula has a source"
    for formula in about.formulas:
        assert formula.count("$") % 2 == 0


def test_the_unit_diagonal_of_the_cross_kernel_lies_within_one(make_view: MakeView) -> None:
    """K^X = Ψ_VᵀΨ_F + Ψ_FᵀΨ_V is bounded by the diagonals of K^V + K^F."""
    random = np.random.default_rng(0)
    value, feature = random.normal(size=(2, 30, 20))
    view = make_view("soft")
    arrays = dict(view.readings["ntk"].arrays) | {
        "value": value.T @ value,
        "feature": feature.T @ feature,
        "cross": value.T @ feature + feature.T @ value,
    }
    reading = replace(view.readings["ntk"], arrays=arrays)
    scene = PANELS["ntk"].draw(replace(view, readings={"ntk": reading}))
    assert isinstance(scene, Scene)
    cross = _matrix(scene, "cross").values
    assert np.abs(cross).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(np.diagonal(_matrix(scene, "value").values), 1.0)


def test_traces_of_zero_or_below_do_not_reach_the_logarithmic_axis(make_view: MakeView) -> None:
    scene = PANELS["ntk"].draw(make_view("soft"))
    assert isinstance(scene, Scene)
    curves = {curve.name: curve for curve in scene.charts[0].curves}
    assert set(curves) == {"$K^V$", "|$K^X$|"}
    assert all((curve.y > 0).all() for curve in curves.values())


def test_gate_maps_name_the_layer_whose_gates_are_used(make_view: MakeView) -> None:
    scene = PANELS["gate_maps"].draw(make_view("hard"))
    assert isinstance(scene, Scene)
    titles = [chart.title for chart in scene.charts]
    assert titles == ["G2", "G1", "G3", "Layer 1 ← G2"]


def test_a_montage_shows_each_example_once(make_view: MakeView) -> None:
    view = make_view("conv")
    scene = PANELS["gate_maps"].draw(view)
    assert isinstance(scene, Scene)
    montage = _matrix(scene, "unit")
    maps = view.readings["gates"].arrays["unit_map"]
    assert montage.tile == (4, 4)
    np.testing.assert_array_equal(montage.values[:4, :4], maps[0])
    np.testing.assert_array_equal(montage.values[:4, 5:9], maps[1])
    assert np.isfinite(montage.values).sum() == maps.size


def test_panels_load_neither_torch_nor_qt() -> None:
    script = (
        "import sys; from dgn_engine.scene.panel_spec import all_panels; all_panels();"
        "print([m for m in ('torch', 'PySide6', 'pyqtgraph', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    )
    assert found.stdout.strip() == "[]"


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _matrix(scene: Scene, key: str) -> Matrix:
    matrix = next(chart.matrix for chart in scene.charts if chart.key == key)
    assert matrix is not None
    return matrix
