"""The compared network (B): its name, its view, and why it is not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.scene.compared import b_name, compared_reading, compared_view, why_not_compared
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, View
from tests.engine.panels.pictures import layers, run, series

READING = Reading("gates", 3)
RECORDED = {("training", "test_loss"): series([1], [2.0])}
OTHER = ComparedRun("other.pt", "ReLU", layers((4,), (5,)), (1, 0), 3, {"gates": READING}, RECORDED)
VIEW = View(
    run=run((2,), (3,)),
    regime="DL",
    wiring=(0, 1),
    step=7,
    readings={"npk": Reading("npk", 7)},
    series={("training", "train_loss"): series([1], [3.0])},
    marks=(Mark(1.0, "FL"),),
    last=Measured(6, 1.0, 0.5, 0.5),
    choices={"layer": "1"},
    paused=True,
    diverged=5,
    compared=OTHER,
)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a$b.pt", "B · a_b.pt"),
        ("x" * 24, "B · " + "x" * 24),
        ("abcdefghijklmnopqrstuvwxy", "B · abcdefghijkl…opqrstuvwxy"),
    ],
)
def test_a_long_name_is_cut_in_its_middle(name: str, shown: str) -> None:
    assert b_name(ComparedRun(name)) == shown


def test_the_view_of_b_has_what_is_of_the_examples_from_the_run_and_the_rest_from_b() -> None:
    run_ = VIEW.run
    assert run_ is not None
    assert compared_view(VIEW) == replace(
        VIEW,
        run=replace(run_, layers=OTHER.layers),
        regime="ReLU",
        wiring=(1, 0),
        step=3,
        readings={"gates": READING},
        series=RECORDED,
        marks=(),
        compared=None,
    )
    without = compared_view(replace(VIEW, run=None))
    assert without is not None
    assert without.run is None
    assert compared_view(replace(VIEW, compared=None)) is None


def test_an_absent_reading_of_b_is_none() -> None:
    assert compared_reading(VIEW, "gates") is READING
    assert compared_reading(VIEW, "npk") is None
    assert compared_reading(replace(VIEW, compared=None), "gates") is None
    absent = replace(OTHER, readings={"gates": replace(READING, absent="Too dear.")})
    assert compared_reading(replace(VIEW, compared=absent), "gates") is None
    assert why_not_compared(replace(VIEW, compared=absent), "gates") == "B · other.pt: Too dear."


def test_why_b_is_not_shown() -> None:
    assert why_not_compared(replace(VIEW, compared=None), "gates") == ""
    assert why_not_compared(VIEW, "gates") == ""
    assert why_not_compared(VIEW, "npk") == "B · other.pt: no reading yet."
    scores_alone = replace(OTHER, layers=())
    assert why_not_compared(replace(VIEW, compared=scores_alone), "npk") == ""
