"""Each panel draws known numbers: at their place, in their unit, of A and of B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.runs import RunCurves
from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Chart, Scene
from dgn_engine.scene.overlaid import matching_runs, overlaid_runs
from dgn_engine.scene.panel_spec import PanelSpec, Series, View, all_panels
from tests.engine.panels import known_readings as known
from tests.engine.panels.pictures import assert_same, draw_scene, with_choices
from tests.plugins import own
from tests.snapshots import Recorded

NAN = np.nan
BOTH_STEPS, LAYERS, INDEX = [2, 6], [1, 2], [1, 2, 3, 4, 5]


@dataclass
class Known:
    """What is drawn of a panel with these choices.

    `curves`: 'chart: curve' → x and y; `matrices`: chart → values.
    """

    panel: str
    curves: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    matrices: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)


UPDATES = {
    "gradient: value": ([1, 2, 3], [3, 4, 12]),
    "gradient: feature": ([1, 2, 3], [NAN, 0.5, 0.25]),  # nothing of zero on a logarithmic axis
    "update: value": ([1, 2, 3], [0.01, 0.02, 0.04]),
    "update: feature": ([1, 2, 3], [0.001, 0.002, 0.003]),
}
DRIFT = {
    "switched: ": (LAYERS, [12.5, 37.5]),
    "by_example: ": (range(5), [0.1, 0.2, 0.3, 0.4, 0.5]),
}
BY_CLASS = {
    "by_class: $K^V$": ([0, 1, 2], [0.5, 0.125, 0.375]),
    "by_class: $H$": ([0, 1, 2], [0.25, NAN, 0.75]),
    "shape: $K^V$": (BOTH_STEPS, [0, 0.5]),
    "scale: loss": ([2, 4, 6], [1, 0.5, 0.3]),
}
NORMS_BY_LOGIT = {"by_logit: Σ|v|": ([0, 1], [20, 30])}
SHARES = {
    "by_layer: open": (LAYERS, [50, 25]),
    "by_layer: dead": (LAYERS, [0, 12.5]),
    "by_layer: always open": (LAYERS, [6.25, 0]),
    "by_layer: B open": (LAYERS, [87.5, 62.5]),
}
EQUAL = {"by_layer: equal": (LAYERS, [90, 60]), "by_layer: by chance": (LAYERS, [50, 55])}
THEORY = {"value": known.SIZES, "expected": 2 * known.SIZES}
BETWEEN = np.degrees(np.arccos(0.6))  # (1, 0) and (0.6, 0.8)
EACH_ALONE = [[1, -0.5, NAN], [0.125, -1, 0]]
ONE_AND_ALL = {
    "losses: measured": ([0, 1, 2], [2, 1.5, 1.25]),
    "losses: predicted": ([0, 1, 2], [2, 1, 0.5]),
    "over_steps: after 1": (BOTH_STEPS, [20, 10]),
    "over_steps: after all": (BOTH_STEPS, [50, 25]),
}
OF_BOTH = (
    Known(
        "path_norms",
        curves=NORMS_BY_LOGIT
        | {
            "over_steps: $L_1$": (BOTH_STEPS, [1, 1.25]),
            "over_steps: $L_2$": (BOTH_STEPS, [1, 2]),
        },
    ),
    Known(
        "path_norms",
        curves=NORMS_BY_LOGIT
        | {
            "over_steps: $L_1$, at least": (BOTH_STEPS, [0, 12.5]),
            "over_steps: $L_1$, at most": (BOTH_STEPS, [25, 50]),
        },
        choices={"measure": "moved"},
    ),
    Known(
        "gate_maps",
        matrices={
            "large_0": known.FIRST,
            "large_1": known.FIRST_OF_B,
            "large_difference": known.FIRST.astype(float) - known.FIRST_OF_B,
        },
    ),
    Known(
        "gate_maps",
        matrices={
            "large_0": known.SECOND,
            "large_1": 1 - known.SECOND,
            "large_difference": 2.0 * known.SECOND - 1,
        },
        choices={"layer": "1"},
    ),
    Known(
        "overlap",
        matrices={
            "active_0": known.ACTIVE,
            "active_1": known.SENSITIVE,
            "active_difference": known.ACTIVE - known.SENSITIVE,
        },
    ),
    Known(
        "overlap",
        matrices={
            "sensitive_0": known.SENSITIVE,
            "sensitive_1": known.ACTIVE_2,
            "sensitive_difference": known.SENSITIVE - known.ACTIVE_2,
        },
        choices={"kind": "sensitive"},
    ),
    Known("agreement", curves=EQUAL, matrices={"difference": known.DIFFERS}),
    Known(
        "agreement",
        curves={"over_steps: all layers": (BOTH_STEPS, [50, 75])},
        matrices={"difference": known.DIFFERS_2},
        choices={"left": "steps", "layer": "1"},
    ),
    Known(
        "spectrum",
        curves={
            "eigenvalues: A": (INDEX, [0.5, 0.3, 0.16, 0.04, -2e-18]),
            "eigenvalues: B": (INDEX, [0.64, 0.2, 0.1, 0.048, 0.016]),
            "cumulative: A energy": (INDEX, [0.5, 0.8, 0.96, 1, 1]),
            "cumulative: B energy": (INDEX, [0.64, 0.84, 0.94, 0.988, 1.004]),
            "cumulative: A labels": (INDEX, [0.4, 0.7, 0.9, 1, 1]),
            "cumulative: B labels": (INDEX, [0.25, 0.5, 1, 1, 1]),
            "ratio: ": (INDEX, [0.5 / 0.64, 1.5, 1.6, 0.04 / 0.048, NAN]),
        },
    ),
    Known(
        "ntk",
        curves={
            "over_steps: $K^V$": (known.FIVE_STEPS, [50, 51, 52, 53, 55]),
            "over_steps: $K^F$": (known.FIVE_STEPS, [NAN, NAN, NAN, NAN, 165]),
            "over_steps: |$K^X$|": (known.FIVE_STEPS, [10, NAN, NAN, NAN, 110]),
            "over_steps: B $K^V$": ([0, 6], [110, 110]),
            "over_steps: B $K^X$": ([0, 6], [4, 4]),
        },
        matrices={
            "value_0": known.UNIT_VALUE,
            "value_1": known.UNIT_FEATURE,
            "value_difference": known.UNIT_VALUE - known.UNIT_FEATURE,
        },
    ),
    Known(
        "ntk",
        curves={
            "over_steps: $K^V$": (known.FIVE_STEPS, [60, 60.25, 60.5, 61, 61.237]),
            "over_steps: $K^X$": (known.FIVE_STEPS, [7, NAN, NAN, NAN, 8]),
            "over_steps: B $K^V$": ([0, 6], [70, 70]),
        },
        matrices={
            "value_0": known.VALUE,
            "value_1": 2 * known.SIZES * known.UNIT_FEATURE,
            "value_difference": known.VALUE - 2 * known.SIZES * known.UNIT_FEATURE,
        },
        choices={"measure": "norm", "scale": "raw"},
    ),
    Known(
        "training",
        curves={
            "loss: train": ([2, 4, 6], [2.5, 1.25, 0.75]),
            "loss: test": ([3, 6], [2, 1.5]),
            "loss: B test": ([5, 9], [1.75, 1]),
            "accuracy: train": ([2, 4, 6], [25, 50, 62.5]),
            "accuracy: test": ([3, 6], [40, 35]),
            "accuracy: B test": ([5, 9], [55, 90]),
        },
    ),
    Known(
        "kernel_theory", curves={"over_steps: distance": (BOTH_STEPS, [0.25, 0.5])}, matrices=THEORY
    ),
    Known(
        "kernel_theory",
        curves={"over_steps: cosine": (BOTH_STEPS, [0.98, 0.96])},
        matrices=THEORY,
        choices={"measure": "cosine"},
    ),
    Known(
        "kernel_theory",
        curves={"over_steps: ratio": (BOTH_STEPS, [0.875, 0.75])},
        matrices=THEORY,
        choices={"measure": "traces"},
    ),
    Known(
        "sensitive",
        curves={
            "over_steps: $S$": (BOTH_STEPS, [0.125, 0.11]),
            "over_steps: $δ$": (BOTH_STEPS, [0.25, 0.26]),
        },
        matrices={"sensitive": known.SENSITIVE, "delta": known.ACTIVE_2},
    ),
    Known(
        "layer_kernels",
        curves={
            "along: each layer": (LAYERS, [0.275, 0.31]),
            "along: product": (LAYERS, [0.275, 0.09]),
            "along: not permuted": (LAYERS, [0.31, 0.085]),
            "along: B product": (LAYERS, [0.5, 0.375]),
        },
        matrices={
            "overview_0": known.ACTIVE,
            "overview_1": known.ACTIVE_2,
            "tau_1": known.ACTIVE_2,
            "product": known.ACTIVE * known.ACTIVE_2,
        },
        choices={"layer": "1"},
    ),
    Known(
        "gate_statistics",
        curves=SHARES | {"over_steps: layer 1": (BOTH_STEPS, [75, 50])},
        matrices={"by_class": [[40, 60], [20, 30]]},
    ),
    Known(
        "gate_statistics",
        curves=SHARES | {"over_steps: layer 2": (BOTH_STEPS, [50, 3.125])},
        matrices={"by_class": [[40, 60], [20, 30]]},
        choices={"steps": "churn"},
    ),
)
OF_A = (  # panels that show A alone
    Known("paths", matrices={"units": [[0.25, 0.75], [1, 0]]}),
    Known("paths", matrices={"units": [[-1, 0.5], [-0.5, 0]]}, choices={"show": "contributed"}),
    Known(
        "regions",
        curves={
            "points: boundary": ([0.5, 0.5, 0.5, 0.5], [1, NAN, 0, NAN]),
            "points: cat": ([0, 0], [0, NAN]),
            "points: dog": ([1, 1], [1, NAN]),
            "points: wrong": ([1, 1], [1, NAN]),
        },
        matrices={"cuts": [[0, 1], [1, 2]], "decision": [[1, -0.5], [0.5, -1]]},
    ),
    Known(
        "regions",
        curves={"over_steps: regions": (BOTH_STEPS, [3, 4])},
        matrices={"cuts": [[0, 1], [1, 2]], "decision": [[1, -0.5], [0.5, -1]]},
        choices={"third": "steps"},
    ),
    Known(
        "drift",
        curves=DRIFT
        | {
            "over_steps: $Φ$": (BOTH_STEPS, [0.25, 0.5]),
            "over_steps: $v$": (BOTH_STEPS, [0.125, 0.75]),
        },
    ),
    Known(
        "drift",
        curves=DRIFT
        | {
            "over_steps: $Φ$": (BOTH_STEPS, [0.9, 0.8]),
            "over_steps: $v$": (BOTH_STEPS, [0.7, 0.6]),
        },
        choices={"measure": "cosine"},
    ),
    Known(
        "alignment",
        curves=BY_CLASS
        | {
            "alignment: $K^V$": (BOTH_STEPS, [0.125, 0.375]),
            "alignment: $H$": (BOTH_STEPS, [0.1, 0.25]),
            "scale: $K^V$": (BOTH_STEPS, [1, 8]),
        },
    ),
    Known(
        "alignment",
        curves=BY_CLASS
        | {
            "alignment: $K^V$": (BOTH_STEPS, [0.5, 0.75]),
            "scale: $K^V$": (BOTH_STEPS, [1, NAN]),
        },
        choices={"alignment": "plain", "scale": "trace"},
    ),
    Known(
        "region_dynamics",
        curves={
            "over_steps: at examples": (BOTH_STEPS, [3, 3.5]),
            "over_steps: between classes": (BOTH_STEPS, [4.5, 4]),
            "by_layer: at examples": (LAYERS, [50, 30]),
            "by_layer: between classes": (LAYERS, [25, 60]),
            "motion: $K$": (BOTH_STEPS, [0.25, 0.5]),
            "motion: by weights": (BOTH_STEPS, [0.125, 0.375]),
            "motion: by gates": (BOTH_STEPS, [0.1875, 0.25]),
        },
    ),
    Known(
        "region_dynamics",
        curves={
            "over_steps: at examples": (BOTH_STEPS, [1.75, 1.5]),
            "over_steps: between classes": (BOTH_STEPS, [1.25, 0.75]),
            "by_layer: at examples": (LAYERS, [25, 10]),
            "by_layer: between classes": (LAYERS, [12.5, 5]),
            "motion: gates": (BOTH_STEPS, [75, 12.5]),
        },
        choices={"radius": "0", "motion": "share"},
    ),
    Known(
        "updates",
        curves=UPDATES
        | {
            "over_steps: layer 1": (BOTH_STEPS, [3.5, 3]),
            "over_steps: layer 3": (BOTH_STEPS, [NAN, 12]),
        },
    ),
    Known(
        "updates",
        curves=UPDATES | {"over_steps: layer 1": (BOTH_STEPS, [0.03, 0.01])},
        choices={"steps": "update"},
    ),
    Known(
        "updates",
        curves=UPDATES | {"over_steps: layer 2": (BOTH_STEPS, [0.15, 0.2])},
        choices={"steps": "moved"},
    ),
    Known("updates", curves=UPDATES, choices={"network": "feature"}),
    Known(
        "half_spaces",
        curves={
            "over_steps: layer 1": (BOTH_STEPS, [20, 5]),
            "over_steps: layer 2": (BOTH_STEPS, [16, 8]),
            "over_steps: all layers": (BOTH_STEPS, [2, 0.125]),
        },
        matrices={"angles": [[0, BETWEEN], [90, 90 - BETWEEN]]},
    ),
    Known(
        "half_spaces",
        curves={"over_steps: layer 2": (BOTH_STEPS, [0, 30])},
        matrices={
            "angles": [
                [BETWEEN, 0],
                [BETWEEN, 180 - 2 * BETWEEN],
                [90, 90 - BETWEEN],
            ]
        },
        choices={"layer": "1", "steps": "moved"},
    ),
    Known(
        "error_prediction",
        curves=ONE_AND_ALL
        | {
            "changes: as predicted": ([-0.5, 0.75], [-0.5, 0.75]),
            "changes: measured": (
                np.repeat([-0.5, 0.25, 0.375, 0.75], 2),
                [-0.25, NAN, 0.5, NAN, 0.125, NAN, 0, NAN],
            ),
        },
    ),
    Known(
        "hidden_outputs",
        matrices={
            "units_as_is": EACH_ALONE,
            "units_reversed": EACH_ALONE,
            "units_ones": EACH_ALONE,
        },
    ),
    Known(
        "hidden_outputs",
        matrices={
            "units_as_is": [[0.5, -0.25, NAN], [0.0625, -0.5, 0]],
            "units_reversed": EACH_ALONE,  # the largest of all passes
            "units_ones": [[0.25, -0.125, NAN], [0.03125, -0.25, 0]],
        },
        choices={"scale": "layer"},
    ),
)
CASES = [
    pytest.param(case, id=f"{case.panel}-{''.join(case.choices.values())}")
    for case in (*OF_BOTH, *OF_A)
]


def curves(scene: Scene) -> dict[str, tuple[Array, Array]]:
    return {
        f"{one.key}: {curve.name}": (curve.x, curve.y)
        for one in scene.charts
        for curve in one.curves
        if one.key != "graph"  # of paths: see test_more_panels
    }


def of_b(scene: Scene) -> set[str]:
    found = {one.key for one in scene.charts if one.matrix is not None and one.matrix.of_compared}
    for one in scene.charts:
        found |= {f"{one.key}: {curve.name}" for curve in one.curves if curve.role == "compared"}
    return found - {"losses: predicted"}  # which stands beside what is measured of A


def assert_shown(scene: Scene, case: Known) -> None:
    found = curves(scene)
    assert found.keys() == case.curves.keys()
    for name, (x, y) in case.curves.items():
        np.testing.assert_allclose(found[name][0], list(x), err_msg=name)
        np.testing.assert_allclose(found[name][1], y, rtol=1e-9, err_msg=name)
    matrices = {one.key: one.matrix.values for one in scene.charts if one.matrix is not None}
    assert matrices.keys() == case.matrices.keys()
    for name, values in case.matrices.items():
        np.testing.assert_allclose(matrices[name], values, atol=1e-12, err_msg=name)
    assert scene.step == known.STEP


@pytest.mark.check
@pytest.mark.parametrize("case", CASES)
def test_a_panel_draws_the_numbers_that_were_read(case: Known, recorded: Recorded) -> None:
    """Recorded: titles with their units and owners, facts, and which curves and matrices are B's.

    Panels that show A alone draw the same beside B.
    """
    scene = draw_scene(case.panel, with_choices(known.BOTH, **case.choices))
    assert_shown(scene, case)
    facts = {fact.name: fact.value for fact in scene.facts}
    recorded([{one.key: one.title for one in scene.charts}, facts, sorted(of_b(scene))])
    if case in OF_A:
        assert_same(draw_scene(case.panel, with_choices(known.A, **case.choices)), scene)


@pytest.mark.discovery
def test_every_panel_has_known_numbers() -> None:
    ours = {name for name, spec in all_panels().items() if "dgn_engine" in spec.draw.__module__}
    assert {case.panel for case in (*OF_BOTH, *OF_A)} == ours


WITH_STEPS = [case for case in CASES if any("over_steps" in name for name in case.values[0].curves)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", WITH_STEPS)
def test_an_event_stands_at_its_step_beside_curves_over_steps(case: Known) -> None:
    scene = draw_scene(case.panel, with_choices(known.BOTH, **case.choices))
    for one in scene.charts:
        assert one.marks == (known.MARKS if one.has_step_axis else ())
        assert not one.has_step_axis or chart_range(one)[0][0] <= 3.0 <= chart_range(one)[0][1]


@pytest.mark.parametrize("panel", own(all_panels()))
def test_readings_of_a_second_b_leave_nothing_of_the_first(panel: str) -> None:
    """A panel keeps nothing between two drawings."""
    spec = all_panels()[panel]
    other = replace(known.OTHER, name="second.pt", readings={}, series={}, step=4)
    alone = spec.draw(replace(known.BOTH, compared=other))
    spec.draw(known.BOTH)
    again = spec.draw(replace(known.BOTH, compared=other))
    for shown in (alone, again):
        assert isinstance(shown, Scene)
        assert of_b(shown) <= {"by_layer: equal"}
        assert "other.pt" not in shown.note + "".join(one.title for one in shown.charts)
    assert [one.key for one in again.charts] == [one.key for one in alone.charts]  # type: ignore[union-attr]


def spoilt(values: Array, wrong: float) -> Array:
    """The first number is no number, where they are numbers and not places or labels."""
    if values.dtype.kind != "f" or not values.size:
        return values
    found = values.copy()
    found.flat[0] = wrong
    return found


def spoil(reading: Reading, wrong: float) -> Reading:
    places = ("x", "y")  # of the grid of regions
    arrays = {k: v if k in places else spoilt(v, wrong) for k, v in reading.arrays.items()}
    counts = {"regions", "total", "active"}
    scalars = {k: one if k in counts else wrong for k, one in reading.scalars.items()}
    return replace(reading, arrays=arrays, scalars=scalars)


def spoil_series(found: Mapping[tuple[str, str], Series], wrong: float) -> dict[Any, Series]:
    return {key: replace(one, values=spoilt(one.values, wrong)) for key, one in found.items()}


@pytest.mark.parametrize("wrong", [NAN, np.inf])
@pytest.mark.parametrize("panel", own(all_panels()))
def test_numbers_that_are_not_finite_leave_the_others_where_they_are(
    panel: str, wrong: float
) -> None:
    spec = all_panels()[panel]
    other = replace(
        known.OTHER,
        readings={k: spoil(one, wrong) for k, one in known.OTHER.readings.items()},
        series=spoil_series(known.OTHER.series, wrong),
    )
    view = replace(
        known.BOTH,
        readings={name: spoil(one, wrong) for name, one in known.BOTH.readings.items()},
        series=spoil_series(known.BOTH.series, wrong),
        compared=other,
    )
    for choices in every_choice(spec, known.BOTH):
        found, sound = (
            draw_scene(panel, with_choices(view, **choices)),
            draw_scene(panel, with_choices(known.BOTH, **choices)),
        )
        assert [one.key for one in found.charts] == [one.key for one in sound.charts]
        for one in apply_chart_settings(
            found, {one.key: ChartSettings() for one in found.charts}
        ).charts:
            assert_finite_ranges(one)
        assert all(fact.value for fact in found.facts)
        assert not any("nan" in fact.value or "inf" in fact.value for fact in found.facts)


def every_choice(spec: PanelSpec, view: View) -> list[dict[str, str]]:
    """Each value of each option, the others as they are at first."""
    return [{}] + [{o.id: value} for o in spec.options for value, _ in o.values(view)[1:]]


def assert_finite_ranges(one: Chart) -> None:
    for low, high in chart_range(one):
        assert np.isfinite([low, high]).all(), one.key
        assert low < high, one.key
    if one.matrix is not None:
        assert np.isfinite([one.matrix.low, one.matrix.high]).all(), one.key
        assert one.matrix.low < one.matrix.high, one.key


def recorded_run(name: str, factor: float, examples: int = 5) -> RunCurves:
    """A run whose numbers are so many times 1, 2 and 3; it was tested, but for 'train'."""
    steps, values = np.array([1, 4, 9]), factor * np.array([1.0, 2.0, 3.0])
    split = "train" if name == "train" else "test"
    scalars = {
        ("training", f"{split}_loss"): (steps, values),
        ("training", f"{split}_accuracy"): (steps, values / 100),
        ("ntk", "trace_value"): (steps, values),
    }
    spectrum = {"eigenvalues": values[::-1] / 10, "cumulative": values / 100}
    return RunCurves(name, name, scalars, spectrum, 9, examples={"ntk": examples})


def test_curves_of_recorded_runs_are_each_their_own() -> None:
    def shown(view: View, panel: str) -> dict[str, tuple[Any, Any]]:
        found = curves(draw_scene(panel, view))
        return {name: (x.tolist(), y.tolist()) for name, (x, y) in found.items()}

    runs = (recorded_run("one", 1.0), recorded_run("train", 10.0), recorded_run("few", 4.0, 3))
    view = replace(known.A, overlaid=overlaid_runs(runs), traced={"ntk": 5})
    steps, training = [1, 4, 9], shown(view, "training")
    for name, values in (("one", [1, 2, 3]), ("train", [10, 20, 30]), ("few", [4, 8, 12])):
        if name != "train":  # A has a curve of this name
            assert training[f"loss: {name}"] == (steps, values)
            assert training[f"accuracy: {name}"] == (steps, pytest.approx(values))
        spectrum = shown(view, "spectrum")
        eigenvalues = [value / 10 for value in reversed(values)]
        assert spectrum[f"eigenvalues: {name}"] == ([1, 2, 3], pytest.approx(eigenvalues))
        cumulative = [value / 100 for value in values]
        assert spectrum[f"cumulative: {name}"] == ([1, 2, 3], pytest.approx(cumulative))
    traces = shown(view, "ntk")
    assert traces["over_steps: one $K^V$"] == (steps, [1, 2, 3])
    assert traces["over_steps: train $K^V$"] == (steps, [10, 20, 30])
    assert "over_steps: few $K^V$" not in traces  # a sum over other examples
    left_out = " few (3)."
    assert matching_runs(view, "ntk")[0] == view.overlaid[:2]
    assert matching_runs(view, "ntk")[1].endswith(left_out)
    assert draw_scene("ntk", view).note.endswith(left_out)
    assert matching_runs(replace(view, traced={}), "ntk") == (view.overlaid, "")
    charts = draw_scene("training", view).charts
    looks = {(curve.role, curve.dash) for curve in charts[0].curves}
    assert len(looks) == len(charts[0].curves)
    again = replace(view, overlaid=overlaid_runs((recorded_run("two", 2.0),)))
    assert shown(again, "training")["loss: two"] == (steps, [2, 4, 6])
    assert "loss: one" not in shown(again, "training")
