"""The panels 'Gate maps' and 'A and B' where layers differ in kind, in number and in A and B."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.engine.panels.known_readings import BOTH, CONV_VIEW, FIRST, MAPS, MEANS, SECOND, A
from tests.engine.panels.pictures import (
    LABELS,
    B,
    draw_scene,
    find_chart,
    make_layers,
    make_series,
    started_run,
    with_choices,
    with_compared,
    with_reading,
)

AGREEMENT, GATES = A.readings["agreement"], A.readings["gates"]


def matrix_of(scene: Scene, key: str) -> Matrix:
    found = find_chart(scene, key).matrix
    assert found is not None
    return found


def agreeing(**arrays: Array) -> View:
    return with_reading(BOTH, replace(AGREEMENT, arrays={**AGREEMENT.arrays, **arrays}))


@pytest.mark.parametrize(("panel", "key"), [("agreement", "difference"), ("gate_maps", "large")])
def test_a_layer_that_the_run_does_not_list_has_units(panel: str, key: str) -> None:
    view = BOTH if panel == "agreement" else A
    fewer = with_choices(
        replace(view, run=started_run((2,))), layer="1"
    )  # of the two in the reading
    for run_, label in (
        (started_run((2,)), "unit"),
        (started_run(), "unit"),
        (started_run((2,), (3, 2, 2)), "channel"),
    ):
        assert find_chart(draw_scene(panel, replace(fewer, run=run_)), key).x.label == label
    assert (
        find_chart(
            draw_scene("agreement", replace(fewer, compared=OTHER, run=None)), "difference"
        ).x.label
        == "unit"
    )
    maps = replace(CONV_VIEW, run=started_run((2, 2, 3)), choices={"layer": "1"})
    assert find_chart(draw_scene("gate_maps", maps), "large").x.label == "channel"


OTHER = BOTH.compared
assert OTHER is not None


def test_a_first_share_over_steps_is_a_point_and_without_one_there_is_no_chart_of_it() -> None:
    one = replace(BOTH, series={("agreement", "equal"): make_series([3], [0.5])})
    (curve,) = find_chart(
        draw_scene("agreement", with_choices(one, left="steps")), "over_steps"
    ).curves
    assert curve.marker
    left, _ = all_panels()["agreement"].options
    for cursor, offered in ((None, ["layers", "steps"]), (3, ["layers"])):  # looking back
        assert [value for value, _ in left.values(replace(one, cursor=cursor))] == offered
    none = draw_scene("agreement", with_choices(replace(BOTH, series={}), left="steps"))
    assert [one.key for one in none.charts] == ["by_layer", "difference"]


def test_of_a_convolution_the_share_of_differing_positions_is_shown() -> None:
    share = np.array([[0.25, 0.0], [0.5, 0.75], [1.0, 0.125], [0.0, 0.0], [0.375, 0.0]])
    scene = draw_scene(
        "agreement", replace(agreeing(difference_0=share), run=started_run((2, 4, 4), (3,)))
    )
    found = matrix_of(scene, "difference")
    np.testing.assert_array_equal(found.values, share)
    assert (found.ramp, found.low, found.high, found.column_name) == ("sequential", 0, 1, "channel")
    dense = with_choices(replace(agreeing(), run=started_run((2, 4, 4), (3,))), layer="1")
    assert find_chart(draw_scene("agreement", dense), "difference").x.label == "unit"


def test_a_layer_of_another_shape_is_left_out_and_said() -> None:
    arrays = {name: one for name, one in AGREEMENT.arrays.items() if name != "difference_0"}
    arrays |= {"equal": np.array([np.nan, 0.4]), "chance": np.array([np.nan, 0.3])}
    scene = draw_scene("agreement", with_reading(BOTH, replace(AGREEMENT, arrays=arrays)))
    assert find_chart(scene, "by_layer").y.limits == (27.0, 102.0)  # 3 below the least
    assert find_chart(scene, "difference").title.startswith("Layer 2")
    deeper = replace(BOTH, compared=ComparedRun("other.pt", "ReLU", make_layers((2,), (3,), (4,))))
    whole = draw_scene("agreement", BOTH).note
    for note in (scene.note, draw_scene("agreement", deeper).note):
        assert note.startswith(whole)
        assert note != whole


@pytest.mark.parametrize(
    ("count", "ticks"),
    [(8, [1, 2, 3, 4, 5, 6, 7, 8]), (9, [1, 3, 5, 7, 9]), (17, [1, 4, 7, 10, 13, 16])],
)
def test_of_many_layers_some_have_a_tick(count: int, ticks: list[int]) -> None:
    view = agreeing(equal=np.full(count, 0.9), chance=np.full(count, 0.5))
    axis = find_chart(draw_scene("agreement", view), "by_layer").x
    assert axis.ticks == tuple((float(tick), str(tick)) for tick in ticks)
    assert axis.limits == (0.5, count + 0.5)


@pytest.mark.parametrize(("top", "high"), [(1.0, 1.0), (1.02, 1.05), (1.1, 1.1), (0.4, 1.0)])
def test_soft_gates_reach_as_far_as_the_next_twentieth(top: float, high: float) -> None:
    soft = np.full((5, 2), 0.25, dtype=np.float32)
    soft[3, 1] = top
    reading = replace(GATES, arrays={**GATES.arrays, "layer_0": soft})
    large = matrix_of(draw_scene("gate_maps", with_reading(A, reading)), "large")
    assert (large.high, large.bar) == (pytest.approx(high), "gate value")


def with_layers(count: int) -> Scene:
    maps = {f"layer_{layer}": FIRST for layer in range(count)}
    reading = Reading("gates", 6, arrays={"labels": LABELS, **maps})
    return draw_scene(
        "gate_maps", View(run=started_run(*[(2,)] * count), readings={"gates": reading})
    )


def test_nine_layers_have_two_rows_of_overviews_and_one_has_none() -> None:
    places = [(one.row, one.column, one.column_span) for one in with_layers(9).charts]
    assert places == [*((0, c, 1) for c in range(5)), *((1, c, 1) for c in range(4)), (2, 0, 5)]
    assert [one.row for one in with_layers(8).charts] == [0] * 8 + [1]
    (alone,) = with_layers(1).charts
    assert (alone.key, alone.row, alone.column_span) == ("large", 0, 1)
    assert with_layers(1).facts == ()  # nobody has counted them


def test_the_maps_of_a_channel_share_the_width_with_the_means() -> None:
    for count, spans in ((1, (1, 1)), (4, (2, 2)), (5, (2, 3))):
        maps = {f"layer_{layer}": MEANS for layer in range(count)}
        reading = Reading("gates", 6, arrays={"labels": LABELS, **maps, "unit_map": 2 * MAPS})
        view = View(run=started_run(*[(2, 2, 3)] * count), readings={"gates": reading})
        scene = draw_scene("gate_maps", with_choices(view, unit="1"))
        large, unit = find_chart(scene, "large"), find_chart(scene, "unit")
        assert (large.column_span, unit.column, unit.column_span) == (spans[0], *spans)
        assert unit.title == "Channel 1"  # the reading does not say which
        assert matrix_of(scene, "unit").high == 58 / 32


def other(**arrays: Array) -> ComparedRun:
    found = Reading("gates", 6, arrays={"labels": LABELS, **arrays})
    return ComparedRun("other.pt", "DL", make_layers((2,), (3,)), (0, 1), 3, {"gates": found})


def test_a_convolution_is_beside_that_of_b_and_both_share_their_colours() -> None:
    compared = replace(
        other(layer_0=2 * MEANS, unit_map=3 * MAPS),
        layers=make_layers((2, 2, 3), (3,)),
        wiring=(1, 0),
    )
    scene = draw_scene("gate_maps", with_compared(CONV_VIEW, compared))
    assert [(one.key, one.title, one.row, one.column) for one in scene.charts] == [
        ("large_0", "A, layer 1 ← G2", 0, 0),
        ("large_1", "B, layer 1 ← G2 · other.pt", 0, 1),
        ("large_difference", "A − B", 0, 2),
        ("unit_0", "A, channel 1", 0, 3),
        ("unit_1", "B, channel 0 · other.pt", 0, 4),
    ]
    assert all(one.column_span == 1 for one in scene.charts)
    assert [one.pick for one in scene.charts] == ["unit", "unit", "unit", "", ""]
    assert [one.narrow for one in scene.charts] == [
        (0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)
    ]  # fmt: skip
    highs = [one.matrix.high for one in scene.charts if one.matrix is not None]
    assert highs == pytest.approx([1.8, 1.8, 0.9, 87 / 32, 87 / 32])
    assert [matrix_of(scene, key).of_compared for key in ("unit_0", "unit_1")] == [False, True]


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        (other(layer_0=FIRST), f"{B} "),
        (ComparedRun("other.pt", layers=make_layers((2,))), f"{B}: "),
        (ComparedRun("other.pt"), ""),  # no network: only its scores
        (
            ComparedRun("other.pt", readings={"gates": Reading("gates", 1, absent="None.")}),
            f"{B}: None.",
        ),
        (other(layer_1=SECOND), ""),
    ],
)
def test_a_layer_that_b_lacks_is_shown_alone_and_said(compared: ComparedRun, said: str) -> None:
    scene = draw_scene("gate_maps", with_choices(with_compared(A, compared), layer="1"))
    hatched = draw_scene("gate_maps", with_choices(A, layer="1")).note
    assert hatched  # there is a dead unit
    assert scene.note.startswith(f"{hatched} {said}".rstrip())
    assert (scene.note == hatched) == (not said)
    alone = "layer_1" not in compared.readings.get("gates", Reading("gates", 1)).arrays
    assert ("overview_0" in {one.key for one in scene.charts}) == alone


def test_the_header_names_layers_by_the_gates_that_they_use() -> None:
    wired = replace(BOTH, wiring=(1, 0))
    for panel in ("gate_maps", "agreement"):
        layer = next(one for one in all_panels()[panel].options if one.id == "layer")
        assert layer.values(wired) == (("0", "layer 1 ← G2"), ("1", "layer 2 ← G1"))
