"""How the pictures of known readings look, what the cursor reads there, and what is exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Chart
from dgn_engine.scene.panel_spec import View, all_panels
from tests.engine.panels.known_readings import BOTH, CONV_VIEW, MAPS, MEANS, WIRED, A
from tests.engine.panels.pictures import (
    TAGS,
    csv_rows,
    describe_scene,
    draw_empty,
    draw_scene,
    exported_arrays,
    find_chart,
    read_points,
    started_run,
    with_choices,
)
from tests.plugins import own
from tests.snapshots import Recorded

COMPARING = ("gate_maps", "overlap", "agreement", "spectrum", "ntk", "training", "kernel_theory")
VIEWS = {
    **{panel: A for panel in own(all_panels()) if panel != "agreement"},
    "gate_maps wired": WIRED,
    "gate_maps layer 2": with_choices(A, layer="1"),
    "overlap layer 2": with_choices(A, part="1", scale="unit"),
    "spectrum kernel": with_choices(A, show="kernel"),
    "spectrum alignment": with_choices(A, show="alignment"),
    "ntk raw": with_choices(A, scale="raw", measure="norm"),
    "training log": with_choices(A, scale="log"),
    "paths largest": with_choices(A, graph="largest"),
    **{f"{panel} A and B": BOTH for panel in (*COMPARING, "layer_kernels", "gate_statistics")},
    "agreement layer 2": with_choices(BOTH, left="steps", layer="1"),
    "overlap sensitive A and B": with_choices(BOTH, kind="sensitive"),
    "spectrum kernel A and B": with_choices(BOTH, show="kernel"),
    "spectrum alignment A and B": with_choices(BOTH, show="alignment"),
    "ntk raw A and B": with_choices(BOTH, scale="raw", measure="norm"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_looks_as_recorded(name: str, recorded: Recorded) -> None:
    scene = draw_scene(name.partition(" ")[0], VIEWS[name])
    recorded(describe_scene(scene))
    assert len({one.narrow for one in scene.charts if one.narrow}) == sum(
        one.narrow is not None for one in scene.charts
    )


def corners(one: Chart) -> tuple[tuple[float, float], ...]:
    """Two places inside a chart, one between its points, and two outside."""
    if one.matrix is not None:
        rows, columns = one.matrix.values.shape
        inside = ((0.4, rows - 1.4), (columns - 1.0, 0.0))
        return (*inside, (-0.6, 0.0), (0.0, rows - 0.4))
    x = one.curves[-1].x
    return (float(x[0]), 0.0), (float(x[-1]) - 0.9, 9.0), (-50.0, 0.0), (1000.0, 0.0)


READ = ["training A and B", "ntk", "spectrum kernel", "overlap", "agreement A and B", "gate_maps"]


@pytest.mark.parametrize("name", [*READ, "gate_statistics A and B", "layer_kernels"])
def test_the_cursor_reads_and_the_export_names_what_is_there(name: str, recorded: Recorded) -> None:
    scene = draw_scene(name.partition(" ")[0], VIEWS[name])
    found = {one.key: read_points(one, *corners(one)) for one in scene.charts if not one.small}
    recorded([found, {one.key: csv_rows(one)[:2] for one in scene.charts}, exported_arrays(scene)])


@pytest.mark.parametrize("panel", own(all_panels()))
def test_the_header_offers_what_there_is_to_choose(panel: str, recorded: Recorded) -> None:
    options = all_panels()[panel].options
    recorded(
        {f"{one.id} {one.label}": [one.values(v) for v in (View(), A, BOTH)] for one in options}
    )


def test_a_convolution_has_means_over_positions_and_the_maps_of_one_channel(
    recorded: Recorded,
) -> None:
    scene = draw_scene("gate_maps", CONV_VIEW)
    recorded([describe_scene(scene), exported_arrays(scene)])
    montage = find_chart(scene, "unit").matrix
    assert montage is not None
    np.testing.assert_array_equal(montage.values[:2, :3], MAPS[0])
    np.testing.assert_array_equal(montage.values[:2, 4:], MAPS[1])
    np.testing.assert_array_equal(montage.values[6:, :3], MAPS[4])
    assert np.isfinite(montage.values).sum() == MAPS.size
    shown = find_chart(scene, "large").matrix
    assert shown is not None
    np.testing.assert_array_equal(shown.values, MEANS)
    # The dense layer of the same network has no channels to pick.
    second = draw_scene("gate_maps", with_choices(CONV_VIEW, layer="1")).charts
    assert [one.key for one in second] == ["overview_0", "overview_1", "large"]
    channels = all_panels()["gate_maps"].options[1]
    assert [value for value, _ in channels.values(CONV_VIEW)] == ["0", "1"]
    assert channels.values(with_choices(CONV_VIEW, layer="1")) == ()


def test_the_cursor_names_the_position_in_the_map_of_an_example() -> None:
    unit = find_chart(draw_scene("gate_maps", CONV_VIEW), "unit")
    points = ((0.0, 0.0), (4.0, 1.0), (6.0, 4.0), (3.0, 0.0), (0.0, 2.0), (2.0, 7.0), (4.0, 6.0))
    assert read_points(unit, *points) == [
        (TAGS[0], "row 0, column 0: 0"),
        (TAGS[1], "row 1, column 0: 0.2812"),  # 9/32, four figures
        (TAGS[3], "row 1, column 2: 0.7188"),  # 23/32
        (),  # between two maps
        (),
        (TAGS[4], "row 1, column 2: 0.9062"),  # 29/32
        (),  # there is no sixth example
    ]


def absent(panel: str) -> View:
    probes = all_panels()[panel].probes
    found = {probe: Reading(probe, 1, absent="Too dear.") for probe in probes}
    return replace(BOTH, readings=found)


@pytest.mark.parametrize("panel", [name for name in own(all_panels()) if all_panels()[name].probes])
def test_a_panel_says_why_it_shows_nothing(panel: str) -> None:
    assert draw_empty(panel, replace(BOTH, readings={})).kind == "no-reading"
    assert draw_empty(panel, absent(panel)).reason == "Too dear."
    assert draw_empty(panel, absent(panel)).kind == "absent"


BARE = {probe: Reading(probe, 1, arrays={"labels": np.arange(5)}) for probe in A.readings}


@pytest.mark.parametrize(
    ("panel", "view", "kind"),
    [
        ("agreement", A, "not-compared"),
        ("agreement", replace(A, compared=replace(BOTH.compared, layers=())), "no-network"),  # type: ignore[type-var]
        ("agreement", replace(BOTH, readings=BARE), "no-reading"),
        ("gate_maps", replace(A, readings=BARE), "no-gates"),
        ("overlap", replace(A, readings=BARE), "no-layer"),
        ("training", replace(A, series={}), "no-reading"),
        ("training", replace(A, run=replace(started_run((2,)), inspected="x.pt")), "not-trained"),
    ],
)
def test_a_panel_without_a_picture_tells_its_reasons_apart(
    panel: str, view: View, kind: str
) -> None:
    assert draw_empty(panel, view).kind == kind
