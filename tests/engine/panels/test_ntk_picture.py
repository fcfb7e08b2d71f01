"""The picture of the panel 'NTK', worked out by hand from small readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Mark, Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.engine.panels.pictures import (
    BARE,
    BY_CLASS,
    EPOCH,
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
    series,
    symmetric,
    table,
    with_reading,
)

# With these lengths r the kernels are r_i r_j times what is normalised.
LENGTH = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
SIZES = np.outer(LENGTH, LENGTH)
UNIT_VALUE = symmetric(5, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, -0.1])
UNIT_FEATURE = symmetric(5, 1.0, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
UNIT_CROSS = symmetric(5, -0.5, [0.05, 0.15, 0.25, -0.35, 0.45, 0.55, -0.65, 0.75, 0.85, 0.95])
VALUE, FEATURE = SIZES * UNIT_VALUE, 3 * SIZES * UNIT_FEATURE
CROSS = 4 * SIZES * UNIT_CROSS  # normalised by the diagonal of both: r² + 3 r²
MARKS = (Mark(3.0, "FL"),)
HARD = Reading(
    "ntk",
    6,
    arrays={"labels": LABELS, "value": VALUE},
    scalars={"trace_value": 55.0, "norm_value": 61.237, "trace_feature": 0.0, "norm_feature": 0.0},
    facts={"feature": "K^F = 0 in FL: the feature network is fixed."},
)
SOFT = Reading(
    "ntk",
    6,
    arrays={"labels": LABELS, "value": VALUE, "feature": FEATURE, "cross": CROSS},
    scalars={
        "trace_value": 55.0,
        "norm_value": 61.237,
        "trace_feature": 165.0,
        "norm_feature": 1234.56,
        "trace_cross": -110.0,
    },
)
RECORDED = {
    ("ntk", "trace_value"): series([2, 6], [50.0, 55.0]),
    ("ntk", "trace_feature"): series([2, 6], [0.0, 165.0]),
    ("ntk", "trace_cross"): series([2, 6], [10.0, -110.0]),
    ("ntk", "norm_value"): series([2, 6], [60.0, 61.237]),
    ("ntk", "norm_cross"): series([2, 6], [7.0, 8.0]),
}
VIEW = View(
    run=run((2,), (3,)),
    wiring=(0, 1),
    step=7,
    marks=MARKS,
    readings={"ntk": SOFT},
    series=RECORDED,
)
STEPS = np.array([2, 6])
TRACES = (
    Curve("$K^V$", STEPS, np.array([50.0, 55.0]), "value"),
    Curve("$K^F$", STEPS, np.array([np.nan, 165.0]), "feature", "dash"),
    Curve("|$K^X$|", STEPS, np.array([10.0, 110.0]), "cross", "dot"),
)


def over_steps(title: str, curves: tuple[Curve, ...], parts: int) -> Chart:
    return Chart(
        key="over_steps",
        title=title,
        x=Axis(label="step", limits=(0.0, 6.0), epoch=EPOCH),
        y=Axis(log=True),
        curves=curves,
        marks=MARKS,
        narrow=(0, 0, 1, parts),
    )


def matrix(part: str, name: str, values: Array, reach: float, column: int, bar: str) -> Chart:
    unit = "by the diagonal of $K^V + K^F$" if part == "cross" else "unit diagonal"
    return Chart(
        key=part,
        title=name,
        x=BY_CLASS,
        y=BY_CLASS if column == 1 else BARE,
        matrix=Matrix(
            name=part,
            values=values,
            ramp="diverging",
            low=-reach,
            high=reach,
            bar=bar,
            scale="as computed" if reach != 1.0 else unit,
            row_name="example",
            column_name="example",
            row_labels=TAGS,
            column_labels=TAGS,
        ),
        column=column,
        square=True,
        narrow=(1, column - 1, 1, 1),
    )


FACTS = (
    Fact("tr $K^V$", "55", "Trace over the probe examples; norm 61.24."),
    Fact("tr $K^F$", "165", "Trace over the probe examples; norm 1,235."),
    Fact("tr $K^X$", "−110", "Trace over the probe examples; norm –."),
)
NOTE = "Mean over logits."


def test_the_parts_of_a_soft_network_have_unit_diagonals_and_one_bar() -> None:
    expected = Scene(
        charts=(
            over_steps("Trace", TRACES, 3),
            matrix("value", "$K^V$", UNIT_VALUE, 1.0, 1, ""),
            matrix("feature", "$K^F$", UNIT_FEATURE, 1.0, 2, ""),
            matrix("cross", "$K^X$", UNIT_CROSS, 1.0, 3, "normalised"),
        ),
        facts=FACTS,
        step=6,
        note=NOTE,
    )
    assert_same(drawn("ntk", VIEW), expected)


def test_as_computed_each_part_has_its_own_range_and_bar() -> None:
    charts = drawn("ntk", chosen(VIEW, scale="raw")).charts[1:]
    # The largest entries: 25 on the diagonal, 3 · 25, and 4 · 20 · 0.95 beside 4 · 25 · 0.5.
    assert_same(
        charts,
        (
            matrix("value", "$K^V$", VALUE, 25.0, 1, "kernel value"),
            matrix("feature", "$K^F$", FEATURE, 75.0, 2, "kernel value"),
            matrix("cross", "$K^X$", CROSS, 76.0, 3, "kernel value"),
        ),
    )


def test_a_small_cross_part_is_not_called_signed() -> None:
    small = {("ntk", "trace_cross"): series([2, 6], [0.25, 0.5])}
    (curve,) = chart(drawn("ntk", replace(VIEW, series=small)), "over_steps").curves
    assert curve.name == "$K^X$"


def test_a_part_that_a_regime_lacks_has_a_gap_there() -> None:
    recorded = {
        ("ntk", "trace_value"): series([2, 6, 8, 9], [50.0, 55.0, 60.0, 65.0]),
        ("ntk", "trace_feature"): series([2, 9], [165.0, 170.0]),  # FL between them
    }
    value, feature = chart(drawn("ntk", replace(VIEW, series=recorded)), "over_steps").curves
    assert value.y.tolist() == [50.0, 55.0, 60.0, 65.0]
    assert feature.x.tolist() == [2, 6, 8, 9]
    assert np.isfinite(feature.y).tolist() == [True, False, False, True]


def test_norms_over_steps_are_never_signed() -> None:
    norms = (
        Curve("$K^V$", STEPS, np.array([60.0, 61.237]), "value"),
        Curve("$K^X$", STEPS, np.array([7.0, 8.0]), "cross", "dot"),
    )
    found = chart(drawn("ntk", chosen(VIEW, measure="norm")), "over_steps")
    assert_same(found, over_steps("Frobenius norm", norms, 3))


def test_hard_gates_have_the_value_part_alone_and_say_why() -> None:
    recorded = {
        ("ntk", "trace_value"): series([6], [55.0]),
        ("ntk", "trace_feature"): series([6], [0.0]),
        ("ntk", "trace_cross"): series([6], [3.0]),
    }
    view = replace(with_reading(VIEW, HARD), series=recorded)
    scene = drawn("ntk", view)
    alone = (
        Curve("$K^V$", np.array([6]), np.array([55.0]), "value", marker=True),
        Curve("$K^X$", np.array([6]), np.array([3.0]), "cross", "dot", marker=True),
    )
    first = replace(
        over_steps("Trace", alone, 1), x=Axis(label="step", limits=(0.0, 12.0), epoch=EPOCH)
    )
    expected = Scene(
        (first, matrix("value", "$K^V$", UNIT_VALUE, 1.0, 1, "normalised")),
        FACTS[:1],
        6,
        f"{NOTE} $K^F$ = 0 in FL: the feature network is fixed.",
    )
    assert_same(scene, expected)


def test_a_frozen_value_network_has_the_feature_part_alone_and_the_note_says_over_what() -> None:
    arrays = {"labels": LABELS, "feature": FEATURE}
    over = {"trains": "K = K^F, over Θ^f.", "value": "K^V = 0 in gates-only: it is frozen."}
    frozen = replace(SOFT, arrays=arrays, facts=over)
    scene = drawn("ntk", with_reading(VIEW, frozen))
    assert [one.key for one in scene.charts] == ["over_steps", "feature"]
    assert scene.note == (f"{NOTE} K = $K^F$, over $Θ^f$. $K^V$ = 0 in gates-only: it is frozen.")
    other = replace(OTHER, readings={"ntk": replace(frozen, facts={})})
    beside_it = drawn("ntk", beside(with_reading(VIEW, frozen), other))
    assert [one.key for one in beside_it.charts] == [
        "over_steps",
        "feature_0",
        "feature_1",
        "feature_difference",
    ]
    assert beside_it.note.startswith(f"{NOTE} A: K = $K^F$, over $Θ^f$.")
    apart = drawn("ntk", beside(with_reading(VIEW, frozen), OTHER))
    assert [one.key for one in apart.charts] == ["over_steps", "feature"]
    assert apart.note.endswith(f"{B} has none of these parts.")


def test_without_a_feature_part_the_cross_part_has_the_diagonal_of_the_value_part() -> None:
    arrays = {"labels": LABELS, "value": VALUE, "cross": SIZES * UNIT_CROSS}
    scene = drawn("ntk", with_reading(VIEW, replace(SOFT, arrays=arrays)))
    assert_same(chart(scene, "cross"), matrix("cross", "$K^X$", UNIT_CROSS, 1.0, 2, "normalised"))


def test_an_example_of_length_zero_is_left_empty_and_a_kernel_of_nothing_has_a_range() -> None:
    gone = VALUE.copy()
    gone[1, :] = gone[:, 1] = 0.0
    expected = UNIT_VALUE.copy()
    expected[1, :] = expected[:, 1] = np.nan
    view = with_reading(VIEW, replace(HARD, arrays={"labels": LABELS, "value": gone}))
    found = chart(drawn("ntk", view), "value").matrix
    assert found is not None
    assert_same(found.values, expected)
    nothing = replace(HARD, arrays={"labels": LABELS, "value": np.zeros((5, 5))})
    raw = chart(drawn("ntk", chosen(with_reading(VIEW, nothing), scale="raw")), "value").matrix
    assert raw is not None
    assert (raw.low, raw.high) == (-1.0, 1.0)


def test_a_kernel_that_has_overflowed_is_drawn_without_the_entries_that_have() -> None:
    beyond = VALUE.copy()
    beyond[1, 1] = np.inf
    expected = UNIT_VALUE.copy()
    expected[1, :] = expected[:, 1] = np.nan
    view = with_reading(VIEW, replace(HARD, arrays={"labels": LABELS, "value": beyond}))
    found = chart(drawn("ntk", view), "value").matrix
    assert found is not None
    assert_same(found.values, expected)
    everything = replace(HARD, arrays={"labels": LABELS, "value": np.full((5, 5), np.inf)})
    for scale in ("unit", "raw"):
        drawn("ntk", chosen(with_reading(VIEW, everything), scale=scale))


OTHER_READING = Reading(
    "ntk",
    3,
    arrays={"labels": LABELS, "value": 2 * SIZES * UNIT_FEATURE},
    scalars={"trace_value": 110.0, "norm_value": 70.0, "trace_feature": 0.0, "trace_cross": -4.0},
)
OTHER = ComparedRun("other.pt", "ReLU", layers((2,), (3,)), (0, 1), 3, {"ntk": OTHER_READING})
ENDS = np.array([0.0, 6.0])


def test_the_value_parts_of_both_share_a_range_and_the_traces_of_b_are_level() -> None:
    lines = (
        Curve("B $K^V$", ENDS, np.array([110.0, 110.0]), "value", "dashdot"),
        Curve("B $K^X$", ENDS, np.array([4.0, 4.0]), "cross", "dashdot"),
    )
    ours = matrix("value", "A, $K^V$", UNIT_VALUE, 1.0, 1, "")
    theirs = matrix("value", f"{B}, $K^V$", UNIT_FEATURE, 1.0, 2, "normalised")
    expected = Scene(
        charts=(
            replace(over_steps("Trace", (*TRACES, *lines), 3), narrow=(0, 0, 1, 3)),
            replace(ours, key="value_0"),
            replace(theirs, key="value_1"),
        ),
        facts=FACTS,
        step=6,
        note=f"{NOTE} Lines across: {B}.",
    )
    assert_same(of_both(drawn("ntk", beside(VIEW, OTHER))), expected)


def test_as_computed_both_value_parts_reach_as_far_as_the_larger() -> None:
    scene = of_both(drawn("ntk", chosen(beside(VIEW, OTHER), scale="raw", measure="norm")))
    ours = matrix("value", "A, $K^V$", VALUE, 50.0, 1, "kernel value")
    theirs = matrix("value", f"{B}, $K^V$", 2 * SIZES * UNIT_FEATURE, 50.0, 2, "kernel value")
    assert_same(scene.charts[1:], (replace(ours, key="value_0"), replace(theirs, key="value_1")))
    level = scene.charts[0].curves[2:]
    assert_same(level, (Curve("B $K^V$", ENDS, np.array([70.0, 70.0]), "value", "dashdot"),))


def test_where_b_has_no_kernel_the_run_is_shown_alone() -> None:
    absent = replace(OTHER, readings={"ntk": Reading("ntk", 1, absent="Too dear.")})
    scene = drawn("ntk", beside(VIEW, absent))
    assert [one.key for one in scene.charts] == ["over_steps", "value", "feature", "cross"]
    assert scene.note == f"{NOTE} {B}: Too dear."
    bare = replace(OTHER, readings={"ntk": replace(OTHER_READING, arrays={"labels": LABELS})})
    assert len(drawn("ntk", beside(VIEW, bare)).charts) == 4


def test_the_header_offers_measures_and_scales() -> None:
    measure, part, scale = all_panels()["ntk"].options
    assert measure.values(VIEW) == (("trace", "trace"), ("norm", "norm"))
    assert part.values(VIEW) == ()
    other = replace(OTHER_READING, arrays={**OTHER_READING.arrays, "cross": VALUE})
    both = beside(VIEW, replace(OTHER, readings={"ntk": other}))
    assert part.values(both) == (("value", "value"), ("cross", "cross"))
    shown = [one.title for one in drawn("ntk", chosen(both, part="cross")).charts[1:]]
    assert shown == ["A, $K^X$", f"{B}, $K^X$", "A − B"]
    assert scale.values(VIEW) == (("unit", "unit diagonal"), ("raw", "as computed"))


def test_a_network_that_is_only_inspected_has_no_chart_over_steps() -> None:
    panel = all_panels()["ntk"]
    standing = replace(VIEW, run=replace(run((2,), (3,)), inspected="resnet18.pth"))
    shown = panel.draw(standing)
    assert isinstance(shown, Scene)
    assert [chart.key for chart in shown.charts] == ["value", "feature", "cross"]
    assert [chart.column for chart in shown.charts] == [0, 1, 2]
    assert {option.id: option.values(standing) for option in panel.options}["measure"] == ()


def test_the_cursor_reads_traces_and_kernels() -> None:
    scene = drawn("ntk", VIEW)
    points = ((2.0, 1.0), (4.0, 0.0), (4.1, 0.0), (0.0, 0.0), (50.0, 0.0))
    at_two = ("step 2", "$K^V$  50", "$K^F$  –", "|$K^X$|  10")
    at_six = ("step 6", "$K^V$  55", "$K^F$  165", "|$K^X$|  110")
    assert readouts(chart(scene, "over_steps"), *points) == [
        at_two,
        at_two,
        at_six,
        at_two,
        at_six,
    ]
    assert readouts(chart(scene, "cross"), (4.0, 0.0), (0.0, 5.0)) == [
        ("example 0, class cat", "example 4, class dog", "−0.35"),
        (),
    ]


def test_the_exported_tables_name_parts_and_examples() -> None:
    scene = drawn("ntk", VIEW)
    rows = table(chart(scene, "over_steps"))
    assert rows[0] == ["curve", "step", "Trace"]
    assert rows[3] == ["K^F", "2", "nan"]
    assert rows[5] == ["|K^X|", "2", "10.0"]
    assert table(chart(scene, "feature"))[0] == ["example \\ example", *TAGS]
    found = exported(scene)
    assert found["over_steps.|K^X|.x"] == (2,)
    assert found["value.axes"] == ["class", "class"]
    assert found["cross.axes"] == ["class", "K^X"]


def test_without_a_picture_the_panel_says_why() -> None:
    assert reason("ntk", replace(VIEW, readings={})) == (
        "The traces and matrices of the neural tangent kernel, with the first frame."
    )
    assert reason("ntk", with_reading(VIEW, Reading("ntk", 1, absent="Too dear."))) == "Too dear."


def test_without_recorded_traces_the_axis_has_four_steps() -> None:
    first = chart(drawn("ntk", replace(VIEW, series={})), "over_steps")
    assert first.curves == ()
    assert first.x.limits == (0.0, 4.0)
    empty = {("ntk", "trace_value"): series([], [])}
    assert chart(drawn("ntk", replace(VIEW, series=empty)), "over_steps").curves == ()


def test_a_part_with_a_trace_but_no_matrix_is_a_fact_unless_it_is_zero() -> None:
    found = drawn(
        "ntk", with_reading(VIEW, replace(HARD, scalars={**HARD.scalars, "trace_cross": 2.5}))
    )
    assert [fact.name for fact in found.facts] == ["tr $K^V$", "tr $K^X$"]
    zero = replace(SOFT, scalars={**SOFT.scalars, "trace_feature": 0.0})
    assert drawn("ntk", with_reading(VIEW, zero)).facts[1].value == "0"
