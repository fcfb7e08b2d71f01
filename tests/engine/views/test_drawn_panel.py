"""When a panel is drawn anew: where anything that it has read of its view is another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Empty, Mark, Scene, Shown
from dgn_engine.scene.panel_spec import About, ComparedRun, Option, PanelSpec, Series, View, always
from dgn_engine.scene.selection import make_selection
from dgn_engine.views.drawn_panel import DrawnPanel


def _series() -> Series:
    return Series(np.arange(3), np.arange(3.0))


def _run() -> Any:
    return object()


# What makes each field of a view another one; each call makes a new object.
OTHER: dict[str, Callable[[], Any]] = {
    "run": _run,
    "regime": lambda: "DL",
    "wiring": lambda: (1, 0),
    "step": lambda: 7,
    "readings": lambda: {"gates": Reading("gates", 1)},
    "series": lambda: {("gates", "active_0"): _series()},
    "marks": lambda: (Mark(3.0, "drop"),),
    "last": _run,
    "choices": lambda: {"layer": "1"},
    "paused": lambda: True,
    "trains": lambda: False,
    "diverged": lambda: 5,
    "compared": lambda: ComparedRun("b"),
    "overlaid": lambda: (_run(),),
    "probe_examples": lambda: 64,
    "outdated": lambda: {"gates": Mark(3.0, "drop")},
    "gaps": lambda: {"gates": ((1, 2),)},
    "traced": lambda: {"gates": 64},
    "left_out": lambda: {"": (1, 2)},
    "pictures": _run,
    "cursor": lambda: 7,
    "regimes": lambda: (_run(),),
    "tested": lambda: False,
}


class CountedPanel:
    """Reads these fields of its views, and counts how often it is asked."""

    def __init__(self, *fields: str) -> None:
        self.asked = 0
        self.fails = False
        self._fields = fields
        about = About("A panel of a test.")
        layers = Option("layer", "Layer", always(("0", "1"), ("1", "2")), follows=("layer", 0))
        unit = Option("unit", "Unit", always(("0", "1"), ("1", "2")), engine=True)
        options = (layers, unit)
        self.spec = PanelSpec("Counted", ("gates",), self.draw, about, options, draws_both=True)

    def draw(self, view: View) -> Shown:
        self.asked += 1
        if self.fails:
            raise RuntimeError("by the test")
        for name in self._fields:
            getattr(view, name)
        return Scene(())


def test_each_field_of_a_view_is_tried() -> None:
    assert OTHER.keys() == {one.name for one in dataclasses.fields(View)}


@pytest.mark.parametrize("name", OTHER)
def test_a_panel_is_drawn_anew_where_what_it_reads_is_another(name: str) -> None:
    reads, ignores = CountedPanel(name), CountedPanel(*(OTHER.keys() - {name}))
    plain, other = View(), replace(View(), **{name: OTHER[name]()})
    for counted, times in ((reads, 2), (ignores, 1)):
        drawn = DrawnPanel(counted.spec)
        first = drawn.draw(plain)
        assert drawn.draw(plain) is first
        assert drawn.draw(replace(plain)) is first
        second = drawn.draw(other)
        assert (second is not first, counted.asked) == (times == 2, times), name
        assert drawn.view is other


@pytest.mark.parametrize("name", ["readings", "series", "marks", "compared", "outdated", "run"])
def test_equal_objects_are_not_the_same_input(name: str) -> None:
    counted = CountedPanel(name)
    drawn = DrawnPanel(counted.spec)
    for _ in range(3):
        drawn.draw(replace(View(), **{name: OTHER[name]()}))
    assert counted.asked == 3


@pytest.mark.parametrize("name", ["wiring", "gaps", "traced", "left_out", "choices", "step"])
def test_plain_values_are_the_same_input_where_they_are_equal(name: str) -> None:
    counted = CountedPanel(name)
    drawn = DrawnPanel(counted.spec)
    for _ in range(3):
        drawn.draw(replace(View(), **{name: OTHER[name]()}))
    assert counted.asked == 1


def test_readings_and_curves_of_other_probes_change_nothing() -> None:
    counted = CountedPanel("readings", "series")
    drawn, gates = DrawnPanel(counted.spec), Reading("gates", 1)
    for step in range(3):
        readings = {"gates": gates, "ntk": Reading("ntk", step)}
        drawn.draw(View(readings=readings, series={("ntk", "trace"): _series()}))
    assert counted.asked == 1
    drawn.draw(View(readings={"ntk": Reading("ntk", 3)}))
    assert counted.asked == 2


def test_a_panel_without_probes_reads_the_scores() -> None:
    counted = CountedPanel("series")
    drawn = DrawnPanel(replace(counted.spec, probes=()))
    loss = _series()
    for _ in range(2):
        drawn.draw(View(series={("training", "loss"): loss, ("ntk", "trace"): _series()}))
    assert counted.asked == 1
    drawn.draw(View(series={("training", "loss"): _series()}))
    assert counted.asked == 2


def test_what_is_drawn_with_another_choice_is_an_input_as_well() -> None:
    class ReadsMore(CountedPanel):
        def draw(self, view: View) -> Shown:
            self.asked += 1
            return Scene((), step=view.step) if view.choices.get("layer") == "1" else Scene(())

    counted = ReadsMore()
    drawn = DrawnPanel(counted.spec)
    first = drawn.draw(View())
    assert drawn.draw_with("layer", "1") == Scene((), step=0)
    assert drawn.draw(View(step=4)) is not first
    assert drawn.draw_with("layer", "1") == Scene((), step=4)
    assert DrawnPanel(replace(counted.spec, draw=lambda _: Empty(""))).draw_with("a", "b") is None


def test_a_panel_that_has_failed_is_asked_again() -> None:
    counted = CountedPanel("step")
    drawn = DrawnPanel(counted.spec)
    before = drawn.draw(View())
    counted.fails = True
    for _ in range(2):
        with pytest.raises(RuntimeError):
            drawn.draw(View(step=1))
    counted.fails = False
    assert drawn.draw(View(step=1)) is not before
    assert counted.asked == 4


def test_a_replaced_view_notes_what_it_was_made_of() -> None:
    asked: list[int] = []

    def draw(view: View) -> Shown:
        asked.append(replace(view, marks=()).step)
        return Scene(())

    drawn = DrawnPanel(replace(CountedPanel().spec, draw=draw))
    for step in (1, 1, 2):
        drawn.draw(View(step=step))
    assert asked == [1, 2]


def test_what_is_pinned_is_chosen_unless_another_was_chosen_by_hand() -> None:
    drawn, pin = DrawnPanel(CountedPanel().spec), make_selection(layer=1)
    assert drawn.with_choices(View(), pin).choices == {"layer": "1"}
    assert drawn.choices == {}
    assert drawn.choose_value("layer", "0")
    drawn.view = drawn.with_choices(View(), pin)
    assert drawn.view.choices == {"layer": "0"}
    assert not drawn.choose_value("layer", "0")
    drawn.follow_pin()
    assert drawn.with_choices(View(), pin).choices == {"layer": "1"}
    assert drawn.probe_requests()[0].options == (("unit", 0),)
    assert drawn.other_choices() == [("layer", "0"), ("layer", "1")]
