"""Scenes with the settings of single charts: ranges, logarithms, smoothing."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.chart_choices import (
    ChartChoice,
    DrawnScene,
    list_choices,
    parse_range,
    settings_with_range,
)
from dgn_engine.scene.chart_settings import (
    PLAIN,
    ChartSettings,
    apply_chart_settings,
    smooth_values,
)
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Matrix, Ramp, Scene
from dgn_engine.scene.kept_charts import charts_as_json, charts_from_json
from dgn_engine.scene.matrix_colours import SPANS, ColourChoice
from dgn_engine.scene.matrix_difference import Subtrahend
from tests.refusals import refused
from tests.snapshots import Recorded


def looped(values: list[float], weight: float) -> list[float]:
    """TensorBoard's smoothing, one value after the other."""
    last, count, found = 0.0, 0, []
    for value in values:
        if not math.isfinite(value):
            found.append(value)
            continue
        last = last * weight + (1 - weight) * value
        count += 1
        found.append(last / (1 - weight**count))
    return found


def _loss(steps: int = 2000, **more: object) -> Chart:
    x = np.arange(1, steps + 1)
    y = 10.0 / x + 0.01 * np.random.default_rng(0).random(steps)
    curve = Curve("train", x, y, role="muted")
    axis = Axis("step", limits=(0.0, float(steps)))
    return Chart("loss", "Loss", axis, Axis(), curves=(curve,), **more)  # type: ignore[arg-type]  # keywords of Chart


