"""What panels about changes over steps show of a network that does not train."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from dgn_engine.views.drawn_panel import draw_panel
from tests.engine.panels import known_readings as known
from tests.engine.panels.pictures import draw_scene, make_series, started_run

FACTS = {"half_spaces": "moved", "path_norms": "v moved", "region_dynamics": "$K$ moved"}
CHOICES = ("steps", "measure", "motion")  # of what is drawn over steps


def view_of(panel: str, **facts: str) -> View:
    """Return a view with one reading, at step 4, in which nothing has moved."""
    probes = all_panels()[panel].probes
    every = {one.probe: one for one in known.READINGS if one.probe in probes}
    readings = {
        name: replace(
            one,
            step=4,
            arrays={key: array for key, array in one.arrays.items() if key != "cuts"},
            facts={**one.facts, **facts},
        )
        for name, one in every.items()
    }
    series = {
        (name, scalar): make_series([4, 4], [value, value])
        for name, one in readings.items()
        for scalar, value in one.scalars.items()
    }
    return View(run=started_run((2,), (3,)), step=4, readings=readings, series=series)


def fact_names(scene: Scene) -> list[str]:
    return [fact.name for fact in scene.facts]


@pytest.mark.parametrize("panel", FACTS)
def test_a_single_reading_has_no_change_since_the_first(panel: str) -> None:
    view = view_of(panel, readings="0")
    assert FACTS[panel] not in fact_names(draw_scene(panel, view))
    later = {key: make_series([2, 4], [0.0, 1.0]) for key in view.series}
    readings = {
        name: replace(one, facts={**one.facts, "readings": "1"})
        for name, one in view.readings.items()
    }
    trained = draw_scene(panel, replace(view, series=later, readings=readings))
    assert FACTS[panel] in fact_names(trained)


@pytest.mark.parametrize("panel", FACTS)
def test_an_opened_file_has_no_chart_of_changes(panel: str) -> None:
    view = view_of(panel, readings="0")
    assert view.run is not None
    of_run = draw_scene(panel, view)
    fixed = replace(view, run=replace(view.run, inspected="net.pt"))
    of_file = draw_scene(panel, fixed)
    assert len(of_file.charts) == len(of_run.charts) - 1
    assert "reading of K" not in of_file.note
    options = [one for one in all_panels()[panel].options if one.id in CHOICES]
    assert [one.values(fixed) for one in options] == [()]


def test_beside_a_file_without_earlier_steps_there_is_no_empty_chart() -> None:
    view = view_of("path_norms")
    theirs = {"path_norms": replace(view.readings["path_norms"], step=7)}
    compared = ComparedRun("net.pt", "ReLU", step=7, readings=theirs)
    scene = draw_panel(all_panels()["path_norms"], replace(view, compared=compared))
    assert isinstance(scene, Scene)
    charts = {chart.key: chart for chart in scene.charts}
    assert all(chart.curves for chart in scene.charts)
    assert charts["over_steps"].title.startswith("A, ")
    assert {curve.name for curve in charts["by_logit"].curves} == {"A Σ|v|", "B Σ|v|"}


def test_of_a_compared_file_there_is_no_note_on_shape_and_scale() -> None:
    view = view_of("alignment")
    note = draw_scene("alignment", view).note
    assert draw_scene("alignment", replace(view, series={})).note == ""
    assert note.startswith("Shape and scale")


def test_images_of_units_have_no_difference_and_the_reason_is_no_shape() -> None:
    planes = np.arange(14, dtype=np.float32).reshape(2, 7)
    arrays = {"planes_0": planes, "units_0": np.arange(2), "image": np.array([1, 2, 3])}
    reading = Reading("half_spaces", 4, arrays={"labels": np.array([0, 1]), **arrays})
    compared = ComparedRun("net.pt", step=4, readings={"half_spaces": reading})
    view = View(run=started_run((2,)), readings={"half_spaces": reading}, compared=compared, step=4)
    scene = draw_panel(all_panels()["half_spaces"], view)
    assert isinstance(scene, Scene)
    assert [chart.key for chart in scene.charts if chart.matrix] == ["images_0", "images_1"]
    assert "No A − B" in scene.note
    assert "×" not in scene.note
