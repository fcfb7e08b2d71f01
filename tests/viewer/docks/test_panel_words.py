"""What a panel says of itself: message and footer for each state, as plain functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.protocol.frames import MISFIT, Reading
from dgn_viewer.docks.panel_message import (
    State,
    expected_compared_seconds,
    expected_seconds,
    footer,
    in_seconds,
    message,
    readings_of,
)
from dgn_viewer.scene.elements import Empty, Scene
from dgn_viewer.scene.panel_spec import About, ComparedRun, PanelSpec, View
from tests.viewer.panels.pictures import run

EMPTY = Empty("Why there is none.")
SPEC = PanelSpec("Panel", ("npk", "ntk"), lambda _: EMPTY, About("About."))
COMPARES = replace(SPEC, compares=True)
VIEW = View(run=run((2,)), regime="ReLU")
INSPECTED = replace(VIEW, run=replace(run((2,)), inspected="x.pt"))
COSTLY = Reading("npk", 3, absent="Dear.", too_expensive=90.0)
FAULT = Reading("npk", 3, absent="It failed.", facts={"fault": "ValueError"})
MISFITS = replace(FAULT, facts={"fault": MISFIT})


def seeing(*readings: Reading, view: View = VIEW) -> View:
    return replace(view, readings={reading.probe: reading for reading in readings})


@pytest.mark.parametrize(
    ("state", "spec", "view", "anyway", "words"),
    [
        ("waiting", SPEC, View(), False, ("Waiting for a run", EMPTY.reason, "")),
        ("waiting", SPEC, VIEW, False, ("Waiting for the first frame", EMPTY.reason, "")),
        ("waiting", COMPARES, VIEW, False, ("Nothing to compare", EMPTY.reason, "")),
        ("waiting", SPEC, INSPECTED, False, ("Not training", EMPTY.reason, "")),
        ("unavailable", SPEC, VIEW, False, ("Not in ReLU", EMPTY.reason, "")),
        ("unavailable", SPEC, View(), False, ("Not in this regime", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(FAULT), False, ("No reading", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(MISFITS), False, ("Out of memory", EMPTY.reason, "")),
        (  # a reading that is there has no fault
            "unavailable",
            SPEC,
            seeing(replace(FAULT, absent="")),
            False,
            ("Not in ReLU", EMPTY.reason, ""),
        ),
        (
            "waiting",
            SPEC,
            replace(VIEW, diverged=1234),
            False,
            ("Diverged at step 1,234", "The loss is no longer finite.", ""),
        ),
        (
            "unavailable",
            SPEC,
            replace(seeing(FAULT), diverged=1234),
            False,
            ("Diverged at step 1,234", EMPTY.reason, ""),
        ),
        (
            "costly",
            SPEC,
            seeing(COSTLY),
            False,
            (
                "Too expensive at this size",
                "About 90 s a reading; training waits for it. Fewer probe examples or smaller "
                "images cost less.",
                "Compute anyway",
            ),
        ),
        (
            "costly",
            SPEC,
            seeing(COSTLY),
            True,
            ("Computing", "About 90 s a reading; training waits for it.", ""),
        ),
    ],
)
def test_a_panel_without_a_picture_says_why(
    state: State, spec: PanelSpec, view: View, anyway: bool, words: tuple[str, str, str]
) -> None:
    assert message(state, spec, view, EMPTY, anyway) == words


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
        ("live", VIEW, SCENE, 0.1, "step 1,234 · a note"),  # not worth a word
        ("live", VIEW, SCENE, 0.15, "step 1,234 · every 0.15 s · a note"),
        ("stale", seeing(NPK), SCENE, 0.0, "late · step 1,234 · every 0.25 s · a note"),
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
            "not training · assuming ReLU · step 1,234 · every 0.25 s · a note",
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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0334, "33 ms"),
        (0.0996, "100 ms"),
        (0.1, "0.1 s"),
        (0.256, "0.26 s"),
        (33.4, "33 s"),
        (99.4, "99 s"),
        (100, "100 s"),
        (1234, "1,234 s"),
    ],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert in_seconds(seconds) == words


def test_the_readings_of_a_panel_are_those_of_its_probes() -> None:
    other = Reading("gates", 1, too_expensive=999.0)
    view = seeing(NTK, NPK, other)
    assert readings_of(SPEC, view) == (NPK, NTK)
    assert readings_of(SPEC, seeing(NTK)) == (NTK,)
    assert expected_seconds(SPEC, view) == 0.0
    assert expected_seconds(SPEC, VIEW) == 0.0
    dear = seeing(replace(NPK, too_expensive=9.0), replace(NTK, too_expensive=7.0), other)
    assert expected_seconds(SPEC, dear) == 9.0


def test_what_b_would_cost_is_that_of_its_own_readings() -> None:
    assert expected_compared_seconds(SPEC, seeing(COSTLY)) == 0.0
    compared = ComparedRun(
        "x.pt", readings={"npk": COSTLY, "gates": replace(COSTLY, probe="gates")}
    )
    assert expected_compared_seconds(SPEC, replace(VIEW, compared=compared)) == 90.0
    assert expected_compared_seconds(SPEC, replace(VIEW, compared=ComparedRun("x.pt"))) == 0.0


def test_a_panel_that_says_no_more_is_a_usual_one_on_the_right() -> None:
    assert (SPEC.options, SPEC.area, SPEC.order) == ((), "right", 0)
    assert (SPEC.compares, SPEC.prompt) == (False, False)