def _one(chart: Chart, **settings: object) -> Chart:
    wanted = ChartSettings(**settings)  # type: ignore[arg-type]  # keywords of ChartSettings
    return apply_chart_settings(Scene((chart,)), {chart.key: wanted}).charts[0]


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.6, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 1000])
def test_smoothing_is_that_of_a_plain_loop(weight: float, count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    np.testing.assert_allclose(
        smooth_values(values, weight), looped(values.tolist(), weight), rtol=1e-10
    )


def test_what_is_not_finite_is_passed_over_and_integers_are_left_alone() -> None:
    values = [1.0, math.nan, 3.0, math.inf, 5.0]
    np.testing.assert_allclose(smooth_values(np.array(values), 0.5), looped(values, 0.5))
    values = np.array([0, 1, 0, 1])
    np.testing.assert_allclose(smooth_values(values, 0.9), looped([0.0, 1.0, 0.0, 1.0], 0.9))
    assert values.tolist() == [0, 1, 0, 1]


def test_without_settings_the_scene_is_the_very_same() -> None:
    scene = Scene((_loss(),))
    assert apply_chart_settings(scene, {}) is scene
    assert apply_chart_settings(scene, {"loss": PLAIN, "other": ChartSettings(last=5)}) is scene


def test_the_last_steps_are_shown_as_far_as_there_are_so_many() -> None:
    assert _one(_loss(), last=200).x.limits == (1800.0, 2000.0)
    assert _one(_loss(100), last=200).x.limits == (0.0, 100.0)


def test_the_y_axis_reaches_as_far_as_what_is_visible() -> None:
    chart = _one(_loss(), last=200)
    curve = chart.curves[0]
    seen = curve.y[curve.x >= 1800]
    low, high = chart_range(chart)[1]
    span = seen.max() - seen.min()
    np.testing.assert_allclose((low, high), (seen.min() - 0.05 * span, seen.max() + 0.05 * span))


def test_every_value_stays_in_the_scene_whatever_is_visible() -> None:
    before = _loss()
    chart = _one(before, last=200, log_x=True, y_range=(0.0, 1.0), smoothing=0.9)
    np.testing.assert_array_equal(chart.curves[0].x, before.curves[0].x)
    np.testing.assert_array_equal(chart.curves[0].y, before.curves[0].y)


def test_a_logarithmic_axis_begins_at_the_first_step_and_needs_something_positive() -> None:
    chart = _one(_loss(), log_x=True)
    assert chart.x.log
    assert chart.x.limits == (1.0, 2000.0)
    curve = Curve("a", np.array([0, 0]), np.array([-1.0, 0.0]))
    chart = _one(Chart("c", "", Axis("step"), Axis(), curves=(curve,)), log_x=True, log_y=True)
    assert not chart.x.log
    assert not chart.y.log
    chart = Chart("c", "", Axis("step"), Axis(log=True), curves=_loss().curves)
    assert not _one(chart, log_y=False).y.log


def test_a_fixed_range_holds_and_a_logarithm_of_it_needs_positive_ends() -> None:
    assert _one(_loss(), y_range=(-1.0, 2.0)).y.limits == (-1.0, 2.0)
    assert _one(_loss(), y_range=(0.1, 2.0), log_y=True).y == Axis(log=True, limits=(0.1, 2.0))
    both = _one(_loss(), y_range=(-1.0, 2.0), log_y=True).y
    assert both.log
    assert both.limits is not None
    assert both.limits[0] > 0


def test_a_smoothed_line_lies_over_the_raw_one_where_there_is_a_curve_over_steps() -> None:
    chart = _one(_loss(), smoothing=0.9)
    raw, line = chart.curves
    assert (raw.faint, raw.thick, raw.smoothed) == (True, False, 0.0)
    assert (line.faint, line.thick, line.smoothed) == (False, True, 0.9)
    assert raw.name == line.name == "train"
    np.testing.assert_allclose(line.y, looped(raw.y.tolist(), 0.9))
    chart = Chart("loss", "", Axis("index"), Axis(), curves=_loss().curves)
    assert _one(chart, smoothing=0.9, last=100) == chart
    assert len(_one(_loss(2), smoothing=0.9).curves) == 1


def test_the_note_says_that_lines_are_smoothed() -> None:
    wanted = {"loss": ChartSettings(smoothing=0.9)}
    scene = apply_chart_settings(Scene((_loss(),), note="Square loss."), wanted)
    assert " 0.9; " in scene.note
    assert scene.note.endswith(". Square loss.")


def test_small_pictures_have_no_settings() -> None:
    matrix = Matrix("m", np.eye(3), "sequential", 0.0, 1.0)
    small = Chart("m", "", Axis(), Axis(), matrix=matrix, small=True)
    scene = Scene((small,))
    assert apply_chart_settings(scene, {"m": ChartSettings(colours=ColourChoice("whole"))}) is scene


@pytest.mark.parametrize("bad", [{"last": -1}, {"smoothing": 1.0}, {"smoothing": -0.1}])
def test_settings_that_make_no_sense_are_a_fault(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="smoothing"):
        ChartSettings(**bad)  # type: ignore[arg-type]  # keywords of ChartSettings


def test_an_empty_chart_may_be_set() -> None:
    empty = np.zeros(0)
    chart = Chart("c", "", Axis("step"), Axis(), curves=(Curve("a", empty, empty),))
    _one(chart, last=10, log_x=True, log_y=True, smoothing=0.5)


# Settings of charts as JSON: written and read back, and what a stranger may have written.

EVERY = (
    ChartSettings(last=200),
    ChartSettings(log_x=True),
    ChartSettings(log_y=True),
    ChartSettings(log_y=False),
    ChartSettings(y_range=(-1.0, 2.5)),
    ChartSettings(y_range=(0, 2)),
    ChartSettings(smoothing=0.97),
    ChartSettings(minus=Subtrahend("active", "part", "1")),
    ChartSettings(minus=Subtrahend("b")),
    *(ChartSettings(colours=ColourChoice(span)) for span in SPANS),
    ChartSettings(colours=ColourChoice("fixed", (0.25, 0.75), "grey")),
    ChartSettings(colours=ColourChoice(ramp="cet_l17")),
    ChartSettings(1000, True, False, (1.0, 2.0), 0.6, ColourChoice("pairs"), Subtrahend("x")),
)


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_what_is_written_is_read_back(one: ChartSettings) -> None:
    text = json.dumps(charts_as_json({"a": one, "plain": PLAIN}))
    assert charts_from_json(json.loads(text)) == {"a": one}


def test_only_what_was_set_is_written() -> None:
    assert charts_as_json({"a": ChartSettings(last=200), "b": PLAIN}) == {"a": {"last": 200}}


@pytest.mark.parametrize(
    "bad",
    [
        {"last": -1}, {"last": 2.5}, {"last": True}, {"last": "200"}, {"last": 1 << 80},
        {"log_x": 1}, {"log_y": "yes"}, {"smoothing": 1.0}, {"smoothing": -0.5}, {"smoothing": "a"},
        {"smoothing": float("nan")}, {"y_range": [2.0, 1.0]}, {"y_range": [0.0]},
        {"y_range": [0.0, float("inf")]}, {"y_range": "ab"}, {"span": "all"}, {"span": ["whole"]},
        {"span": "fixed"}, {"span": "fixed", "fixed": [1.0, 0.0]}, {"ramp": "jet"}, {"ramp": 3},
        {"minus": ["a"]}, {"minus": [1, 2, 3]}, {"minus": ["a", "b", "c" * 201]}, {"other": 1},
        [], 5,
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_left_out(bad: Any) -> None:
    assert charts_from_json({"a": bad}) == {}
    good = {"last": 200}
    assert charts_from_json({"a": bad, "b": good}) == {"b": ChartSettings(last=200)}


def test_names_and_numbers_of_charts_are_bounded() -> None:
    assert charts_from_json({"a" * 201: {"last": 5}}) == {}
    assert len(charts_from_json({str(i): {"last": 5} for i in range(1000)})) == 200
    assert charts_from_json(None) == charts_from_json([1]) == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_NAMES = ("last", "log_x", "log_y", "y_range", "smoothing", "span", "fixed", "ramp", "minus")


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_nothing_that_json_can_say_is_raised_at(tree: dict[str, Any]) -> None:
    charts_from_json({"a": tree})


# The menu of a chart as data: what is offered for which chart, and what it leads to.


def _line(label: str = "step", y: float = 1.0) -> Chart:
    x = np.arange(10)
    return Chart("loss", "Loss", Axis(label), Axis(), curves=(Curve("a", x, x * y),))


def _pairs(key: str, values: Array, bar: str = "", ramp: Ramp = "sequential") -> Chart:
    matrix = Matrix(key, values, ramp, 0.0, 1.0, bar, "example", "example")
    return Chart(key, key.title(), Axis(), Axis(), matrix=matrix)


def _offered(drawn: DrawnScene, key: str, menu: str) -> list[str]:
    return [row.text for row in list_choices(drawn, key) if row.menu == menu]


def _row(drawn: DrawnScene, key: str, text: str) -> ChartChoice:
    return next(row for row in list_choices(drawn, key) if row.text == text)


def _set(chart: Chart, **settings: object) -> DrawnScene:
    wanted = ChartSettings(**settings)  # type: ignore[arg-type]  # keywords of ChartSettings
    return DrawnScene(Scene((chart,)), {chart.key: wanted})


def test_each_kind_of_chart_has_a_menu_of_its_own(recorded: Recorded) -> None:
    signed, gates = -np.eye(3), np.zeros((3, 4), dtype=np.uint8)
    kinds = {
        "steps": _line(),
        "index": _line("index", -1.0),
        "pairs": _pairs("pairs", np.eye(3)),
        "signed": _pairs("signed", signed, ramp="diverging"),
        "units": Chart("", "", Axis(), Axis(), matrix=Matrix("g", np.eye(3), "sequential", 0, 1)),
        "gates": Chart("", "", Axis(), Axis(), matrix=Matrix("g", gates, "gates", 0.0, 1.0)),
    }
    recorded(
        {
            name: [
                [row.menu, row.text, row.chosen]
                for row in list_choices(DrawnScene(Scene((c,)), {}), c.key)
            ]
            for name, c in kinds.items()
        }
    )


def test_what_does_not_apply_is_absent() -> None:
    no_steps = DrawnScene(Scene((_line("index"),)), {})
    assert "Last 200 steps" not in _offered(no_steps, "loss", "Range")
    assert _offered(no_steps, "loss", "Smoothing") == []
    negative = DrawnScene(Scene((_line(y=-1.0),)), {})
    assert "Logarithmic y" not in _offered(negative, "loss", "Range")
    small = Chart("m", "", Axis(), Axis(), matrix=Matrix("m", np.eye(2), "gates", 0, 1), small=True)
    assert list_choices(DrawnScene(Scene((small,)), {}), "m") == ()
    assert list_choices(no_steps, "gone") == ()


def test_a_choice_leads_to_settings_and_says_whether_it_is_chosen() -> None:
    drawn = _set(_line(), last=200, smoothing=0.9)
    chosen = [row.text for row in list_choices(drawn, "loss") if row.chosen]
    assert chosen == ["Last 200 steps", "Full y range", "0.9"]
    after = _row(drawn, "loss", "All steps").after["loss"]
    assert after == ChartSettings(smoothing=0.9)
    assert _row(drawn, "loss", "Logarithmic y").after["loss"].log_y is True
    again = _set(_line(), log_y=True, log_x=True)
    assert _row(again, "loss", "Logarithmic y").after["loss"] == ChartSettings(log_x=True)
    assert _row(again, "loss", "Logarithmic x").after["loss"] == ChartSettings(log_y=True)


def test_colours_are_chosen_for_all_matrices_under_one_bar() -> None:
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "overlap")))
    after = _row(DrawnScene(scene, {}), "a", "All values").after
    assert set(after) == {"a", "b"}
    assert after["b"].colours == ColourChoice("whole")


