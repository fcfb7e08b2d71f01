"""The picture of the panel 'NPK spectrum', worked out by hand from a small reading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Matrix, Scene
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
    of_both,
    readouts,
    reason,
    run,
    symmetric,
    table,
    with_reading,
)

KERNEL = symmetric(5, 0.2, [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1])
VALUES = np.array([0.5, 0.3, 0.16, 0.04, -2e-18])  # the last is rounding noise
READING = Reading(
    "npk",
    6,
    arrays={
        "labels": LABELS,
        "npk": KERNEL,
        "eigenvalues": VALUES,
        "cumulative": np.array([0.5, 0.8, 0.96, 1.0, 1.0]),
        "alignment": np.array([4.0, 3.0, 2.0, 1.0, 0.0]),
    },
    scalars={
        "nu": 12.44,
        "rank": 4.0,
        "effective_rank": 2.736,
        "rho_max": 0.5,
        "rho_min": -2e-18,
        "cutoff": 0.00125,
    },
)
VIEW = View(run=run((2,), (3,)), wiring=(0, 1), step=7, readings={"npk": READING})
RANK = Axis(label="index $i$", limits=(0.5, 5.5))
I = np.array([1, 2, 3, 4, 5])  # noqa: E741  # the index of an eigenvalue
NOTE = "$H$ scaled to trace 1; eigenvalues below 0.0013 are left out of ν."
ABOUT = (
    "ν = tr(Yᵀ Ĥ⁻¹ Y) / C with Ĥ = H / trace H: small where H fits the labels.",
    "Number of eigenvalues above the cut-off.",
    "(Σρ)² / Σρ²",
    "Largest eigenvalue of H / trace H.",
    "Smallest eigenvalue of H / trace H.",
)
FACTS = (
    Fact("ν", "12.4", ABOUT[0]),
    Fact("rank", "4", ABOUT[1]),
    Fact("effective rank", "2.74", ABOUT[2]),
    Fact("$ρ$ max", "0.5", ABOUT[3]),
    Fact("$ρ$ min", "−2×10⁻¹⁸", ABOUT[4]),
)
EIGENVALUES = Chart(
    key="eigenvalues",
    title="Eigenvalues $ρ_i$",
    x=RANK,
    y=Axis(log=True, limits=(0.025, 0.8)),  # 0.04 / 1.6 and 0.5 · 1.6
    curves=(Curve("", I, VALUES, "text", marker=True),),
    narrow=(0, 0, 1, 1),
)
CUMULATIVE = Chart(
    key="cumulative",
    title="Cumulative energy",
    x=RANK,
    y=Axis(limits=(0.0, 1.03)),
    curves=(
        Curve("energy", I, np.array([0.5, 0.8, 0.96, 1.0, 1.0]), "text"),
        Curve("labels", I, np.array([0.4, 0.7, 0.9, 1.0, 1.0]), "accent", "dash"),
    ),
    column=1,
    narrow=(1, 0, 1, 1),
)
ALIGNMENT = Chart(
    key="alignment",
    title="Alignment with the labels",
    x=RANK,
    y=Axis(log=True),
    curves=(Curve("", I, np.array([4.0, 3.0, 2.0, 1.0, 0.0]), "accent", marker=True),),
    column=1,
    narrow=(1, 0, 1, 1),
)


def kernel(values: Array, low: float, high: float) -> Chart:
    return Chart(
        key="kernel",
        title="Kernel $H$ / trace $H$",
        x=BY_CLASS,
        y=BY_CLASS,
        matrix=Matrix(
            name="npk",
            values=values,
            ramp="diverging" if low < 0 else "sequential",
            low=low,
            high=high,
            bar="share of the trace",
            scale="trace 1",
            row_name="example",
            column_name="example",
            row_labels=TAGS,
            column_labels=TAGS,
        ),
        column=1,
        square=True,
        narrow=(1, 0, 1, 1),
    )


@pytest.mark.parametrize(
    ("show", "second"),
    [
        ("spectrum", CUMULATIVE),
        ("alignment", ALIGNMENT),
        ("kernel", kernel(KERNEL, 0.0, 0.2)),
    ],
)
def test_eigenvalues_stand_beside_what_is_chosen(show: str, second: Chart) -> None:
    found = drawn("spectrum", chosen(VIEW, show=show))
    assert_same(found, Scene((EIGENVALUES, second), FACTS, 6, NOTE))


def test_a_kernel_with_values_below_zero_is_centred_on_it() -> None:
    signed = symmetric(5, 0.2, [-0.3, *[0.05] * 9])
    view = with_reading(VIEW, replace(READING, arrays={**READING.arrays, "npk": signed}))
    scene = drawn("spectrum", chosen(view, show="kernel"))
    assert_same(chart(scene, "kernel"), kernel(signed, -0.3, 0.3))


def test_a_kernel_of_nothing_has_a_range_all_the_same() -> None:
    zero = np.zeros((5, 5))
    view = with_reading(VIEW, replace(READING, arrays={**READING.arrays, "npk": zero}))
    scene = drawn("spectrum", chosen(view, show="kernel"))
    assert_same(chart(scene, "kernel"), kernel(zero, 0.0, 1.0))


@pytest.mark.parametrize(("n", "marked"), [(128, True), (129, False)])
def test_up_to_128_eigenvalues_are_points(n: int, marked: bool) -> None:
    arrays = {
        "labels": np.zeros(n, dtype=int),
        "eigenvalues": np.full(n, 1 / n),
        "cumulative": np.ones(n),
    }
    view = with_reading(VIEW, replace(READING, arrays=arrays))
    scene = drawn("spectrum", view)
    assert scene.charts[0].curves[0].marker is marked
    assert scene.charts[0].x.limits == (0.5, n + 0.5)
    assert [curve.name for curve in scene.charts[1].curves] == ["energy"]  # no labels' share
    none = drawn(
        "spectrum", chosen(with_reading(VIEW, replace(READING, arrays=arrays)), show="alignment")
    )
    assert none.charts[1].curves == ()


def test_eigenvalues_at_the_cut_off_do_not_count_for_the_axis() -> None:
    def limits(values: list[float], scalars: dict[str, float]) -> tuple[float, float] | None:
        arrays = {**READING.arrays, "eigenvalues": np.array(values)}
        view = with_reading(VIEW, replace(READING, arrays=arrays, scalars=scalars))
        return chart(drawn("spectrum", view), "eigenvalues").y.limits

    assert limits([0.8, 0.32, 0.16, 0.08, 0.0], {"cutoff": 0.16}) == pytest.approx((0.2, 1.28))
    assert limits([0.8, 0.32, 0.16, 0.08, 0.0], {}) == pytest.approx((0.05, 1.28))
    assert limits([0.8, 0.32, 0.16, 0.08, -1.0], {"cutoff": -2.0}) == pytest.approx((0.05, 1.28))
    assert limits([0.0] * 5, {}) is None


def test_labels_without_energy_have_no_curve() -> None:
    arrays = {**READING.arrays, "alignment": np.zeros(5)}
    scene = drawn("spectrum", with_reading(VIEW, replace(READING, arrays=arrays)))
    assert [curve.name for curve in chart(scene, "cumulative").curves] == ["energy"]


def test_a_single_eigenvalue_has_an_axis_of_two_places() -> None:
    arrays = {
        "labels": LABELS[:1],
        "eigenvalues": np.array([1.0]),
        "cumulative": np.array([1.0]),
    }
    scene = drawn("spectrum", with_reading(VIEW, replace(READING, arrays=arrays)))
    assert [one.x.limits for one in scene.charts] == [(0.5, 2.5), (0.5, 2.5)]


OTHER_KERNEL = symmetric(5, 0.2, [0.4, *[0.01] * 9])
OTHER_READING = Reading(
    "npk",
    3,
    arrays={
        "labels": LABELS,
        "npk": OTHER_KERNEL,
        "eigenvalues": np.array([0.64, 0.2, 0.1, 0.048, 0.016]),
        "cumulative": np.array([0.64, 0.84, 0.94, 0.988, 1.004]),
        "alignment": np.array([1.0, 1.0, 2.0, 0.0, 0.0]),
    },
    scalars={"nu": 3.0, "rank": 5.0, "rho_max": 0.64},
)
OTHER = ComparedRun("other.pt", "ReLU", layers((2,), (3,)), (0, 1), 3, {"npk": OTHER_READING})
BOTH = beside(VIEW, OTHER)
FACTS_OF_BOTH = (
    Fact("ν", "12.4 | 3", f"A | B. {ABOUT[0]}"),
    Fact("rank", "4 | 5", f"A | B. {ABOUT[1]}"),
    Fact("effective rank", "2.74 | –", f"A | B. {ABOUT[2]}"),
    Fact("$ρ$ max", "0.5 | 0.64", f"A | B. {ABOUT[3]}"),
    Fact("$ρ$ min", "−2×10⁻¹⁸ | –", f"A | B. {ABOUT[4]}"),
)


def test_what_is_left_out_of_nu_and_contradictory_inputs_are_said() -> None:
    more = {"outside": 0.41572, "contradictory": 4.0}
    reading = replace(READING, scalars={**READING.scalars, **more})
    scene = drawn("spectrum", with_reading(VIEW, reading))
    assert scene.note == (
        f"{NOTE.removesuffix('.')}, with 41.57 % of the labels' energy; "
        "4 examples have the input of an example with another label."
    )
    assert (
        Fact(
            "left out of ν",
            "0.416",
            "Share of the labels' energy along eigenvalues at or below the cut-off: not in ν.",
        )
        in scene.facts
    )
    none = replace(READING, scalars={**READING.scalars, "outside": 0.0, "contradictory": 0.0})
    plain = drawn("spectrum", with_reading(VIEW, none))
    assert plain.note == f"{NOTE.removesuffix('.')}, with 0.00 % of the labels' energy."


def test_the_spectra_of_both_networks_lie_in_one_chart() -> None:
    theirs = Curve("B", I, OTHER_READING.arrays["eigenvalues"], "compared", "dash")
    values = replace(
        EIGENVALUES,
        y=Axis(log=True, limits=(0.01, 1.024)),  # 0.016 / 1.6 and 0.64 · 1.6
        curves=(theirs, Curve("A", I, VALUES, "text", marker=True)),
    )
    energy = replace(
        CUMULATIVE,
        curves=(
            Curve("B energy", I, OTHER_READING.arrays["cumulative"], "compared", "dot"),
            Curve("B labels", I, np.array([0.25, 0.5, 1.0, 1.0, 1.0]), "compared", "dashdot"),
            replace(CUMULATIVE.curves[0], name="A energy"),
            replace(CUMULATIVE.curves[1], name="A labels"),
        ),
    )
    expected = Scene((values, energy), FACTS_OF_BOTH, 6, f"{B}. {NOTE}")
    assert_same(drawn("spectrum", BOTH), expected)
    alignment = chart(drawn("spectrum", chosen(BOTH, show="alignment")), "alignment")
    assert_same(
        alignment,
        replace(
            ALIGNMENT,
            curves=(
                Curve("B", I, np.array([1.0, 1.0, 2.0, 0.0, 0.0]), "compared", "dash"),
                replace(ALIGNMENT.curves[0], name="A"),
            ),
        ),
    )


@pytest.mark.parametrize(("signed", "ramp"), [(False, "sequential"), (True, "diverging")])
def test_the_kernels_of_both_networks_have_one_range_and_one_bar(signed: bool, ramp: str) -> None:
    ours = symmetric(5, 0.2, [-0.1, *[0.05] * 9]) if signed else KERNEL
    view = with_reading(BOTH, replace(READING, arrays={**READING.arrays, "npk": ours}))
    low = -0.4 if signed else 0.0

    def one(place: int, title: str, values: Array) -> Chart:
        base = kernel(values, low, 0.4)
        assert base.matrix is not None
        matrix = replace(base.matrix, bar="share of the trace" if place else "")
        narrow = (place, 0, 1, 1)
        return replace(
            base,
            key=f"kernel_{place}",
            title=f"{title}, $H$",
            matrix=matrix,
            column=place,
            narrow=narrow,
        )

    scene = of_both(drawn("spectrum", chosen(view, show="kernel")))
    expected = (one(0, "A", ours), one(1, B, OTHER_KERNEL))
    assert expected[0].matrix is not None
    assert expected[0].matrix.ramp == ramp
    assert_same(scene, Scene(expected, FACTS_OF_BOTH, 6, NOTE))


def test_where_b_has_no_reading_the_note_says_why() -> None:
    absent = replace(OTHER, readings={"npk": Reading("npk", 1, absent="Too dear.")})
    scene = drawn("spectrum", beside(VIEW, absent))
    assert_same(scene, Scene((EIGENVALUES, CUMULATIVE), FACTS, 6, f"{NOTE} {B}: Too dear."))


def test_the_header_offers_three_pictures() -> None:
    (show,) = all_panels()["spectrum"].options
    assert show.values(VIEW) == (
        ("spectrum", "spectrum"),
        ("alignment", "alignment"),
        ("kernel", "kernel"),
    )


def test_the_cursor_reads_eigenvalues_and_the_kernel() -> None:
    scene = drawn("spectrum", VIEW)
    points = ((0.0, 0.0), (2.0, 0.0), (2.6, 0.0), (3.5, 0.0), (9.0, 0.0))
    assert readouts(chart(scene, "eigenvalues"), *points) == [
        ("index $i$ 1", "Eigenvalues $ρ_i$  0.5"),
        ("index $i$ 2", "Eigenvalues $ρ_i$  0.3"),
        ("index $i$ 3", "Eigenvalues $ρ_i$  0.16"),
        ("index $i$ 3", "Eigenvalues $ρ_i$  0.16"),
        ("index $i$ 5", "Eigenvalues $ρ_i$  −2×10⁻¹⁸"),
    ]
    image = chart(drawn("spectrum", chosen(VIEW, show="kernel")), "kernel")
    assert readouts(image, (4.0, 3.0)) == [("example 3, class dog", "example 4, class dog", "0.1")]


def test_the_exported_tables_name_index_and_examples() -> None:
    scene = drawn("spectrum", VIEW)
    assert table(chart(scene, "eigenvalues"))[:2] == [
        ["curve", "index i", "Eigenvalues ρ_i"],
        ["curve 0", "1", "0.5"],
    ]
    assert [row[0] for row in table(chart(scene, "cumulative"))] == [
        "curve",
        *["energy"] * 5,
        *["labels"] * 5,
    ]
    image = chart(drawn("spectrum", chosen(VIEW, show="kernel")), "kernel")
    assert table(image)[0] == ["example \\ example", *TAGS]
    found = exported(scene)
    assert found["eigenvalues.curve 0.y"] == (5,)
    assert found["cumulative.axes"] == ["index i", "Cumulative energy"]


def test_without_a_picture_the_panel_says_why() -> None:
    assert reason("spectrum", replace(VIEW, readings={})) == (
        "The spectrum of the neural path kernel, with the first frame."
    )
    assert reason("spectrum", with_reading(VIEW, Reading("npk", 1, absent="Too dear."))) == (
        "Too dear."
    )


def test_without_a_cut_off_the_note_is_short_and_no_number_is_made_up() -> None:
    scene = drawn("spectrum", with_reading(VIEW, replace(READING, scalars={"rank": 4.0})))
    assert scene.note == "$H$ scaled to trace 1."
    assert scene.facts == (FACTS[1],)
