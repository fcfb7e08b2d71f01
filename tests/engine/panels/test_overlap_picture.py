"""The picture of the panel 'Overlap', worked out by hand from a small reading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.axes import Range
from dgn_engine.scene.elements import Chart, Fact, Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from dgn_engine.scene.ramps import indices
from tests.engine.panels.pictures import (
    BARE,
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
    of_both,
    readouts,
    reason,
    run,
    symmetric,
    table,
    with_reading,
)

# Above the diagonal, row by row: means 0.275, 0.11, 0.31 and 0.46.
ACTIVE = symmetric(5, 1.0, [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
SENSITIVE = symmetric(5, 1.0, [0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2])
ACTIVE_2 = symmetric(5, 1.0, [0.8, 0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4, 0.3])
SENSITIVE_2 = symmetric(5, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.7, 0.6])
READING = Reading(
    "overlap",
    6,
    arrays={
        "labels": LABELS,
        "active": ACTIVE,
        "sensitive": SENSITIVE,
        "active_0": SENSITIVE,
        "sensitive_0": ACTIVE,
        "active_1": ACTIVE_2,
        "sensitive_1": SENSITIVE_2,
    },
    facts={"kappa": "D = 1{|q| < 0.1·rms(q)}"},
)
VIEW = View(run=run((2,), (3,)), wiring=(0, 1), step=7, readings={"overlap": READING})
UNIT = "Unit diagonal; empty where an example has no active or sensitive path"
NOTE = f"{UNIT}; D = 1{{|q| < 0.1·rms(q)}}."
PAIRS = " Colours: 1st to 99th percentile off the diagonal."
IN_UNIT = chosen(VIEW, scale="unit")


def picture(
    kind: str, title: str, values: Array, column: int, reach: Range = (0.0, 1.0), bar: str = ""
) -> Chart:
    """Where the range ends below 1, the diagonal lies beyond."""
    return Chart(
        key=kind,
        title=title,
        x=BY_CLASS,
        y=BARE if column else BY_CLASS,
        matrix=Matrix(
            name=kind,
            values=values,
            ramp="sequential",
            low=reach[0],
            high=reach[1],
            bar=bar,
            scale="unit diagonal",
            beyond=(False, reach[1] < 1.0),
            row_name="example",
            column_name="example",
            row_labels=TAGS,
            column_labels=TAGS,
        ),
        column=column,
        square=True,
    )


def mean(name: str, value: str, kind: str) -> Fact:
    return Fact(f"mean {name}", value, f"Mean {kind} overlap of two different examples.")


BAR = "overlap, normalised"


def test_active_and_sensitive_overlap_of_the_whole_network_stand_side_by_side() -> None:
    expected = Scene(
        charts=(
            picture("active", "Active $Λ$", ACTIVE, 0),
            picture("sensitive", "Sensitive $S$", SENSITIVE, 1, bar=BAR),
        ),
        facts=(mean("$Λ$", "0.275", "active"), mean("$S$", "0.11", "sensitive")),
        step=6,
        note=NOTE,
    )
    assert_same(drawn("overlap", IN_UNIT), expected)


def test_a_layer_has_its_own_overlaps_and_names() -> None:
    expected = Scene(
        charts=(
            picture("active", "Active $τ_{2}$", ACTIVE_2, 0),
            picture("sensitive", "Sensitive $DD^T_{2}$", SENSITIVE_2, 1, bar=BAR),
        ),
        facts=(mean("$τ_{2}$", "0.31", "active"), mean("$DD^T_{2}$", "0.46", "sensitive")),
        step=6,
        note=NOTE,
    )
    assert_same(drawn("overlap", chosen(VIEW, part="1", scale="unit")), expected)


def test_colours_reach_over_the_overlaps_of_two_examples() -> None:
    # Each pair stands twice among the twenty, so that both percentiles fall on the outermost.
    scene = drawn("overlap", VIEW)
    assert_same(
        scene.charts,
        (
            picture("active", "Active $Λ$", ACTIVE, 0, (0.05, 0.5), BAR),
            picture("sensitive", "Sensitive $S$", SENSITIVE, 1, (0.02, 0.2), BAR),
        ),
    )
    assert scene.note == NOTE + PAIRS


def test_an_overlap_near_one_is_no_sheet_of_one_colour() -> None:
    # Λ of a convolutional network: from 0 to 1 all of it has the colours of the upper tenth.
    alike = symmetric(5, 1.0, [0.95, 0.91, 0.91, 0.91, 0.91, 0.91, 0.91, 0.95, 0.95, 0.95])
    view = with_reading(VIEW, replace(READING, arrays={"labels": LABELS, "active": alike}))
    colours = [
        set(indices(matrix)[alike < 1].tolist())
        for shown in (view, chosen(view, scale="unit"))
        if (matrix := drawn("overlap", shown).charts[0].matrix) is not None
    ]
    assert colours == [{0, 254}, {231, 241}]


def test_an_example_without_a_path_is_left_out_of_mean_and_range() -> None:
    # Example 4 has no path: its overlaps, 0.2, 0.35, 0.45 and 0.5, do not count.
    without = ACTIVE.copy()
    without[4, :] = without[:, 4] = np.nan
    arrays = {"labels": LABELS, "active": without}
    view = with_reading(VIEW, replace(READING, arrays=arrays, facts={}))
    scene = drawn("overlap", view)
    assert_same(scene.charts, (picture("active", "Active $Λ$", without, 0, (0.05, 0.4), BAR),))
    assert scene.facts == (mean("$Λ$", "0.208", "active"),)  # (0.05+0.1+0.15+0.25+0.3+0.4)/6
    assert scene.note == f"{UNIT}.{PAIRS}"
    assert readouts(scene.charts[0], (4.0, 1.0))[0][2] == "undefined (zero diagonal)"


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_where_no_two_examples_overlap_the_colours_reach_from_zero_to_one(value: float) -> None:
    arrays = {"labels": LABELS, "active": symmetric(5, 1.0, [value] * 10)}
    view = with_reading(VIEW, replace(READING, arrays=arrays))
    scene = drawn("overlap", view)
    matrix = scene.charts[0].matrix
    assert matrix is not None
    assert (matrix.low, matrix.high) == (0.0, 1.0)
    assert scene.facts[0].value == ("–" if np.isnan(value) else "0")


def other(**arrays: Array) -> ComparedRun:
    reading = Reading("overlap", 3, arrays={"labels": LABELS, **arrays})
    return ComparedRun("other.pt", "ReLU", layers((2,), (3,)), (0, 1), 3, {"overlap": reading})


BOTH = other(active=SENSITIVE, sensitive=ACTIVE_2, active_1=ACTIVE)


def test_the_same_overlap_of_both_networks_has_one_range_of_colours() -> None:
    view = beside(IN_UNIT, BOTH)
    expected = Scene(
        charts=(
            picture("active_0", "A", ACTIVE, 0),
            picture("active_1", B, SENSITIVE, 1, bar=BAR),
        ),
        facts=(mean("A", "0.275", "active"), mean("B", "0.11", "active")),
        step=6,
        note=NOTE,
    )
    assert_same(of_both(drawn("overlap", view)), expected)
    contrast = of_both(drawn("overlap", beside(chosen(VIEW, kind="sensitive"), BOTH)))
    assert_same(
        contrast.charts,
        (
            picture("sensitive_0", "A", SENSITIVE, 0, (0.02, 0.8)),
            picture("sensitive_1", B, ACTIVE_2, 1, (0.02, 0.8), BAR),
        ),
    )
    assert contrast.facts == (mean("A", "0.11", "sensitive"), mean("B", "0.31", "sensitive"))


def test_a_layer_that_one_of_both_lacks_is_shown_alone() -> None:
    lacking = chosen(beside(VIEW, BOTH), part="0", scale="unit")
    scene = drawn("overlap", lacking)
    assert_same(scene.charts, (picture("active_0", "A", SENSITIVE, 0, bar=BAR),))
    assert scene.note == f"{NOTE} {B} has no such layer."
    arrays = {name: a for name, a in READING.arrays.items() if name != "sensitive"}
    ours = with_reading(beside(VIEW, BOTH), replace(READING, arrays=arrays))
    theirs = drawn("overlap", chosen(ours, kind="sensitive", scale="unit"))
    assert_same(theirs.charts, (picture("sensitive_0", B, ACTIVE_2, 0, bar=BAR),))
    assert theirs.facts == (mean("B", "0.31", "sensitive"),)
    assert theirs.note == f"{NOTE} A has no such layer."
    neither = chosen(beside(VIEW, other(active=ACTIVE)), part="1", kind="sensitive")
    arrays = {"labels": LABELS, "active_1": ACTIVE}
    assert reason("overlap", with_reading(neither, replace(READING, arrays=arrays))) == (
        "This layer has no overlap in the last frame; choose another."
    )


def test_where_b_has_no_reading_both_overlaps_of_the_run_are_shown_and_why() -> None:
    nothing_yet = replace(BOTH, readings={})
    scene = drawn("overlap", beside(IN_UNIT, nothing_yet))
    assert [one.title for one in scene.charts] == ["Active $Λ$", "Sensitive $S$"]
    assert scene.note == f"{NOTE} {B}: no reading yet."


def test_the_header_offers_parts_colours_and_in_a_comparison_kinds() -> None:
    kind, part, scale = all_panels()["overlap"].options
    assert part.values(VIEW) == (("all", "whole network"), ("0", "layer 1"), ("1", "layer 2"))
    assert part.values(View()) == (("all", "whole network"),)
    assert scale.values(VIEW) == (("pairs", "off the diagonal"), ("unit", "0 to 1"))
    assert kind.values(VIEW) == ()
    assert kind.values(beside(VIEW, BOTH)) == (("active", "active"), ("sensitive", "sensitive"))


def test_the_cursor_names_both_examples() -> None:
    active = chart(drawn("overlap", VIEW), "active")
    points = ((1.0, 0.0), (4.0, 3.0), (2.4, 2.4), (-0.6, 0.0), (0.0, 4.6))
    assert readouts(active, *points) == [
        ("example 0, class cat", "example 1, class cat", "0.05"),
        ("example 3, class dog", "example 4, class dog", "0.5"),
        ("example 2, class dog", "example 2, class dog", "1"),
        (),
        (),
    ]


def test_the_exported_table_names_examples_by_row_and_column() -> None:
    scene = drawn("overlap", VIEW)
    rows = table(chart(scene, "sensitive"))
    assert rows[0] == ["example \\ example", *TAGS]
    assert rows[1] == [TAGS[0], "1.0", "0.02", "0.04", "0.06", "0.08"]
    assert exported(scene)["active.rows"] == exported(scene)["active.columns"] == list(TAGS)
    assert exported(scene)["active.axes"] == ["class", "class"]
    assert exported(scene)["sensitive.axes"] == ["class", "Sensitive S"]


def test_without_a_picture_the_panel_says_why() -> None:
    assert reason("overlap", replace(VIEW, readings={})) == (
        "The overlap of active and of sensitive sub-networks, with the first frame."
    )
    assert reason("overlap", with_reading(VIEW, Reading("overlap", 1, absent="No paths."))) == (
        "No paths."
    )
    bare = Reading("overlap", 1, arrays={"labels": LABELS})
    assert reason("overlap", with_reading(VIEW, bare)) == (
        "This layer has no overlap in the last frame; choose another."
    )


def test_a_layer_with_one_of_both_overlaps_has_a_colour_bar() -> None:
    arrays = {"labels": LABELS, "sensitive": SENSITIVE}
    scene = drawn("overlap", with_reading(IN_UNIT, replace(READING, arrays=arrays)))
    assert_same(scene.charts, (picture("sensitive", "Sensitive $S$", SENSITIVE, 0, bar=BAR),))


def test_soft_gates_say_what_counts_as_sensitive() -> None:
    facts = {"gate": "D = ∂γ, β = 8", "kappa": "not this"}
    scene = drawn("overlap", with_reading(IN_UNIT, replace(READING, facts=facts)))
    assert scene.note == f"{UNIT}; D = ∂γ, β = 8."
