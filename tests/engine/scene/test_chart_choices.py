"""The menu of a chart as data: what is offered for which chart, and what it leads to."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.scene.chart_choices import ChartChoice, Drawn, asked_range, choices, typed_range
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Matrix, Ramp, Scene
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.matrix_difference import Subtrahend
from tests.refusals import refused
from tests.snapshots import Recorded


def _loss(label: str = "step", y: float = 1.0) -> Chart:
    x = np.arange(10)
    return Chart("loss", "Loss", Axis(label), Axis(), curves=(Curve("a", x, x * y),))


def _pairs(key: str, values: Array, bar: str = "", ramp: Ramp = "sequential") -> Chart:
    matrix = Matrix(key, values, ramp, 0.0, 1.0, bar, "example", "example")
    return Chart(key, key.title(), Axis(), Axis(), matrix=matrix)


def _offered(drawn: Drawn, key: str, menu: str) -> list[str]:
    return [row.text for row in choices(drawn, key) if row.menu == menu]


def _row(drawn: Drawn, key: str, text: str) -> ChartChoice:
    return next(row for row in choices(drawn, key) if row.text == text)


def _set(chart: Chart, **settings: object) -> Drawn:
    wanted = ChartSettings(**settings)  # type: ignore[arg-type]  # keywords of ChartSettings
    return Drawn(Scene((chart,)), {chart.key: wanted})


def test_each_kind_of_chart_has_a_menu_of_its_own(recorded: Recorded) -> None:
    signed, gates = -np.eye(3), np.zeros((3, 4), dtype=np.uint8)
    kinds = {
        "steps": _loss(),
        "index": _loss("index", -1.0),
        "pairs": _pairs("pairs", np.eye(3)),
        "signed": _pairs("signed", signed, ramp="diverging"),
        "units": Chart("", "", Axis(), Axis(), matrix=Matrix("g", np.eye(3), "sequential", 0, 1)),
        "gates": Chart("", "", Axis(), Axis(), matrix=Matrix("g", gates, "gates", 0.0, 1.0)),
    }
    recorded(
        {
            name: [
                [row.menu, row.text, row.chosen] for row in choices(Drawn(Scene((c,)), {}), c.key)
            ]
            for name, c in kinds.items()
        }
    )


def test_what_does_not_apply_is_absent() -> None:
    no_steps = Drawn(Scene((_loss("index"),)), {})
    assert "Last 200 steps" not in _offered(no_steps, "loss", "Range")
    assert _offered(no_steps, "loss", "Smoothing") == []
    negative = Drawn(Scene((_loss(y=-1.0),)), {})
    assert "Logarithmic y" not in _offered(negative, "loss", "Range")
    small = Chart("m", "", Axis(), Axis(), matrix=Matrix("m", np.eye(2), "gates", 0, 1), small=True)
    assert choices(Drawn(Scene((small,)), {}), "m") == ()
    assert choices(no_steps, "gone") == ()


def test_a_choice_leads_to_settings_and_says_whether_it_is_chosen() -> None:
    drawn = _set(_loss(), last=200, smoothing=0.9)
    chosen = [row.text for row in choices(drawn, "loss") if row.chosen]
    assert chosen == ["Last 200 steps", "All of y", "0.9"]
    after = _row(drawn, "loss", "All steps").after["loss"]
    assert after == ChartSettings(smoothing=0.9)
    assert _row(drawn, "loss", "Logarithmic y").after["loss"].log_y is True
    again = _set(_loss(), log_y=True, log_x=True)
    assert _row(again, "loss", "Logarithmic y").after["loss"] == ChartSettings(log_x=True)
    assert _row(again, "loss", "Logarithmic x").after["loss"] == ChartSettings(log_y=True)


def test_colours_are_chosen_for_all_matrices_under_one_bar() -> None:
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "overlap")))
    after = _row(Drawn(scene, {}), "a", "All values").after
    assert set(after) == {"a", "b"}
    assert after["b"].colours == ColourChoice("whole")


def test_other_matrices_of_the_panel_can_be_subtracted() -> None:
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "x"), _pairs("c", np.eye(2))))
    drawn = Drawn(scene, {})
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
    drawn = Drawn(scene, {}, drawn_with, others)
    assert _offered(drawn, "a", "Difference") == ["None", "T1 − T2"]
    wanted = _row(drawn, "a", "T1 − T2").after["a"]
    assert wanted.minus == Subtrahend("a", "part", "1")
    set_so = Drawn(scene, {"a": wanted}, drawn_with, others)
    assert _row(set_so, "a", "T1 − T2").chosen
    assert _row(set_so, "a", "None").after == {"a": PLAIN}


def test_a_difference_begins_with_colours_of_its_own() -> None:
    scene = Scene((_pairs("a", np.eye(3), "x"), _pairs("b", np.eye(3), "y")))
    now = {"a": ChartSettings(colours=ColourChoice("pairs", ramp="grey"))}
    assert _row(Drawn(scene, now), "a", "A − B").after["a"].colours == ColourChoice()
    then = Drawn(scene, {"a": ChartSettings(minus=Subtrahend("b"))})
    assert [row.after["a"] for row in choices(then, "a") if row.chosen and row.menu == "Colours"]
    alone = Drawn(Scene((_pairs("a", np.eye(3)),)), {})
    assert len(_offered(then, "a", "Colours")) > len(_offered(alone, "a", "Colours"))


def test_typed_ends_make_a_range() -> None:
    assert typed_range(" 1e-3", "1000 ") == (0.001, 1000.0)
    assert typed_range("−2", "3") == (-2.0, 3.0)
    y = _row(Drawn(Scene((_loss(),)), {}), "loss", "y from … to …")
    assert asked_range(y, (0.0, 2.0)) == {"loss": ChartSettings(y_range=(0.0, 2.0))}
    scene = Scene((_pairs("a", np.eye(3)), _pairs("b", np.eye(3), "overlap")))
    colours = asked_range(_row(Drawn(scene, {}), "a", "From … to …"), (0.0, 2.0))
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
        typed_range(low, high, log)
