"""In a comparison every number stands at the side that it was measured on, in every panel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.compared import compared_view, curve_differences, pair_labels
from dgn_engine.scene.elements import Chart, Curve, Scene, Shown
from dgn_engine.scene.panel_spec import ComparedRun, PanelSpec, Series, View, all_panels
from dgn_engine.views.drawn_panel import draw_panel
from tests.engine.panels import known_readings as known
from tests.engine.panels.pictures import find_chart
from tests.plugins import own

PLACES = ("labels", "classes", "x", "y")
COUNTS = ("regions", "total", "active", "rank", "contradictory")
OF_BOTH = ("agreement",)  # shows what A and B have in common, and the signed difference
OPTIONS = [
    (name, option.id, value)
    for name in own(all_panels())
    for option in all_panels()[name].options
    for value in (value for value, _ in option.values(known.BOTH))
]
CASES = [*((name, "", "") for name in own(all_panels())), *OPTIONS]


def other_array(name: str, values: Array) -> Array:
    if name in PLACES or name.startswith("dead_"):
        return values
    return 1 - values if values.dtype == np.uint8 else (values * 0.75).astype(values.dtype)


def other_reading(reading: Reading) -> Reading:
    """The same with other numbers, at another step."""
    arrays = {name: other_array(name, values) for name, values in reading.arrays.items()}
    scalars = {
        name: value if name in COUNTS else value * 0.75 for name, value in reading.scalars.items()
    }
    return replace(reading, step=known.STEP_OF_B, arrays=arrays, scalars=scalars)


def other_series(series: Series) -> Series:
    return Series(series.steps, series.values * 0.75, "b")


B = ComparedRun(
    "other.pt",
    "ReLU",
    known.OTHER.layers,
    (0, 1),
    known.STEP_OF_B,
    {
        name: other_reading(reading)
        for name, reading in known.A.readings.items()
        if name != "agreement"
    },
    {key: other_series(series) for key, series in known.A.series.items()},
    run="b",
)
BOTH = replace(known.A, compared=B)
SWAPPED = replace(
    compared_view(BOTH) or View(),
    marks=known.MARKS,
    compared=replace(
        B, readings=known.A.readings, series=known.A.series, step=7, regime="FL", run=""
    ),
)


def drawn(spec: PanelSpec, view: View) -> Scene:
    shown: Shown = draw_panel(spec, view)
    assert isinstance(shown, Scene), shown
    return shown


def is_b(words: str) -> bool:
    return words == "B" or words.startswith(("B ", "B,"))


def same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and np.allclose(one, other, equal_nan=True)


def matrices(scene: Scene) -> list[Array]:
    return [chart.matrix.values for chart in scene.charts if chart.matrix is not None]


def curves(scene: Scene) -> Iterator[tuple[Chart, Curve]]:
    for chart in scene.charts:
        for curve in chart.curves:
            yield chart, curve


def numbers_of(view: View) -> list[float]:
    return [value for reading in view.readings.values() for value in reading.scalars.values()]


@pytest.mark.parametrize(("panel", "option", "value"), CASES)
def test_each_number_is_that_of_the_side_that_it_is_named_after(
    panel: str, option: str, value: str
) -> None:
    spec, chosen = all_panels()[panel], {option: value}
    both = drawn(spec, replace(BOTH, choices=chosen))
    of_b = compared_view(BOTH)
    assert of_b is not None
    if panel in OF_BOTH:
        return
    a, b = (drawn(spec, replace(view, choices=chosen)) for view in (known.A, of_b))
    facts = [{fact.name: fact.value for fact in scene.facts} for scene in (a, b)]
    for fact in both.facts:
        if fact.name in ("mean A", "mean B"):
            assert fact.value in (facts[fact.name == "mean B"]).values()
        else:
            pair = [side.get(fact.name, "–") for side in facts]
            assert fact.value == f"A {pair[0]} | B {pair[1]}"
    for chart in both.charts:
        matrix = chart.matrix
        if matrix is None or chart.key.endswith("_difference"):
            continue
        alone = (a, b)[matrix.of_compared]
        assert is_b(chart.title) == matrix.of_compared, chart.title
        assert any(same(matrix.values, values) for values in matrices(alone)), chart.key
    for chart, curve in curves(both):
        if chart.key in ("ratio", "accuracy_difference"):
            continue
        named_b = is_b(curve.name) or is_b(chart.title)
        alone = (a, b)[named_b]
        level = curve.y.size == 2 and curve.y[0] == curve.y[1]
        assert any(same(curve.y, one.y) for _, one in curves(alone)) or (
            level and named_b and curve.y[0] in np.abs(numbers_of(of_b))
        ), (chart.key, curve.name)


def test_curves_are_subtracted_and_divided_where_both_have_a_point() -> None:
    a = Curve("test", np.array([1, 2, 3, 5]), np.array([1.0, 4.0, 9.0, 2.0]))
    b = replace(a, x=np.array([2, 3, 4, 5]), y=np.array([2.0, 3.0, 7.0, 0.0]))
    (difference,) = curve_differences([a], [b])
    assert (difference.x.tolist(), difference.y.tolist()) == ([2, 3, 5], [2.0, 6.0, 2.0])
    (ratio,) = curve_differences([a], [b], ratio=True)
    assert same(ratio.y, np.array([2.0, 3.0, np.nan]))
    assert curve_differences([a], [replace(b, name="train")]) == ()
    assert curve_differences([a], [replace(b, x=b.x + 10)]) == ()
    scene = drawn(all_panels()["training"], BOTH)
    (test,) = (c for c in find_chart(scene, "accuracy_difference").curves if c.name == "test")
    series = known.A.series["training", "test_accuracy"]
    assert same(test.y, 100 * 0.25 * series.values)


@pytest.mark.parametrize("panel", own(all_panels()))
def test_the_sides_of_a_difference_are_a_and_b_in_this_order(panel: str) -> None:
    scene = drawn(all_panels()[panel], BOTH)
    for chart in scene.charts:
        if chart.matrix is not None and (sides := chart.matrix.sides) is not None:
            assert sides.names == ("A", "B", "A − B")
            values = {c.matrix.of_compared: c.matrix.values for c in scene.charts
                      if c.matrix is not None and c.matrix.sides is sides
                      and not c.key.endswith("_difference")}  # fmt: skip
            assert same(sides.values[0], values[False])
            assert same(sides.values[1], values[True])
            assert same(sides.values[2], values[False].astype(float) - values[True])


@pytest.mark.parametrize("panel", [name for name in own(all_panels()) if name not in OF_BOTH])
def test_a_and_b_exchanged_exchange_every_number(panel: str) -> None:
    spec = all_panels()[panel]
    there, back = (drawn(spec, view).facts for view in (BOTH, SWAPPED))
    for one, other in zip(there, back, strict=True):
        a, _, b = one.value.partition(" | ")
        if b:
            expected = f"A {b.removeprefix('B ')} | B {a.removeprefix('A ')}"
            assert (other.name, other.value) == (one.name, expected)


def test_of_a_step_of_the_run_itself_the_scores_are_those_up_to_there() -> None:
    own_step = replace(B, own=True, series={}, at=4, labels=("", ""))
    scene = drawn(all_panels()["training"], replace(known.A, compared=own_step))
    loss = known.A.series["training", "train_loss"].until(4)
    (fact,) = (fact for fact in scene.facts if fact.name == "train loss")
    assert fact.value.endswith(f"| B {loss.values[-1]:g}")
    assert not any(is_b(curve.name) for _, curve in curves(scene))
    assert pair_labels(own_step) == ("A", "B")
