"""What is told of probe examples under the cursor, each number counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import LayerInfo
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.axes import example_rows
from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Matrix, Scene
from dgn_engine.scene.example_readout import ExampleReadout, example_readout
from dgn_engine.scene.linked_places import selection_at
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from dgn_engine.scene.readout import describe_point, nearest_index
from tests.engine.panels.pictures import LABELS, find_chart, started_run, symmetric_matrix

PIXELS = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2)
PICTURES = ProbeExamples(started_run((4,)).probe_set, PIXELS.shape, PIXELS.tobytes())
FIRST = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]], np.uint8)
SECOND = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0]], np.uint8)
GATES = Reading("gates", 7, arrays={"labels": LABELS, "layer_0": FIRST, "layer_1": SECOND})
SHARED = (FIRST @ FIRST.T).astype(float) * (SECOND @ SECOND.T)
OWN = SHARED.diagonal()
with np.errstate(invalid="ignore"):
    ACTIVE = SHARED / np.sqrt(np.outer(OWN, OWN))
OVERLAP = Reading(
    "overlap",
    7,
    arrays={
        "labels": LABELS,
        "active": ACTIVE,
        "sensitive": symmetric_matrix(5, 1.0, [0.1] * 10),
        "active_0": symmetric_matrix(5, 1.0, [0.2] * 10),
        "sensitive_0": symmetric_matrix(5, 1.0, [0.3] * 10),
        "paths": OWN,
    },
    facts={"kappa": "κ"},
)
VIEW = View(
    run=started_run((4,), (3,)),
    step=7,
    readings={"gates": GATES, "overlap": OVERLAP},
    pictures=PICTURES,
)


def drawn(panel: str, key: str, view: View = VIEW) -> Chart:
    scene = all_panels()[panel].draw(view)
    assert isinstance(scene, Scene)
    return find_chart(scene, key)


def told(panel: str, key: str, x: float, y: float, view: View = VIEW) -> ExampleReadout:
    readout = example_readout(view, drawn(panel, key, view), x, y)
    assert readout is not None
    return readout


def test_an_entry_of_the_overlap_shows_both_images_and_what_they_share() -> None:
    readout = told("overlap", "active", 2.2, 0.9)
    assert [one.name for one in readout.examples] == [
        "example 1, class cat",
        "example 2, class dog",
    ]
    np.testing.assert_array_equal(readout.examples[1].image, PIXELS[2])
    # Layer 1: 1010 and 1111 share two; layer 2: 111 and 011 share two: four of 2·3 and 4·2.
    assert readout.lines == (
        f"Active $Λ$: {4 / np.sqrt(48):.4g}",
        "Shared active paths: 4 of 6 and 8",
    )
    first, second = readout.gates
    assert (first.name, first.words) == ("G1", "2 of 4 agree, 2 both open")
    np.testing.assert_array_equal(first.agree, [True, False, True, False])
    np.testing.assert_array_equal(first.rows, FIRST[[1, 2]])
    assert second.words == "2 of 3 agree, 2 both open"
    assert readout.in_words.startswith("example 1, class cat and example 2, class dog. Active Λ: ")


def test_the_diagonal_is_one_example_and_one_without_an_active_path_shares_none() -> None:
    readout = told("overlap", "active", 4, 4)
    assert [one.place for one in readout.examples] == [4]
    assert readout.gates[0].words == "2 of 4 open"
    view = replace(VIEW, choices={"part": "0"})
    readout = told("overlap", "active", 1, 0, view)
    assert [rows.name for rows in readout.gates] == ["G1"]
    assert readout.lines == ("Active $τ_{1}$: 0.2",)
    readout = told("overlap", "active", 3, 0)
    assert readout.lines[1] == "Shared active paths: 0 of 4 and 0"


def test_a_row_of_the_gate_maps_is_one_example_with_its_unit() -> None:
    readout = told("gate_maps", "large", 3, 2)
    assert readout.lines == ("unit 3: 1",)
    assert readout.examples[0].detail.endswith("example 0")
    assert [rows.name for rows in readout.gates] == ["G1"]
    assert drawn("gate_maps", "large").pictures is PICTURES


def test_soft_gates_and_means_over_positions_count_no_paths_and_no_agreement() -> None:
    soft = replace(GATES, arrays={**GATES.arrays, "layer_0": 0.4 * FIRST.astype(np.float32)})
    plain = {name: values for name, values in OVERLAP.arrays.items() if name != "paths"}
    view = replace(VIEW, readings={"gates": soft, "overlap": replace(OVERLAP, arrays=plain)})
    readout = told("overlap", "active", 2, 1, view)
    assert len(readout.lines) == 1
    assert readout.gates[0].words == "4 of 4 agree"  # all below one half
    assert VIEW.run is not None
    conv = (LayerInfo(0, "layer 1", "conv", (4, 2, 2)), VIEW.run.layers[1])
    view = replace(view, run=replace(VIEW.run, layers=conv))
    readout = told("overlap", "active", 2, 1, view)
    assert (readout.gates[0].agree, readout.gates[0].words) == (None, "means over positions")


def test_what_is_missing_is_said() -> None:
    view = replace(VIEW, readings={"overlap": OVERLAP})
    readout = told("overlap", "active", 2, 1, view)
    assert not readout.gates
    missing = readout.lines[-1]
    few = replace(GATES, arrays={"labels": LABELS[::2], "layer_0": FIRST[::2]})
    view = replace(VIEW, readings={"overlap": OVERLAP, "gates": few})
    readout = told("overlap", "active", 2, 1, view)
    assert not readout.gates
    assert readout.lines[-1] not in (missing, told("overlap", "active", 2, 1).lines[-1])
    late = replace(VIEW, readings={"overlap": OVERLAP, "gates": replace(GATES, step=3)})
    readout = told("overlap", "active", 2, 1, late)
    assert readout.lines[-1] == "Gates from step 3."
    unknown = replace(VIEW, pictures=None)
    assert example_readout(unknown, drawn("overlap", "active", unknown), 2, 1) is None


def test_vectors_are_points_or_say_how_many_numbers_they_have() -> None:
    points = np.arange(10, dtype=np.float32).reshape(5, 2)
    known = started_run((4,)).probe_set
    view = replace(VIEW, pictures=ProbeExamples(known, (5, 2), numbers=points.tobytes()))
    readout = told("overlap", "active", 2, 1, view)
    assert (readout.examples[1].point, readout.examples[1].detail) == ((4.0, 5.0), "(4, 5)")
    beside = np.insert(points, 1, 1.0, axis=1)  # a constant between the two coordinates
    view = replace(VIEW, pictures=ProbeExamples(known, (5, 3), numbers=beside.tobytes()))
    readout = told("overlap", "active", 2, 1, view)
    assert readout.examples[1].point == (4.0, 5.0)
    many = ProbeExamples(known, (5, 4), numbers=np.zeros((5, 4), np.float32).tobytes())
    view = replace(VIEW, pictures=many)
    readout = told("overlap", "active", 2, 1, view)
    assert readout.examples[0].why == "4 numbers"


def test_b_is_told_by_its_own_gates() -> None:
    theirs = replace(GATES, arrays={**GATES.arrays, "layer_0": 1 - FIRST})
    compared = ComparedRun(
        "b.pt",
        layers=started_run((4,), (3,)).layers,
        readings={"gates": theirs, "overlap": OVERLAP},
    )
    view = replace(VIEW, compared=compared)
    readout = told("overlap", "active_1", 2, 1, view)
    np.testing.assert_array_equal(readout.gates[0].rows, 1.0 - FIRST[[1, 2]])


@pytest.mark.parametrize("every", [1, 2, 4, 8])
def test_a_reading_of_fewer_examples_knows_which_they_are(every: int) -> None:
    labels = tuple(np.sort(np.arange(64) % 10).tolist())
    known = replace(PICTURES.probe_set, labels=labels)
    view = View(pictures=replace(PICTURES, probe_set=known))
    rows = example_rows(view, np.array(labels[::every]))
    assert rows == tuple(range(0, 64, every))


def test_where_it_cannot_be_told_which_were_read_nothing_is_shown() -> None:
    known = replace(PICTURES.probe_set, labels=(0,) * 9)
    view = View(pictures=replace(PICTURES, probe_set=known))
    assert example_rows(view, np.zeros(3, int)) == (0, 4, 8)
    assert example_rows(view, np.array([0, 1])) == ()
    assert example_rows(View(), np.zeros(9, int)) == ()


def test_a_montage_has_an_example_in_each_tile_and_none_between() -> None:
    maps = np.ones((5, 2, 2), np.float32)
    conv = Reading("gates", 7, arrays={"labels": LABELS, "layer_0": FIRST, "unit_map": maps})
    assert VIEW.run is not None
    layers = (LayerInfo(0, "layer 1", "conv", (4, 2, 2)),)
    view = replace(VIEW, run=replace(VIEW.run, layers=layers), readings={"gates": conv})
    unit = drawn("gate_maps", "unit", view)
    assert selection_at(unit, 0, 0).examples == (0,)
    assert selection_at(unit, 3, 1).examples == (1,)
    assert selection_at(unit, 2, 0).examples == ()
    assert selection_at(unit, 3, 4).examples == (4,)
    assert selection_at(unit, 6, 4).examples == ()  # there is no sixth


# What the cursor says of curves and matrices; panels' own pictures are tested with the panels.


def curve(name: str, x: list[float], y: list[float]) -> Curve:
    return Curve(name, np.array(x), np.array(y))


@pytest.mark.parametrize(
    ("x", "index"),
    [(-9.0, 0), (0.0, 0), (4.9, 0), (5.0, 0), (5.1, 1), (10.0, 1), (16.0, 2), (99.0, 2)],
)
def test_the_nearest_point_of_a_curve(x: float, index: int) -> None:
    assert nearest_index(curve("", [0, 10, 20], [1, 2, 3]), x) == index


def test_an_empty_curve_has_no_nearest_point_and_is_not_named() -> None:
    empty = curve("empty", [], [])
    assert nearest_index(empty, 1.0) is None
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(empty, curve("", [3], [4])))
    assert describe_point(chart, 1.0, 0.0) == ("step 3", "Loss  4")
    assert describe_point(Chart("c", "Loss", Axis("step"), Axis(), curves=(empty,)), 1.0, 0.0) == ()


def test_edges_without_a_name_are_told_only_where_nothing_has_one() -> None:
    edge, named = curve("", [1], [9]), curve("mean", [1], [2])
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(named, edge))
    assert describe_point(chart, 1.0, 0.0) == ("step 1", "mean  2")
    assert describe_point(replace(chart, curves=(edge, named)), 1.0, 0.0) == ("step 1", "mean  2")
    alone = replace(chart, curves=(edge,))
    assert describe_point(alone, 1.0, 0.0) == ("step 1", "Loss  9")


def test_what_is_not_told_hides_no_curve_after_it() -> None:
    told = curve("mean", [1], [2])
    segments = replace(curve("ways", [1], [9]), segments=True)
    smoothed = replace(curve("train", [1], [5]), smoothed=0.9)
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(segments, smoothed, told))
    assert describe_point(chart, 1.0, 0.0)[1:] == ("mean  2",)


def test_a_place_with_a_name_is_told_by_it() -> None:
    axis = Axis("regime", ticks=((0.0, "FR"), (1.0, "FL")), places=True)
    chart = Chart("c", "", axis, Axis(), curves=(curve("a", [0.1, 1.1], [3, 4]),))
    assert describe_point(chart, 0.9, 0.0) == ("FL", "a  4")


def test_the_place_is_that_of_the_curve_that_is_nearest() -> None:
    a, b = curve("a", [0, 8], [1, 2]), curve("b", [3, 6], [5, 7])
    chart = Chart("c", "", Axis(), Axis(), curves=(a, b))
    assert describe_point(chart, 3.5, 0.0) == ("x 3", "a  1", "b  5")
    assert describe_point(chart, 7.5, 0.0) == ("x 8", "a  2", "b  7")


def test_marks_are_named_where_they_are_near() -> None:
    marks = (Mark(10.0, "FL"), Mark(1200.0, "π"))
    chart = Chart("c", "", Axis("step"), Axis(), curves=(curve("a", [9], [1]),), marks=marks)
    assert describe_point(chart, 10.0, 0.0) == ("step 9", "a  1", "step 10: FL")
    assert describe_point(chart, 1190.0, 0.0, near=10.0) == ("step 9", "a  1", "step 1,200: π")
    assert describe_point(chart, 1190.0, 0.0, near=9.9) == ("step 9", "a  1")
    alone = Chart("c", "", Axis("step"), Axis(), marks=marks)
    assert describe_point(alone, 10.0, 0.0) == ("step 10: FL",)


MATRIX = Matrix(
    "m",
    np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.5]]),
    "gates",
    0.0,
    1.0,
    row_name="example",
    column_name="unit",
    row_labels=("first",),
)


@pytest.mark.parametrize(
    ("x", "y", "lines"),
    [
        (0.0, 0.0, ("first", "unit 0", "1")),
        (1.2, -0.4, ("first", "unit 1", "undefined (zero diagonal)")),
        (2.4, 1.4, ("example 1", "unit 2", "6.5")),
        (2.6, 0.0, ()),
        (0.0, 1.6, ()),
        (-0.6, 0.0, ()),
        (0.0, -0.6, ()),
    ],
)
def test_an_entry_of_a_matrix_is_named_by_row_and_column(
    x: float, y: float, lines: tuple[str, ...]
) -> None:
    assert describe_point(Chart("c", "", Axis(), Axis(), matrix=MATRIX), x, y) == lines


def test_where_lines_are_smoothed_the_cursor_tells_the_raw_values_and_says_so() -> None:
    raw = replace(curve("train", [0, 1, 2], [1.0, 9.0, 1.0]), faint=True)
    line = replace(curve("train", [0, 1, 2], [1.0, 5.0, 4.0]), smoothed=0.9)
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(raw, line))
    assert describe_point(chart, 1.0, 0.0) == ("step 1 · raw; lines smoothed 0.9", "train  9")