def test_other_matrices_of_the_panel_can_be_subtracted() -> None:
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "x"), _pairs("c", np.eye(2))))
    drawn = DrawnScene(scene, {})
    assert _offered(drawn, "a", "Difference") == ["None", "A − B"]  # c has another size
    assert _row(drawn, "a", "A − B").after == {"a": ChartSettings(minus=Subtrahend("b"))}
    assert _offered(drawn, "c", "Difference") == []


def test_other_layers_can_be_subtracted() -> None:
    titles = {"0": "T1", "1": "T2"}

    def drawn_with(option: str, value: str) -> Scene | None:
        if value not in titles:
            return None
        chart = _pairs("a", np.eye(3))
        return Scene((Chart("a", titles[value], chart.x, chart.y, matrix=chart.matrix),))

    scene = drawn_with("part", "0")
    assert scene is not None
    others = (("part", "0"), ("part", "1"), ("part", "2"))
    drawn = DrawnScene(scene, {}, drawn_with, others)
    assert _offered(drawn, "a", "Difference") == ["None", "T1 − T2"]
    wanted = _row(drawn, "a", "T1 − T2").after["a"]
    assert wanted.minus == Subtrahend("a", "part", "1")
    set_so = DrawnScene(scene, {"a": wanted}, drawn_with, others)
    assert _row(set_so, "a", "T1 − T2").chosen
    assert _row(set_so, "a", "None").after == {"a": PLAIN}


