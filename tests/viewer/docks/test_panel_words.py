"""What a panel says of itself: message and footer for each state, as plain functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.protocol.frames import MISFIT, Reading
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_readings import readings_of
from dgn_engine.scene.panel_spec import About, ComparedRun, PanelSpec, View
from dgn_viewer.docks.panel_message import (
    State,
    footer,
    is_pending,
    message,
)
from tests.engine.panels.pictures import run

EMPTY = Empty("Why there is none.")
SPEC = PanelSpec("Panel", ("npk", "ntk"), lambda _: EMPTY, About("About."))
COMPARES = replace(SPEC, compares=True)
VIEW = View(run=run((2,)), regime="ReLU")
INSPECTED = replace(VIEW, run=replace(run((2,)), inspected="x.pt"))
PENDING = Reading("npk", 3, absent="It is being read.", progress=0.0)
CANCELLED = Reading("npk", 3, absent="Cancelled.", cancelled=True)
FAULT = Reading("npk", 3, absent="It failed.", facts={"fault": "ValueError"})
MISFITS = replace(FAULT, facts={"fault": MISFIT})


def seeing(*readings: Reading, view: View = VIEW) -> View:
    return replace(view, readings={reading.probe: reading for reading in readings})


@pytest.mark.parametrize(
    ("state", "spec", "view", "words"),
    [
        ("waiting", COMPARES, VIEW, ("Nothing to compare", EMPTY.reason, "")),
        ("past", COMPARES, seeing(FAULT), ("Nothing to compare", EMPTY.reason, "")),
        ("waiting", SPEC, INSPECTED, ("Not training", EMPTY.reason, "")),
        ("unavailable", SPEC, VIEW, ("Not in ReLU", EMPTY.reason, "")),
        ("unavailable", SPEC, View(), ("Not in this regime", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(FAULT), ("No reading", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(MISFITS), ("Out of memory", EMPTY.reason, "")),
        (  # a reading that is there has no fault
            "unavailable",
            SPEC,
            seeing(replace(FAULT, absent="")),
            ("Not in ReLU", EMPTY.reason, ""),
        ),
        (
            "unavailable",
            SPEC,
            replace(seeing(FAULT), diverged=1234),
            ("Diverged at step 1,234", EMPTY.reason, ""),
        ),
        ("reading", SPEC, seeing(PENDING), ("Reading", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(CANCELLED), ("No picture yet", EMPTY.reason, "Go on")),
    ],
)
def test_a_panel_without_a_picture_says_why(
    state: State, spec: PanelSpec, view: View, words: tuple[str, str, str]
) -> None:
    assert message(state, spec, view, EMPTY) == words


def test_a_panel_that_waits_says_what_for() -> None:
    without, begun, lost = (
        message("waiting", SPEC, view, EMPTY)
        for view in (View(), VIEW, replace(VIEW, diverged=1234))
    )
    assert len({without[0], begun[0], lost[0]}) == 3
    assert without[1].startswith(f"{EMPTY.reason} ")  # and how to begin one
    assert begun[1] == EMPTY.reason
    assert lost[0].endswith(" 1,234")
    assert lost[1] != EMPTY.reason


SCENE = Scene((), step=1234, note="a note")
NPK = Reading("npk", 1234, interval=0.25)
NTK = Reading("ntk", 1234, interval=7.0, remark="halved")
FEW = Reading("npk", 1234, remark="8 of 64")


@pytest.mark.parametrize(
    ("state", "view", "scene", "every", "words"),
    [
        ("live", seeing(NPK), SCENE, 0.0, "step 1,234 · every 0.25 s · a note"),
        ("live", seeing(NPK), replace(SCENE, note=""), 0.0, "step 1,234 · every 0.25 s"),
        ("live", seeing(NPK), SCENE, 0.5, "step 1,234 · every 0.5 s · a note"),
        ("live", seeing(NPK), SCENE, 0.2, "step 1,234 · every 0.25 s · a note"),
        ("live", VIEW, SCENE, 0.0, "step 1,234 · a note"),
        ("live", seeing(replace(NPK, progress=0.5)), SCENE, 0.5, "step 1,234 · a note"),
        ("live", VIEW, SCENE, 0.1, "step 1,234 · a note"),  # not worth a word
        ("live", VIEW, SCENE, 0.15, "step 1,234 · every 0.15 s · a note"),
        ("live", replace(seeing(NPK), trains=False), SCENE, 0.5, "step 1,234 · a note"),  # it ended
        ("live", seeing(replace(NPK, cancelled=True)), SCENE, 0.5, "step 1,234 · a note"),
        ("past", replace(seeing(NPK), cursor=9), SCENE, 0.5, "looking back · step 1,234 · a note"),
        ("stale", seeing(NPK), SCENE, 0.0, "step 1,234 · every 0.25 s · a note"),
        ("paused", replace(seeing(NPK), paused=True), SCENE, 0.5, "paused · step 1,234 · a note"),
        (
            "live",
            seeing(NPK, NTK),
            SCENE,
            0.0,
            "step 1,234 · every 0.25 s · halved · a note",  # the first probe's interval
        ),
        (
            "live",
            seeing(replace(NPK, remark="halved"), NTK),
            SCENE,
            0.0,
            "step 1,234 · every 0.25 s · halved · a note",  # once
        ),
        (
            "live",
            replace(
                seeing(NPK),
                compared=ComparedRun("x.pt", readings={"npk": FEW, "ntk": FEW, "gates": NTK}),
            ),
            SCENE,
            0.0,
            "step 1,234 · every 0.25 s · B: 8 of 64 · a note",
        ),
        (
            "live",
            replace(seeing(FEW), compared=ComparedRun("x.pt", readings={"npk": FEW})),
            SCENE,
            0.0,
            "step 1,234 · 8 of 64 · a note",  # what both leave out is said once
        ),
        (
            "paused",
            seeing(NPK, view=INSPECTED),
            SCENE,
            0.0,
            "not training · step 1,234 · every 0.25 s · a note",
        ),
        (
            "paused",
            seeing(NPK, view=replace(VIEW, run=replace(run((2,)), inspected="x", assuming="ReLU"))),
            SCENE,
            0.0,
            "not training · reading: ReLU, as you said · step 1,234 · every 0.25 s · a note",
        ),
        (
            "paused",
            replace(VIEW, diverged=1200, paused=True),
            SCENE,
            0.0,
            "diverged at step 1,200 · step 1,234 · a note",
        ),
    ],
)
def test_the_line_below_a_picture(
    state: State, view: View, scene: Scene, every: float, words: str
) -> None:
    assert footer(state, SPEC, view, scene, every) == words


def test_the_readings_of_a_panel_are_those_of_its_probes() -> None:
    other = Reading("gates", 1)
    view = seeing(NTK, NPK, other)
    assert readings_of(SPEC, view) == (NPK, NTK)
    assert readings_of(SPEC, seeing(NTK)) == (NTK,)


def test_a_panel_waits_for_its_first_picture_while_one_is_being_made() -> None:
    assert is_pending(SPEC, seeing(PENDING))
    assert not is_pending(SPEC, seeing(replace(PENDING, probe="gates")))
    assert not is_pending(SPEC, seeing(replace(PENDING, absent="")))
    assert not is_pending(SPEC, seeing(replace(PENDING, progress=1.0)))


def test_a_panel_that_says_no_more_is_a_usual_one_on_the_right() -> None:
    assert (SPEC.options, SPEC.area, SPEC.order) == ((), "right", 0)
    assert (SPEC.compares, SPEC.prompt) == (False, False)
