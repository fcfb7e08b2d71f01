"""The picture of the panel 'A and B', worked out by hand from a small reading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Mark, Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.engine.panels.pictures import (
    BY_CLASS,
    EPOCH,
    LABELS,
    TAGS,
    B,
    assert_same,
    chart,
    chosen,
    drawn,
    exported,
    layers,
    readouts,
    reason,
    run,
    series,
    table,
    with_reading,
)

SECOND = np.array([[0, 1, -1], [0, 0, 0], [1, 0, 0], [-1, -1, 0], [0, 0, 1]], dtype=np.int8)
READING = Reading(
    "agreement",
    6,
    arrays={
        "labels": LABELS,
        "equal": np.array([0.9, 0.6]),
        "chance": np.array([0.5, 0.55]),
        "difference_0": np.array([[1, 0], [0, 0], [0, -1], [0, 0], [0, 0]], dtype=np.int8),
        "difference_1": SECOND,
    },
    scalars={"equal": 0.72, "equal_0": 0.8, "equal_1": 0.64},
)
MARKS = (Mark(3.0, "FL"),)
VIEW = View(
    run=run((2,), (3,)),
    wiring=(1, 0),
    step=7,
    marks=MARKS,
    readings={"agreement": READING},
    series={("agreement", "equal"): series([2, 5], [0.5, 0.75])},
    compared=ComparedRun("other.pt", "ReLU", layers((2,), (3,)), (0, 1)),
)
NOTE = f"{B}. Equal: on the same side of ½ for the same example."
PLACES = np.array([1, 2])
BY_LAYER = Chart(
    key="by_layer",
    title="Equal gates, %",
    x=Axis(label="layer", limits=(0.5, 2.5), ticks=((1.0, "1"), (2.0, "2"))),
    y=Axis(limits=(45.0, 102.0)),
    curves=(
        Curve("equal", PLACES, np.array([90.0, 60.0]), "compared", thick=True, marker=True),
        Curve("by chance", PLACES, np.array([50.0, 55.0]), "muted", "dash"),
    ),
    narrow=(0, 0, 1, 1),
)


def difference(title: str, name: str, values: object) -> Chart:
    return Chart(
        key="difference",
        title=title,
        x=Axis(label="unit"),
        y=BY_CLASS,
        matrix=Matrix(
            name=name,
            values=np.asarray(values),
            ramp="diverging",
            low=-1.0,
            high=1.0,
            bar="1: open in A only",
            row_name="example",
            column_name="unit",
            row_labels=TAGS,
        ),
        column=1,
        narrow=(1, 0, 1, 1),
    )


FIRST = difference(
    "Layer 1 ← G2, A − B", "difference in layer 1 ← G2", READING.arrays["difference_0"]
)


def test_the_share_of_equal_gates_stands_by_layer_beside_the_map_of_the_first_layer() -> None:
    facts = (
        Fact("equal", "72.0 %", "Share of equal gates in all layers."),
        Fact("layer 1 ← G2", "80.0 %", "Share of equal gates."),
    )
    assert_same(drawn("agreement", VIEW), Scene((BY_LAYER, FIRST), facts, 6, NOTE))


def test_a_layer_that_the_run_does_not_list_has_units() -> None:
    fewer = chosen(replace(VIEW, run=run((2,))), layer="1")
    assert chart(drawn("agreement", fewer), "difference").x.label == "unit"
    assert chart(drawn("agreement", replace(fewer, run=None)), "difference").x.label == "unit"
    conv = chosen(replace(VIEW, run=run((2,), (3, 2, 2))), layer="1")
    assert chart(drawn("agreement", conv), "difference").x.label == "channel"


def test_another_layer_and_the_share_over_steps_can_be_chosen() -> None:
    scene = drawn("agreement", chosen(VIEW, layer="1", left="steps"))
    steps = Chart(
        key="over_steps",
        title="Equal gates, %",
        x=Axis(label="step", limits=(0.0, 5.0), epoch=EPOCH),
        y=Axis(),
        curves=(
            Curve("all layers", np.array([2, 5]), np.array([50.0, 75.0]), "compared", thick=True),
        ),
        marks=MARKS,
        narrow=(0, 0, 1, 1),
    )
    second = difference("Layer 2 ← G1, A − B", "difference in layer 2 ← G1", SECOND)
    facts = (
        Fact("equal", "72.0 %", "Share of equal gates in all layers."),
        Fact("layer 2 ← G1", "64.0 %", "Share of equal gates."),
    )
    assert_same(scene, Scene((steps, second), facts, 6, NOTE))


def test_a_first_share_over_steps_is_a_point() -> None:
    one = replace(VIEW, series={("agreement", "equal"): series([3], [0.5])})
    (curve,) = chart(drawn("agreement", chosen(one, left="steps")), "over_steps").curves
    assert curve.marker
    none = drawn("agreement", chosen(replace(VIEW, series={}), left="steps"))
    assert [one.key for one in none.charts] == ["by_layer", "difference"]


def test_of_a_convolution_the_share_of_differing_positions_is_shown() -> None:
    share = np.array([[0.25, 0.0], [0.5, 0.75], [1.0, 0.125], [0.0, 0.0], [0.375, 0.0]])
    reading = replace(READING, arrays={**READING.arrays, "difference_0": share})
    view = replace(with_reading(VIEW, reading), run=run((2, 4, 4), (3,)))
    found = chart(drawn("agreement", view), "difference")
    assert FIRST.matrix is not None
    expected = replace(
        FIRST,
        title="Layer 1 ← G2, differing",
        x=Axis(label="channel"),
        matrix=replace(
            FIRST.matrix,
            values=share,
            ramp="sequential",
            low=0.0,
            bar="share of positions",
            column_name="channel",
        ),
    )
    assert_same(found, expected)
    # The second layer is dense all the same.
    assert chart(drawn("agreement", chosen(view, layer="1")), "difference").x.label == "unit"


def test_a_layer_of_another_shape_is_left_out_and_said() -> None:
    one = {name: a for name, a in READING.arrays.items() if name != "difference_0"}
    arrays = {**one, "equal": np.array([np.nan, 0.4]), "chance": np.array([np.nan, 0.3])}
    scene = drawn("agreement", with_reading(VIEW, replace(READING, arrays=arrays)))
    assert scene.note == f"{NOTE} Layers of other shapes are left out."
    assert chart(scene, "by_layer").y.limits == (27.0, 102.0)  # 3 below the least
    assert chart(scene, "difference").title == "Layer 2 ← G1, A − B"
    deeper = ComparedRun("other.pt", "ReLU", layers((2,), (3,), (4,)))
    assert drawn("agreement", replace(VIEW, compared=deeper)).note.endswith("are left out.")


@pytest.mark.parametrize(
    ("count", "ticks"),
    [(8, [1, 2, 3, 4, 5, 6, 7, 8]), (9, [1, 3, 5, 7, 9]), (17, [1, 4, 7, 10, 13, 16])],
)
def test_of_many_layers_some_have_a_tick(count: int, ticks: list[int]) -> None:
    arrays = {**READING.arrays, "equal": np.full(count, 0.9), "chance": np.full(count, 0.5)}
    scene = drawn("agreement", with_reading(VIEW, replace(READING, arrays=arrays)))
    axis = chart(scene, "by_layer").x
    assert axis.ticks == tuple((float(tick), str(tick)) for tick in ticks)
    assert axis.limits == (0.5, count + 0.5)


def test_the_cursor_names_example_and_unit() -> None:
    scene = drawn("agreement", chosen(VIEW, layer="1"))
    points = ((0.4, 3.4), (2.0, 4.0), (1.0, 0.0), (3.0, 0.0), (0.0, 5.0))
    assert readouts(chart(scene, "difference"), *points) == [
        ("example 3, class dog", "unit 0", "−1"),
        ("example 4, class dog", "unit 2", "1"),
        ("example 0, class cat", "unit 1", "1"),
        (),
        (),
    ]
    assert readouts(chart(scene, "by_layer"), (1.9, 0.0)) == [
        ("layer 2", "equal  60", "by chance  55")
    ]


def test_the_exported_tables_name_examples_and_units() -> None:
    scene = drawn("agreement", VIEW)
    assert table(chart(scene, "difference"))[:2] == [
        ["example \\ unit", "unit 0", "unit 1"],
        ["example 0, class cat", "1", "0"],
    ]
    assert table(chart(scene, "by_layer"))[:2] == [
        ["curve", "layer", "Equal gates, %"],
        ["equal", "1", "90.0"],
    ]
    assert exported(scene) == {
        "by_layer.axes": ["layer", "Equal gates, %"],
        "by_layer.equal.x": (2,),
        "by_layer.equal.y": (2,),
        "by_layer.by chance.x": (2,),
        "by_layer.by chance.y": (2,),
        "difference.axes": ["unit", "class"],
        "difference.values": (5, 2),
        "difference.rows": list(TAGS),
        "difference.columns": ["unit 0", "unit 1"],
    }


def test_the_header_offers_the_layers_of_the_reading() -> None:
    left, layer = all_panels()["agreement"].options
    assert layer.values(VIEW) == (("0", "layer 1 ← G2"), ("1", "layer 2 ← G1"))
    assert layer.values(View()) == ()
    assert left.values(VIEW) == (("layers", "by layer"), ("steps", "over steps"))


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (
            replace(VIEW, compared=None),
            "Drop a checkpoint or a recorded run on 'Compare' to see it beside the run, or look "
            "back at a step and choose View, Look back, Compare with this step.",
        ),
        (
            replace(VIEW, compared=ComparedRun("other.pt")),
            "B · other.pt has no network here: only its scores are compared.",
        ),
        (
            replace(VIEW, readings={}),
            "The share of equal gates of A and B, with the next reading.",
        ),
        (
            with_reading(VIEW, Reading("agreement", 1, absent="It has no gates.")),
            "It has no gates.",
        ),
        (
            with_reading(VIEW, Reading("agreement", 1)),
            "The share of equal gates of A and B, with the next frame.",
        ),
    ],
)
def test_without_a_picture_the_panel_says_why(view: View, why: str) -> None:
    assert reason("agreement", view) == why