def test_a_difference_begins_with_colours_of_its_own() -> None:
    scene = Scene((_pairs("a", np.eye(3), "x"), _pairs("b", np.eye(3), "y")))
    now = {"a": ChartSettings(colours=ColourChoice("pairs", ramp="grey"))}
    assert _row(DrawnScene(scene, now), "a", "A − B").after["a"].colours == ColourChoice()
    then = DrawnScene(scene, {"a": ChartSettings(minus=Subtrahend("b"))})
    assert [
        row.after["a"] for row in list_choices(then, "a") if row.chosen and row.menu == "Colours"
    ]
    alone = DrawnScene(Scene((_pairs("a", np.eye(3)),)), {})
    assert len(_offered(then, "a", "Colours")) > len(_offered(alone, "a", "Colours"))


def test_typed_ends_make_a_range() -> None:
    assert parse_range(" 1e-3", "1000 ") == (0.001, 1000.0)
    assert parse_range("−2", "3") == (-2.0, 3.0)
    y = _row(DrawnScene(Scene((_line(),)), {}), "loss", "Set y range…")
    assert settings_with_range(y, (0.0, 2.0)) == {"loss": ChartSettings(y_range=(0.0, 2.0))}
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "overlap")))
    colours = settings_with_range(_row(DrawnScene(scene, {}), "a", "Set range…"), (0.0, 2.0))
    assert colours["a"] == ChartSettings(colours=ColourChoice("fixed", (0.0, 2.0)))
    assert set(colours) == {"a", "b"}


@pytest.mark.parametrize(
    ("low", "high", "log", "kind", "value"),
    [
        ("one", "2", False, "not-a-number", "one"),
        ("", "2", False, "not-a-number", ""),
        ("0", "1,5", False, "not-a-number", "1,5"),
        ("0", "inf", False, "not-a-number", "inf"),
        ("2", "2", False, "contradiction", "2"),
        ("0", "2", True, "out-of-bounds", "0"),
    ],
)
def test_ends_that_make_no_range_are_refused(
    low: str, high: str, log: bool, kind: str, value: str
) -> None:
    with refused(kind, value=value):
        parse_range(low, high, log)
