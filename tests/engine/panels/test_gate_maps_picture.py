"""The picture of the panel 'Gate maps', worked out by hand from small readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Axis, Chart, Fact, Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.engine.panels.pictures import (
    BY_CLASS,
    LABELS,
    TAGS,
    B,
    assert_same,
    beside,
    chart,
    chosen,
    drawn,
    exported,
    layers,
    readouts,
    reason,
    run,
    table,
    with_reading,
)

FIRST = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1]], dtype=np.uint8)
SECOND = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.uint8)
READING = Reading(
    "gates",
    6,
    arrays={
        "labels": LABELS,
        "layer_0": FIRST,
        "layer_1": SECOND,
        "dead_0": np.array([], dtype=np.int64),
        "dead_1": np.array([2]),
    },
    scalars={"active_0": 0.6, "active_1": 0.333, "churn": 0.0125},
)
VIEW = View(run=run((2,), (3,)), wiring=(1, 0), step=7, readings={"gates": READING})
HARD = Matrix(
    name="gates of layer 1 ← G2",
    values=FIRST,
    ramp="gates",
    low=0.0,
    high=1.0,
    bar="0 closed, 1 open",
    row_name="example",
    column_name="unit",
    row_labels=TAGS,
)
HARD_2 = replace(HARD, name="gates of layer 2 ← G1", values=SECOND, dead_columns=(2,))
CHURN = Fact("churn", "1.25 %", "Share of gates that switched since the last probe.")
OPEN = Fact("open", "60.0 %", "Mean gate of the layer over probe examples.")
HATCHED = "Hatched: closed for every probe example."


def overview(layer: int, title: str, matrix: Matrix, row: int, column: int, on: bool) -> Chart:
    return Chart(
        key=f"overview_{layer}",
        title=title,
        x=Axis(label="unit"),
        y=Axis(label="example"),
        matrix=matrix,
        row=row,
        column=column,
        small=True,
        chosen=on,
        click=("layer", str(layer)),
    )


LARGE = Chart(
    key="large",
    title="Layer 1 ← G2",
    x=Axis(label="unit"),
    y=BY_CLASS,
    matrix=HARD,
    row=1,
    column_span=2,
)


def test_hard_gates_of_the_first_layer_stand_below_the_overviews() -> None:
    charts = (overview(0, "G2", HARD, 0, 0, True), overview(1, "G1", HARD_2, 0, 1, False), LARGE)
    assert_same(drawn("gate_maps", VIEW), Scene(charts, (OPEN, CHURN), 6, ""))


def test_a_chosen_layer_is_outlined_and_its_dead_units_are_counted() -> None:
    charts = (
        overview(0, "G2", HARD, 0, 0, False),
        overview(1, "G1", HARD_2, 0, 1, True),
        replace(LARGE, title="Layer 2 ← G1", matrix=HARD_2),
    )
    facts = (
        replace(OPEN, value="33.3 %"),
        Fact("dead", "1", "Units closed for every probe example."),
        CHURN,
    )
    assert_same(drawn("gate_maps", chosen(VIEW, layer="1")), Scene(charts, facts, 6, HATCHED))


@pytest.mark.parametrize(("top", "high"), [(1.0, 1.0), (1.02, 1.05), (1.1, 1.1), (0.4, 1.0)])
def test_soft_gates_reach_as_far_as_the_next_twentieth(top: float, high: float) -> None:
    soft = np.full((5, 2), 0.25, dtype=np.float32)
    soft[3, 1] = top
    reading = replace(READING, arrays={**READING.arrays, "layer_0": soft})
    large = chart(drawn("gate_maps", with_reading(VIEW, reading)), "large")
    assert_same(large.matrix, replace(HARD, values=soft, high=high, bar="gate value"))


def test_nine_layers_have_two_rows_of_overviews_and_one_has_none() -> None:
    def with_layers(count: int) -> Scene:
        maps = {f"layer_{layer}": FIRST for layer in range(count)}
        reading = Reading("gates", 6, arrays={"labels": LABELS, **maps})
        view = View(run=run(*[(2,)] * count), readings={"gates": reading})
        return drawn("gate_maps", view)

    places = [(one.key, one.row, one.column, one.column_span) for one in with_layers(9).charts]
    assert places == [
        ("overview_0", 0, 0, 1),
        ("overview_1", 0, 1, 1),
        ("overview_2", 0, 2, 1),
        ("overview_3", 0, 3, 1),
        ("overview_4", 0, 4, 1),
        ("overview_5", 1, 0, 1),
        ("overview_6", 1, 1, 1),
        ("overview_7", 1, 2, 1),
        ("overview_8", 1, 3, 1),
        ("large", 2, 0, 5),
    ]
    assert [one.row for one in with_layers(8).charts] == [0] * 8 + [1]
    (alone,) = with_layers(1).charts
    assert (alone.key, alone.row, alone.column_span) == ("large", 0, 1)


# Two channels of 2 by 3 positions; the montage is of channel 1.
MEANS = np.array([[0.5, 0.1], [0.2, 0.3], [0.4, 0.6], [0.7, 0.8], [0.0, 0.9]], dtype=np.float32)
MAPS = np.arange(30, dtype=np.float32).reshape(5, 2, 3) / 32
NAN = np.nan
MONTAGE = np.array(
    [
        [0, 1, 2, NAN, 6, 7, 8],
        [3, 4, 5, NAN, 9, 10, 11],
        [NAN] * 7,
        [12, 13, 14, NAN, 18, 19, 20],
        [15, 16, 17, NAN, 21, 22, 23],
        [NAN] * 7,
        [24, 25, 26, NAN, NAN, NAN, NAN],
        [27, 28, 29, NAN, NAN, NAN, NAN],
    ]
)
CONV = replace(
    READING,
    arrays={
        "labels": LABELS,
        "layer_0": MEANS,
        "layer_1": SECOND,
        "unit_map": MAPS,
    },
    facts={"unit_map": "layer 0, unit 1"},
)
CONV_VIEW = replace(with_reading(VIEW, CONV), run=run((2, 2, 3), (3,)))
CONV_MATRIX = replace(HARD, values=MEANS, bar="mean gate over positions", column_name="channel")
UNIT = Chart(
    key="unit",
    title="Channel 1",
    x=Axis(ticks=()),
    y=Axis(ticks=()),
    matrix=Matrix(
        name="maps of one channel",
        values=MONTAGE / 32,
        ramp="gates",
        low=0.0,
        high=1.0,
        row_labels=TAGS,
        tile=(2, 3),
    ),
    row=1,
    column=1,
    square=True,
)


def test_a_convolution_has_means_over_positions_and_the_maps_of_one_channel() -> None:
    means = replace(LARGE, x=Axis(label="channel"), matrix=CONV_MATRIX, column_span=1, pick="unit")
    dense = replace(HARD_2, dead_columns=())
    charts = (
        overview(0, "G2", CONV_MATRIX, 0, 0, True),
        overview(1, "G1", dense, 0, 1, False),
        means,
        UNIT,
    )
    scene = drawn("gate_maps", CONV_VIEW)
    assert_same(scene, Scene(charts, (OPEN, CHURN), 6, ""))
    # The dense layer of the same network has no channels to pick.
    second = drawn("gate_maps", chosen(CONV_VIEW, layer="1")).charts
    assert [one.key for one in second] == ["overview_0", "overview_1", "large"]
    assert_same(second[2], replace(LARGE, title="Layer 2 ← G1", matrix=dense))


def test_the_maps_of_a_channel_share_the_width_with_the_means() -> None:
    for count, spans in ((1, (1, 1)), (4, (2, 2)), (5, (2, 3))):
        maps = {f"layer_{layer}": MEANS for layer in range(count)}
        reading = Reading("gates", 6, arrays={"labels": LABELS, **maps, "unit_map": 2 * MAPS})
        view = View(run=run(*[(2, 2, 3)] * count), readings={"gates": reading})
        scene = drawn("gate_maps", chosen(view, unit="1"))
        large, unit = chart(scene, "large"), chart(scene, "unit")
        assert (large.column_span, unit.column, unit.column_span) == (spans[0], *spans)
        assert unit.title == "Channel 1"  # the reading does not say which
        assert unit.matrix is not None
        assert unit.matrix.high == 58 / 32


def test_the_header_offers_layers_and_the_channels_of_a_convolution() -> None:
    layer, unit = all_panels()["gate_maps"].options
    assert layer.values(VIEW) == (("0", "layer 1 ← G2"), ("1", "layer 2 ← G1"))
    assert unit.values(VIEW) == ()
    assert unit.values(CONV_VIEW) == (("0", "channel 0"), ("1", "channel 1"))
    assert unit.values(chosen(CONV_VIEW, layer="1")) == ()
    assert unit.values(replace(CONV_VIEW, run=None)) == (("0", "channel 0"), ("1", "channel 1"))
    assert unit.values(replace(VIEW, run=None)) == ()
    assert layer.values(View()) == unit.values(View()) == ()
    assert (layer.engine, unit.engine) == (True, True)


def test_the_cursor_names_example_and_unit() -> None:
    large = chart(drawn("gate_maps", chosen(VIEW, layer="1")), "large")
    points = ((0.0, 0.0), (1.4, 4.4), (2.0, 3.0), (-0.6, 0.0), (0.0, 4.6))
    assert readouts(large, *points) == [
        ("example 0, class cat", "unit 0", "1"),
        ("example 4, class dog", "unit 1", "1"),
        ("example 3, class dog", "unit 2", "0"),
        (),
        (),
    ]


def test_the_cursor_names_the_position_in_the_map_of_an_example() -> None:
    unit = chart(drawn("gate_maps", CONV_VIEW), "unit")
    points = ((0.0, 0.0), (4.0, 1.0), (6.0, 4.0), (3.0, 0.0), (0.0, 2.0), (2.0, 7.0), (4.0, 6.0))
    assert readouts(unit, *points) == [
        ("example 0, class cat", "row 0, column 0: 0"),
        ("example 1, class cat", "row 1, column 0: 0.2812"),  # 9/32, four figures
        ("example 3, class dog", "row 1, column 2: 0.7188"),  # 23/32
        (),  # between two maps
        (),
        ("example 4, class dog", "row 1, column 2: 0.9062"),  # 29/32
        (),  # there is no sixth example
    ]


def test_the_exported_tables_name_examples_and_units() -> None:
    scene = drawn("gate_maps", CONV_VIEW)
    assert table(chart(scene, "large"))[0] == ["example \\ channel", "channel 0", "channel 1"]
    assert [row[0] for row in table(chart(scene, "large"))[1:]] == list(TAGS)
    montage = table(chart(scene, "unit"))
    assert montage[0] == ["row \\ column", *(f"column {place}" for place in range(7))]
    assert [row[0] for row in montage[1:]] == [f"row {place}" for place in range(8)]
    found = exported(scene)
    assert found["large.axes"] == ["channel", "class"]
    assert found["unit.axes"] == ["x", "Channel 1"]
    assert found["large.columns"] == ["channel 0", "channel 1"]
    assert found["unit.values"] == (8, 7)


OTHER_FIRST = np.array([[0, 1], [1, 1], [0, 0], [0, 1], [1, 0]], dtype=np.float32) * 1.25


def other(**arrays: Array) -> ComparedRun:
    found = Reading("gates", 6, arrays={"labels": LABELS, **arrays})
    return ComparedRun("other.pt", "DL", layers((2,), (3,)), (0, 1), 3, {"gates": found})


def test_the_layer_stands_beside_that_of_b_in_one_range_of_colours() -> None:
    ours = replace(
        LARGE,
        key="large_0",
        title="A, layer 1 ← G2",
        matrix=replace(HARD, high=1.25),
        row=0,
        column_span=1,
    )
    soft = replace(HARD, name="gates of layer 1", values=OTHER_FIRST, high=1.25, bar="gate value")
    theirs = replace(ours, key="large_1", title=f"{B}, layer 1", matrix=soft, column=1)
    scene = drawn("gate_maps", beside(VIEW, other(layer_0=OTHER_FIRST)))
    assert_same(scene, Scene((ours, theirs), (OPEN, CHURN), 6, ""))


def test_a_convolution_stands_above_that_of_b() -> None:
    compared = replace(
        other(layer_0=MEANS, unit_map=MAPS), layers=layers((2, 2, 3), (3,)), wiring=(1, 0)
    )
    scene = drawn("gate_maps", beside(CONV_VIEW, compared))
    assert [(one.key, one.title, one.row, one.column) for one in scene.charts] == [
        ("large_0", "A, layer 1 ← G2", 0, 0),
        ("unit_0", "A, channel 1", 0, 1),
        ("large_1", f"{B}, layer 1 ← G2", 1, 0),
        ("unit_1", f"{B}, channel 0", 1, 1),
    ]
    assert all(one.column_span == 1 for one in scene.charts)
    assert [one.pick for one in scene.charts] == ["unit", "", "unit", ""]


def test_only_the_layers_share_a_range_not_the_maps_of_a_channel() -> None:
    compared = replace(other(layer_0=2 * MEANS, unit_map=3 * MAPS), layers=layers((2, 2, 3), (3,)))
    scene = drawn("gate_maps", beside(CONV_VIEW, compared))
    highs = [one.matrix.high for one in scene.charts if one.matrix is not None]
    assert highs == pytest.approx([1.8, 1.0, 1.8, 87 / 32])


@pytest.mark.parametrize(
    ("compared", "note"),
    [
        (other(layer_0=FIRST), f"{HATCHED} {B} has no layer 2."),
        (ComparedRun("other.pt", layers=layers((2,))), f"{HATCHED} {B}: no reading yet."),
        (ComparedRun("other.pt"), HATCHED),  # no network: only its scores
        (
            ComparedRun("other.pt", readings={"gates": Reading("gates", 1, absent="No gates.")}),
            f"{HATCHED} {B}: No gates.",
        ),
        (other(layer_1=SECOND), HATCHED),
    ],
)
def test_a_layer_that_b_lacks_is_shown_alone_and_said(compared: ComparedRun, note: str) -> None:
    scene = drawn("gate_maps", chosen(beside(VIEW, compared), layer="1"))
    assert scene.note == note
    alone = "layer_1" not in compared.readings.get("gates", Reading("gates", 1)).arrays
    assert ("overview_0" in {one.key for one in scene.charts}) == alone


def test_a_layer_that_the_run_does_not_list_is_dense_unless_there_are_maps_of_a_channel() -> None:
    fewer = replace(VIEW, run=run((2,)), choices={"layer": "1"})  # of the two in the reading
    assert chart(drawn("gate_maps", fewer), "large").x.label == "unit"
    assert chart(drawn("gate_maps", replace(fewer, run=run())), "large").x.label == "unit"
    maps = replace(CONV_VIEW, run=run((2, 2, 3)), choices={"layer": "1"})
    assert chart(drawn("gate_maps", maps), "large").x.label == "channel"


def test_without_a_picture_the_panel_says_why() -> None:
    assert reason("gate_maps", replace(VIEW, readings={})) == (
        "The gates of every layer for the probe examples, with the first frame."
    )
    assert reason("gate_maps", with_reading(VIEW, Reading("gates", 1, absent="Too dear."))) == (
        "Too dear."
    )
    empty = Reading("gates", 1, arrays={"labels": LABELS})
    assert reason("gate_maps", with_reading(VIEW, empty)) == "This network has no gate layer."


def test_gates_that_nobody_has_counted_make_no_facts() -> None:
    scene = drawn("gate_maps", with_reading(VIEW, replace(READING, scalars={})))
    assert scene.facts == ()
