"""How an estimate looks in the panels of kernels: corner, errors under the cursor, ± in facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.figures.export_values import csv_text, scene_arrays
from dgn_engine.figures.provenance import Provenance
from dgn_engine.figures.save_figure import save_figure
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.matrix_difference import difference_chart
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.readout import describe_point
from dgn_engine.text.written_numbers import plus_minus
from tests.engine.panels.pictures import (
    LABELS,
    draw_scene,
    find_chart,
    started_run,
    symmetric_matrix,
    with_choices,
    with_reading,
)

KERNEL = symmetric_matrix(5, 1.0, [0.412, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
ERRORS = symmetric_matrix(5, 0.0, [0.013, 0.01, 0.01, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02])
NAN = float("nan")
READINGS = {
    "overlap": Reading(
        "overlap",
        6,
        arrays={
            "labels": LABELS,
            **{f"{kind}{part}": KERNEL for kind in ("active", "sensitive") for part in ("", "_0")},
            "active_error": ERRORS,
            "sensitive_error": 2 * ERRORS,
        },
        error=0.03,
    ),
    "npk": Reading(
        "npk",
        6,
        arrays={
            "labels": LABELS,
            "npk": KERNEL / 5,
            "npk_error": ERRORS / 5,
            "eigenvalues": np.array([0.6, 0.2, NAN, NAN, NAN]),
            "eigenvalues_error": np.full(5, 0.02),
            "cumulative": np.array([0.6, 0.8, NAN, NAN, NAN]),
            "alignment": np.array([0.3, NAN, NAN, NAN, NAN]),
        },
        facts={"estimate": "2 of 5"},
        error=0.03,
    ),
    "ntk": Reading(
        "ntk",
        6,
        arrays={
            "labels": LABELS,
            "value": 4 * KERNEL,
            "value_error": ERRORS,
            "value_unit_error": 3 * ERRORS,
            "cross": KERNEL - 0.2,
            "cross_error": ERRORS,
        },
        error=0.03,
    ),
}
SAID = "± 3 %"  # in the note, beside the hatched corner


def seen(probe: str, **choices: str) -> Scene:
    view = with_choices(
        with_reading(View(run=started_run((4,), (4,)), regime="DL"), READINGS[probe]), **choices
    )
    return draw_scene({"npk": "spectrum"}.get(probe, probe), view)


@pytest.mark.parametrize(
    ("probe", "key", "choices", "errors"),
    [
        ("overlap", "active", {}, ERRORS),
        ("overlap", "sensitive", {}, 2 * ERRORS),
        ("npk", "kernel", {"show": "kernel"}, ERRORS / 5),
        ("ntk", "value", {"scale": "raw"}, ERRORS),
        ("ntk", "value", {"scale": "unit"}, 3 * ERRORS),
        ("ntk", "cross", {"scale": "raw"}, ERRORS),
        ("ntk", "cross", {"scale": "unit"}, None),
    ],
)
def test_a_matrix_of_an_estimate_has_its_corner_and_its_errors(
    probe: str, key: str, choices: dict[str, str], errors: Array | None
) -> None:
    scene = seen(probe, **choices)
    assert SAID in scene.note
    matrix = find_chart(scene, key).matrix
    assert matrix is not None
    assert matrix.estimated
    if errors is None:
        assert matrix.error is None
    else:
        np.testing.assert_array_equal(matrix.error, errors)


def test_single_layers_are_exact_beside_an_estimate() -> None:
    scene = seen("overlap", part="0")
    assert SAID not in scene.note
    for one in scene.charts:
        assert one.matrix is not None
        assert not one.matrix.estimated


def test_the_cursor_reads_value_and_error() -> None:
    active = find_chart(seen("overlap"), "active")
    assert describe_point(active, 1.0, 0.0)[-1] == "0.412 ± 0.013"
    assert describe_point(active, 2.0, 2.0)[-1] == "1"  # the diagonal is one, without error


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.4123, 0.0128, "0.412 ± 0.013"),
        (12.34, 1.26, "12.3 ± 1.3"),
        (1234.0, 56.0, "1,234 ± 56"),
        (0.5, 0.0, "0.5"),
        (2.0e-9, 1.0e-10, "2×10⁻⁹ ± 1×10⁻¹⁰"),
    ],
)
def test_a_value_is_told_as_far_as_its_error_reaches(
    value: float, error: float, words: str
) -> None:
    assert plus_minus(value, error) == words


def test_facts_of_an_estimate_say_their_error_or_that_there_is_none() -> None:
    means = {fact.name: fact.value for fact in seen("overlap").facts}
    assert means["mean $Λ$"] == "0.311 ± 0.017"
    assert means["mean $S$"] == "0.311 ± 0.035"
    facts = {fact.name: fact.value for fact in seen("npk").facts}
    assert facts["$ρ$ max"] == "0.600 ± 0.020"
    assert not any(letter.isdigit() for letter in facts["ν"])


def test_each_eigenvalue_of_an_estimate_has_an_error_bar() -> None:
    chart = find_chart(seen("npk"), "eigenvalues")
    bars = next(curve for curve in chart.curves if curve.segments)
    np.testing.assert_array_equal(bars.x, [1, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(bars.y, [0.58, 0.62, NAN, 0.18, 0.22, NAN])
    assert bars.faint, "its name would be louder than the eigenvalues"
    assert chart.y.limits is not None
    assert chart.y.limits[0] < 0.18
    assert chart.y.limits[1] > 0.62


def test_exports_of_an_estimate_name_it_and_hold_its_errors() -> None:
    scene = seen("overlap")
    found = scene_arrays(scene, Provenance("Overlap"))
    np.testing.assert_array_equal(found["active.values_error"], ERRORS)
    assert SAID in str(found["about"])
    rows = csv_text(find_chart(scene, "active")).splitlines()
    assert rows[7].startswith("standard error,")
    assert rows[8].split(",")[-4:] == [str(one) for one in ERRORS[0, 1:].tolist()]


def test_a_difference_with_an_estimate_is_one_and_has_no_errors() -> None:
    active, sensitive = seen("overlap").charts
    assert sensitive.matrix is not None
    exact = replace(sensitive, matrix=replace(sensitive.matrix, estimated=False, error=None))
    for pair in ((active, exact), (exact, active)):
        matrix = difference_chart(*pair).matrix
        assert matrix is not None
        assert matrix.estimated
        assert matrix.error is None


def test_a_figure_of_an_estimate_has_the_corner(tmp_path: Path) -> None:
    file = save_figure(seen("overlap"), tmp_path / "overlap.svg", Provenance("Overlap"))
    assert file.read_text("utf-8").count(".estimated") == 2


def test_a_comparison_says_which_errors_its_estimates_have() -> None:
    exact = {name: replace(reading, error=0.0) for name, reading in READINGS.items()}
    for panel, probe in (("ntk", "ntk"), ("spectrum", "npk"), ("overlap", "overlap")):
        view = with_reading(View(run=started_run((2,))), exact[probe])
        other = ComparedRun("other.pt", layers=started_run((2,)).layers, readings=READINGS)
        note = draw_scene(panel, replace(view, compared=other)).note
        assert SAID in note, panel


def test_a_kernel_as_computed_is_never_called_normalised() -> None:
    ntk = READINGS["ntk"]
    for value in (KERNEL, np.zeros_like(KERNEL)):  # the greatest entry is 1, or there is none
        one = replace(ntk, arrays={"labels": LABELS, "value": value}, error=0.0)
        scene = draw_scene(
            "ntk", with_choices(with_reading(View(run=started_run((2,))), one), scale="raw")
        )
        matrix = find_chart(scene, "value").matrix
        assert matrix is not None
        assert matrix.scale == "as computed"
        assert "normalised" not in matrix.bar
