"""The panels of kernels where something is missing, zero, too large, or of other examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array
from dgn_engine.scene.elements import Matrix, Scene
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.ramps import colour_indices
from tests.engine.panels.known_readings import (
    ACTIVE,
    ACTIVE_2,
    BOTH,
    CROSS,
    FEATURE,
    OTHER,
    PATH_KERNEL_OF_B,
    SENSITIVE,
    SIZES,
    UNIT_CROSS,
    UNIT_FEATURE,
    UNIT_VALUE,
    VALUE,
    A,
)
from tests.engine.panels.pictures import (
    LABELS,
    B,
    draw_scene,
    find_chart,
    make_series,
    read_points,
    started_run,
    symmetric_matrix,
    with_choices,
    with_compared,
    with_reading,
)

NPK, NTK, OVERLAP = (A.readings[name] for name in ("npk", "ntk", "overlap"))


def matrix(scene: Scene, key: str) -> Matrix:
    found = find_chart(scene, key).matrix
    assert found is not None
    return found


def off_diagonal(values: Array) -> Array:
    return values[~np.eye(len(values), dtype=bool)]


def ranged(scene: Scene, key: str) -> tuple[str, float, float]:
    found = matrix(scene, key)
    return found.ramp, found.low, found.high


def spectrum(**arrays: Array) -> View:
    return with_reading(A, replace(NPK, arrays={**NPK.arrays, **arrays}))


def overlap(**arrays: Array) -> View:
    return with_reading(A, replace(OVERLAP, arrays={"labels": LABELS, **arrays}))


def tangent(view: View = A, **arrays: Array) -> View:
    return with_reading(view, replace(NTK, arrays={"labels": LABELS, **arrays}))


# The path kernel and its spectrum.


def test_a_path_kernel_with_values_below_zero_is_centred_on_it() -> None:
    for values, ramp in (
        (symmetric_matrix(5, 0.2, [-0.3, *[0.05] * 9]), ("diverging", -0.3, 0.3)),
        (np.zeros((5, 5)), ("sequential", 0.0, 1.0)),
    ):
        scene = draw_scene("spectrum", with_choices(spectrum(npk=values), show="kernel"))
        assert ranged(scene, "kernel") == ramp


@pytest.mark.parametrize("signed", [False, True])
def test_the_kernels_of_both_networks_have_one_range_and_one_bar(signed: bool) -> None:
    ours = symmetric_matrix(5, 0.2, [-0.1 if signed else 0.1, *[0.05] * 9])
    scene = draw_scene(
        "spectrum", with_choices(with_compared(spectrum(npk=ours), OTHER), show="kernel")
    )
    pairs = np.concatenate([off_diagonal(ours), off_diagonal(PATH_KERNEL_OF_B)])
    low, high = np.percentile(pairs, (1.0, 99.0))
    reach = max(-low, high)
    expected = ("diverging", -reach, reach) if signed else ("sequential", low, high)
    for place, values in enumerate((ours, PATH_KERNEL_OF_B)):
        assert ranged(scene, f"kernel_{place}") == expected
        np.testing.assert_array_equal(matrix(scene, f"kernel_{place}").values, values)
        assert bool(matrix(scene, f"kernel_{place}").bar) == bool(place)


@pytest.mark.parametrize(("n", "marked"), [(128, True), (129, False)])
def test_up_to_128_eigenvalues_are_points(n: int, marked: bool) -> None:
    arrays = {
        "labels": np.zeros(n, int),
        "eigenvalues": np.full(n, 1 / n),
        "cumulative": np.ones(n),
    }
    view = with_reading(A, replace(NPK, arrays=arrays))
    scene = draw_scene("spectrum", view)
    assert scene.charts[0].curves[0].marker is marked
    assert scene.charts[0].x.limits == (0.5, n + 0.5)
    assert [curve.name for curve in scene.charts[1].curves] == ["energy"]  # no labels' share
    assert draw_scene("spectrum", with_choices(view, show="alignment")).charts[1].curves == ()


def test_eigenvalues_at_the_cut_off_do_not_count_for_the_axis() -> None:
    def limits(values: list[float], scalars: dict[str, float]) -> tuple[float, float] | None:
        reading = replace(spectrum(eigenvalues=np.array(values)).readings["npk"], scalars=scalars)
        return find_chart(draw_scene("spectrum", with_reading(A, reading)), "eigenvalues").y.limits

    assert limits([0.8, 0.32, 0.16, 0.08, 0.0], {"cutoff": 0.16}) == pytest.approx((0.2, 1.28))
    assert limits([0.8, 0.32, 0.16, 0.08, 0.0], {}) == pytest.approx((0.05, 1.28))
    assert limits([0.8, 0.32, 0.16, 0.08, -1.0], {"cutoff": -2.0}) == pytest.approx((0.05, 1.28))
    assert limits([0.0] * 5, {}) is None
    assert find_chart(draw_scene("spectrum", BOTH), "eigenvalues").y.limits == pytest.approx(
        (0.01, 1.024)
    )


def test_labels_without_energy_have_no_curve_and_one_eigenvalue_an_axis_of_two_places() -> None:
    scene = draw_scene("spectrum", spectrum(alignment=np.zeros(5)))
    assert [curve.name for curve in find_chart(scene, "cumulative").curves] == ["energy"]
    one = {"labels": LABELS[:1], "eigenvalues": np.ones(1), "cumulative": np.ones(1)}
    scene = draw_scene("spectrum", with_reading(A, replace(NPK, arrays=one)))
    assert [one.x.limits for one in scene.charts] == [(0.5, 2.5), (0.5, 2.5)]


def test_what_is_left_out_of_nu_and_contradictory_inputs_are_said() -> None:
    def scene(**scalars: float) -> Scene:
        return draw_scene(
            "spectrum", with_reading(A, replace(NPK, scalars={**NPK.scalars, **scalars}))
        )

    said = scene(outside=0.41572, contradictory=4.0)
    assert "0.0013" in said.note  # the cut-off
    assert "41.57 %" in said.note
    assert "4 examples" in said.note
    assert [fact.value for fact in said.facts if "left out" in fact.name] == ["0.416"]
    none = scene(outside=0.0, contradictory=0.0).note
    assert "0.00 %" in none
    assert "examples" not in none
    bare = draw_scene("spectrum", with_reading(A, replace(NPK, scalars={"rank": 4.0})))
    assert "ν" not in bare.note
    assert [(fact.name, fact.value) for fact in bare.facts] == [("rank", "4")]


@pytest.mark.parametrize("panel", ["spectrum", "ntk", "overlap"])
def test_where_b_has_no_reading_the_run_is_shown_alone_and_why(panel: str) -> None:
    probe = all_panels()[panel].probes[0]
    absent = replace(OTHER.readings[probe], absent="Too dear.")
    for readings, said in (({probe: absent}, f"{B}: Too dear."), ({}, f"{B}: ")):
        scene = draw_scene(panel, with_compared(A, replace(OTHER, readings=readings)))
        alone = draw_scene(panel, A)
        assert [one.key for one in scene.charts] == [one.key for one in alone.charts]
        assert [(fact.name, fact.value) for fact in scene.facts] == [
            (fact.name, f"A {fact.value} | B –") for fact in alone.facts
        ]
        assert said in scene.note


# Overlap.


def test_colours_reach_over_the_overlaps_of_two_examples_or_over_all_that_is_possible() -> None:
    # Each pair stands twice among the twenty, so that both percentiles fall on the outermost.
    scene = draw_scene("overlap", A)
    assert ranged(scene, "active") == ("sequential", 0.05, 0.5)
    assert ranged(scene, "sensitive") == ("sequential", 0.02, 0.2)
    assert matrix(scene, "active").beyond == (False, True)  # the diagonal
    whole = draw_scene("overlap", with_choices(A, scale="unit"))
    assert ranged(whole, "active") == ranged(whole, "sensitive") == ("sequential", 0.0, 1.0)
    assert len(whole.note) < len(scene.note)
    both = draw_scene("overlap", with_choices(with_compared(A, OTHER), kind="sensitive"))
    assert ranged(both, "sensitive_0") == ranged(both, "sensitive_1") == ("sequential", 0.02, 0.8)


def test_an_overlap_near_one_is_no_sheet_of_one_colour() -> None:
    # Λ of a convolutional network: from 0 to 1 all of it has the colours of the upper tenth.
    alike = symmetric_matrix(5, 1.0, [0.95, 0.91, 0.91, 0.91, 0.91, 0.91, 0.91, 0.95, 0.95, 0.95])
    view = overlap(active=alike)
    colours = [
        set(colour_indices(matrix(draw_scene("overlap", shown), "active"))[alike < 1].tolist())
        for shown in (view, with_choices(view, scale="unit"))
    ]
    assert colours == [{0, 254}, {231, 241}]


def test_an_example_without_a_path_is_left_out_of_mean_and_range() -> None:
    without = ACTIVE.copy()  # example 4 has no path: 0.2, 0.35, 0.45 and 0.5 do not count
    without[4, :] = without[:, 4] = np.nan
    scene = draw_scene("overlap", overlap(active=without))
    assert ranged(scene, "active") == ("sequential", 0.05, 0.4)
    assert scene.facts[0].value == "0.208"  # (0.05 + 0.1 + 0.15 + 0.25 + 0.3 + 0.4) / 6
    assert read_points(scene.charts[0], (4.0, 1.0))[0][2].startswith("undefined")


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_where_no_two_examples_overlap_the_colours_reach_from_zero_to_one(value: float) -> None:
    scene = draw_scene("overlap", overlap(active=symmetric_matrix(5, 1.0, [value] * 10)))
    assert ranged(scene, "active") == ("sequential", 0.0, 1.0)
    assert scene.facts[0].value == ("–" if np.isnan(value) else "0")


def test_a_layer_that_one_of_both_lacks_is_shown_alone() -> None:
    def keys(view: View, key: str, values: Array, who: str) -> None:
        scene = draw_scene("overlap", view)
        assert [one.key for one in scene.charts] == [key]
        np.testing.assert_array_equal(matrix(scene, key).values, values)
        assert f" {who} has " in scene.note
        assert matrix(scene, key).bar
        assert matrix(scene, key).of_compared == (who == "A")

    keys(with_choices(BOTH, part="0"), "active_0", SENSITIVE, B)
    ours = with_compared(overlap(active=ACTIVE), OTHER)
    keys(with_choices(ours, kind="sensitive"), "sensitive_0", ACTIVE_2, "A")


@pytest.mark.parametrize(
    ("facts", "said"), [({"kappa": "k 1"}, "k 1"), ({"gate": "g", "kappa": "k"}, "g")]
)
def test_soft_gates_say_what_counts_as_sensitive(facts: dict[str, str], said: str) -> None:
    note = draw_scene(
        "overlap", with_choices(with_reading(A, replace(OVERLAP, facts=facts)), scale="unit")
    ).note
    assert note.endswith(f"; {said}.")


# The tangent kernel.


@pytest.mark.parametrize("scale", ["unit", "raw"])
def test_each_part_spans_its_pairs_and_those_of_both_networks_have_one_range(scale: str) -> None:
    scene = draw_scene("ntk", with_choices(A, scale=scale))
    parts = {"value": VALUE, "feature": FEATURE, "cross": CROSS}
    if scale == "unit":
        parts = {"value": UNIT_VALUE, "feature": UNIT_FEATURE, "cross": UNIT_CROSS}
    every = np.concatenate([off_diagonal(values) for values in parts.values()])
    for key, values in parts.items():
        np.testing.assert_allclose(matrix(scene, key).values, values)
        # At unit diagonal all parts share a scale, which none of them crowds.
        pairs = every if scale == "unit" else off_diagonal(values)
        low, high = np.percentile(pairs, (1.0, 99.0))
        reach = max(-low, high)
        ramp, *ends = ("diverging", -reach, reach) if low < 0 < high else ("sequential", low, high)
        assert ranged(scene, key) == (ramp, *map(pytest.approx, ends))
        assert bool(matrix(scene, key).bar) == (scale == "raw" or key == "cross")
    both = draw_scene("ntk", with_choices(BOTH, scale=scale))
    assert ranged(both, "value_0") == ranged(both, "value_1")
    assert [bool(matrix(both, f"value_{place}").bar) for place in (0, 1)] == [False, True]


def test_a_part_that_would_crowd_on_the_scale_of_all_has_its_own() -> None:
    near = symmetric_matrix(5, 1.0, [0.9 + 0.01 * place for place in range(10)])
    scene = draw_scene("ntk", tangent(value=near, feature=UNIT_FEATURE))
    assert ranged(scene, "value")[1:] == (pytest.approx(0.9), pytest.approx(0.99))
    assert ranged(scene, "feature")[1:] == (pytest.approx(0.0), pytest.approx(0.9))
    assert matrix(scene, "value").bar
    assert matrix(scene, "feature").bar


@pytest.mark.parametrize("panel", ["ntk", "overlap", "spectrum"])
def test_a_kernel_whose_pairs_are_all_alike_says_so(panel: str) -> None:
    alike = symmetric_matrix(5, 1.0, [0.25] * 10) + 1e-9 * symmetric_matrix(5, 0.0, [*range(10)])
    views = {
        "ntk": (tangent(value=alike), "value"),
        "overlap": (overlap(active=alike), "active"),
        "spectrum": (with_choices(spectrum(npk=alike), show="kernel"), "kernel"),
    }
    view, key = views[panel]
    assert "0.25" in matrix(draw_scene(panel, view), key).bar
    assert "0.25" not in matrix(draw_scene(panel, with_choices(A, show="kernel")), key).bar


def over_steps(**found: dict[int, float]) -> dict[str, list[float]]:
    recorded = {("ntk", name): make_series([*one], [*one.values()]) for name, one in found.items()}
    shown = find_chart(draw_scene("ntk", replace(A, series=recorded)), "over_steps")
    assert shown.y.log
    return {curve.name: curve.y.tolist() for curve in shown.curves}


def test_traces_over_steps_are_sizes_with_gaps_where_a_regime_lacks_a_part() -> None:
    five = {2: 0.25, 3: 0.25, 4: 0.25, 5: 0.25, 6: 0.5}
    assert over_steps(trace_cross=five) == {"$K^X$": [*five.values()]}
    assert over_steps(trace_cross=five | {6: -0.5}) == {"|$K^X$|": [*five.values()]}
    assert over_steps(trace_value=five, trace_feature={6: 0.0}) == {"$K^V$": [*five.values()]}
    found = over_steps(trace_value=five, trace_feature={2: 165.0, 6: 170.0})
    assert found["$K^V$"] == [*five.values()]
    assert np.isfinite(found["$K^F$"]).tolist() == [True, False, False, False, True]


def test_traces_of_fewer_than_five_points_leave_their_place_to_the_matrices() -> None:
    measure = all_panels()["ntk"].options[0]
    for count in (0, 1, 4, 5):
        series = {("ntk", "trace_value"): make_series([*range(count)], [1.0] * count)}
        view = replace(A, series=series)
        charts = draw_scene("ntk", view).charts
        shown = [(one.key, one.column) for one in charts]
        matrices = ["value", "feature", "cross"]
        if count < 5:
            assert shown == [*zip(matrices, range(3), strict=True)]
            assert measure.values(view) == ()
        else:
            assert shown == [*zip(["over_steps", *matrices], range(4), strict=True)]
            assert [value for value, _ in measure.values(view)] == ["trace", "norm"]
        both = [one.key for one in draw_scene("ntk", with_compared(view, OTHER)).charts]
        assert ("over_steps" in both) == (count >= 2)  # A and B have one each


def test_a_missing_part_is_no_chart_and_its_reason_stands_in_the_note() -> None:
    hard = replace(
        NTK,
        arrays={"labels": LABELS, "value": VALUE},
        scalars=NTK.scalars | {"trace_feature": 0.0},
        facts={"feature": "K^F = 0."},
    )
    scene = draw_scene("ntk", with_reading(A, hard))
    assert [one.key for one in scene.charts] == ["over_steps", "value"]
    assert scene.note.endswith("$K^F$ = 0.")
    assert [fact.name for fact in scene.facts] == ["tr $K^V$", "tr $K^X$"]
    zero = draw_scene(
        "ntk", with_reading(A, replace(NTK, scalars=NTK.scalars | {"trace_feature": 0.0}))
    )
    assert zero.facts[1].value == "0"


def test_of_two_frozen_networks_the_feature_parts_are_compared_if_both_have_them() -> None:
    over = {"trains": "K = K^F, over Θ^f.", "value": "K^V = 0."}
    frozen = replace(NTK, arrays={"labels": LABELS, "feature": FEATURE}, facts=over)
    view = with_reading(A, frozen)
    assert draw_scene("ntk", view).note.endswith("K = $K^F$, over $Θ^f$. $K^V$ = 0.")
    other = replace(OTHER, readings={"ntk": replace(frozen, facts={})})
    beside_it = draw_scene("ntk", with_compared(view, other))
    both = ["over_steps", "feature_0", "feature_1", "feature_difference"]
    assert [one.key for one in beside_it.charts] == both
    assert "A: K = $K^F$, over $Θ^f$." in beside_it.note
    apart = draw_scene("ntk", with_compared(view, OTHER))
    assert [one.key for one in apart.charts] == ["over_steps", "feature"]
    assert B in apart.note


def test_without_a_feature_part_the_cross_part_has_the_diagonal_of_the_value_part() -> None:
    scene = draw_scene("ntk", tangent(value=VALUE, cross=SIZES * UNIT_CROSS))
    np.testing.assert_allclose(matrix(scene, "cross").values, UNIT_CROSS)


def test_the_unit_diagonal_of_the_cross_kernel_lies_within_one() -> None:
    """K^X = Ψ_VᵀΨ_F + Ψ_FᵀΨ_V is bounded by the diagonals of K^V + K^F."""
    value, feature = np.random.default_rng(0).normal(size=(2, 30, 5))
    kernels = {"value": value.T @ value, "feature": feature.T @ feature}
    scene = draw_scene("ntk", tangent(**kernels, cross=value.T @ feature + feature.T @ value))
    assert np.abs(matrix(scene, "cross").values).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(np.diagonal(matrix(scene, "value").values), 1.0)


@pytest.mark.parametrize("wrong", [0.0, np.inf])
def test_an_example_without_a_length_is_left_empty(wrong: float) -> None:
    gone, expected = VALUE.copy(), UNIT_VALUE.copy()
    gone[1, :] = gone[:, 1] = VALUE[1] if wrong else 0.0
    gone[1, 1] = wrong
    expected[1, :] = expected[:, 1] = np.nan
    np.testing.assert_allclose(
        matrix(draw_scene("ntk", tangent(value=gone)), "value").values, expected
    )
    everything = tangent(value=np.full((5, 5), wrong))
    for scale in ("unit", "raw"):
        found = ranged(draw_scene("ntk", with_choices(everything, scale=scale)), "value")
        undefined = scale == "unit" or bool(wrong)
        assert found == (("diverging", -1.0, 1.0) if undefined else ("sequential", 0.0, 1.0))


def test_both_networks_are_compared_in_a_part_that_both_have() -> None:
    measure, part, _ = all_panels()["ntk"].options
    assert part.values(A) == ()
    theirs = OTHER.readings["ntk"]
    crossed = replace(theirs, arrays={**theirs.arrays, "cross": VALUE})
    both = with_compared(A, replace(OTHER, readings={"ntk": crossed}))
    assert [value for value, _ in part.values(both)] == ["value", "cross"]
    shown = [one.title for one in draw_scene("ntk", with_choices(both, part="cross")).charts[1:]]
    assert shown == ["A, $K^X$", "B, $K^X$ · other.pt", "A − B"]
    inspected = replace(A, run=replace(started_run((2,), (3,)), inspected="resnet18.pth"))
    assert measure.values(inspected) == ()  # there are no steps
    charts = draw_scene("ntk", inspected).charts
    assert [(one.key, one.column) for one in charts] == [("value", 0), ("feature", 1), ("cross", 2)]
