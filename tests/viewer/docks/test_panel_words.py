"""What a panel says of itself: message and footer for each state, as plain functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import MISFIT, Reading
from dgn_engine.scene.elements import Empty, Fact, Mark, Scene
from dgn_engine.scene.panel_readings import available_readings
from dgn_engine.scene.panel_spec import About, ComparedRun, PanelSpec, View
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.panel_message import (
    State,
    compose_caption,
    compose_footer,
    compose_message,
    is_pending,
)
from dgn_viewer.docks.text_line import FactsLine, TextLine
from tests.engine.panels.pictures import started_run
from tests.viewer.seen_charts import colours_in

EMPTY = Empty("Why there is none.")
SPEC = PanelSpec("Panel", ("npk", "ntk"), lambda _: EMPTY, About("About."))
COMPARES = replace(SPEC, compares=True)
VIEW = View(run=started_run((2,)), regime="ReLU")
INSPECTED = replace(VIEW, run=replace(started_run((2,)), inspected="x.pt"))
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
        ("waiting", SPEC, INSPECTED, ("In progress", f"{SPEC.title}: computed now.", "")),
        ("waiting", replace(SPEC, probes=()), INSPECTED, ("Not training", EMPTY.reason, "")),
        ("unavailable", SPEC, VIEW, ("Not in ReLU", EMPTY.reason, "")),
        ("unavailable", SPEC, View(), ("Not in this regime", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(FAULT), ("Not computed", EMPTY.reason, "")),
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
        ("reading", SPEC, seeing(PENDING), ("In progress", EMPTY.reason, "")),
        ("unavailable", SPEC, seeing(CANCELLED), ("No result yet", EMPTY.reason, "Resume")),
    ],
)
def test_a_panel_without_a_picture_says_why(
    state: State, spec: PanelSpec, view: View, words: tuple[str, str, str]
) -> None:
    assert compose_message(state, spec, view, EMPTY) == words


def test_a_panel_that_waits_says_what_for() -> None:
    without, begun, lost = (
        compose_message("waiting", SPEC, view, EMPTY)
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
            seeing(
                NPK,
                view=replace(VIEW, run=replace(started_run((2,)), inspected="x", assuming="ReLU")),
            ),
            SCENE,
            0.0,
            "not training · ReLU assumed · step 1,234 · every 0.25 s · a note",
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
    assert compose_footer(state, SPEC, view, scene, every) == words


NPK_READ = Reading("npk", 9, arrays={"labels": np.zeros(64)}, remark="64 probe examples, exact")
ROUGH = replace(NPK_READ, error=0.05)
OF_B = Reading("npk", 9, arrays={"labels": np.zeros(8)})
PLAIN = Scene((), step=1234, note="a note")


@pytest.mark.parametrize(
    ("view", "scene", "words"),
    [
        (VIEW, PLAIN, "step 1,234"),
        (seeing(NPK_READ), PLAIN, "step 1,234 · n 64"),
        (seeing(ROUGH), PLAIN, "step 1,234 · n 64 · ± 5 %"),
        (seeing(replace(ROUGH, error=1e-6)), PLAIN, "step 1,234 · n 64 · ± < 0.01 %"),
        (
            replace(seeing(NPK_READ), compared=ComparedRun("x.pt", readings={"npk": NPK_READ})),
            PLAIN,
            "step 1,234 · n 64",
        ),
        (
            replace(seeing(ROUGH), compared=ComparedRun("x.pt", readings={"npk": OF_B})),
            PLAIN,
            "step 1,234 · n 64 · ± 5 % · B: n 8",
        ),
        (
            replace(seeing(NPK_READ), outdated={"npk": Mark(8.0, "FR-II")}),
            PLAIN,
            "step 1,234, before FR-II · n 64",
        ),
        (replace(VIEW, diverged=1200), PLAIN, "diverged at step 1,200 · step 1,234"),
        (
            replace(VIEW, run=replace(started_run((2,)), inspected="x", assuming="ReLU")),
            PLAIN,
            "ReLU assumed · step 1,234",
        ),
        (VIEW, replace(PLAIN, refusal="Cannot subtract."), "step 1,234 · Cannot subtract."),
    ],
)
def test_the_caption_has_step_and_examples_and_what_limits_them(
    view: View, scene: Scene, words: str
) -> None:
    assert compose_caption(SPEC, view, scene) == words


def test_the_readings_of_a_panel_are_those_of_its_probes() -> None:
    other = Reading("gates", 1)
    view = seeing(NTK, NPK, other)
    assert available_readings(SPEC, view) == (NPK, NTK)
    assert available_readings(SPEC, seeing(NTK)) == (NTK,)


def test_a_panel_waits_for_its_first_picture_while_one_is_being_made() -> None:
    assert is_pending(SPEC, seeing(PENDING))
    assert not is_pending(SPEC, seeing(replace(PENDING, probe="gates")))
    assert not is_pending(SPEC, seeing(replace(PENDING, absent="")))
    assert not is_pending(SPEC, seeing(replace(PENDING, progress=1.0)))


def test_a_panel_that_says_no_more_is_a_usual_one_on_the_right() -> None:
    assert (SPEC.options, SPEC.area, SPEC.order) == ((), "right", 0)
    assert (SPEC.compares, SPEC.prompt) == (False, False)


# The lines of text and of facts in a panel: what they say aloud, and what has room.

FACTS = (Fact("$ρ$ max", "0.5", "The largest."), Fact("rank", "4", "How many."))


def test_a_line_is_whole_in_its_tooltip_and_for_screen_readers(qtbot: QtBot) -> None:
    line = TextLine(LIGHT)
    qtbot.addWidget(line)
    line.set_text("$K^V$ & more")
    assert line.text() == "$K^V$ & more"
    assert line.toolTip() == "<i>K</i><sup><i>V</i></sup> &amp; more"
    assert line.accessibleName() == "K^V & more"
    line.set_theme(DARK)
    line.resize(line.sizeHint())
    assert line.sizeHint().width() == 120
    assert not line.grab().isNull()


def test_names_are_muted_and_values_are_not_in_every_theme_that_follows(qtbot: QtBot) -> None:
    note, facts = TextLine(LIGHT), FactsLine(LIGHT)
    for line in (note, facts):
        qtbot.addWidget(line)
        line.resize(600, 24)
    note.set_text("a note, HHH")
    noted: list[set[str]] = []
    for theme, other in ((LIGHT, DARK), (DARK, LIGHT), (LIGHT, DARK)):
        note.set_theme(theme)
        facts.set_theme(theme)
        noted.append(colours_in(note))
        assert theme.text not in noted[-1]
        for value in ("", "HHH"):
            facts.set_facts((Fact("HHH", value),))
            assert (theme.text in colours_in(facts)) == bool(value)
            assert other.text not in colours_in(facts)
    assert noted[0] == noted[2] != noted[1]
    note.resize(30, 24)
    assert note.toolTip() == "a note, HHH"


def test_facts_are_shown_first_things_first_as_far_as_there_is_room(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.resize(600, 24)
    line.set_facts(FACTS)
    assert line.accessibleName() == "ρ max 0.5, rank 4"
    assert line.shown_facts() == ("$ρ$ max", "rank")
    (_, left, right), (_, next_left, end) = line._fact_positions()
    assert left == 0.0
    assert next_left == right + 16
    line.resize(int(end) + 1, 24)
    assert line.shown_facts() == ("$ρ$ max", "rank")
    line.resize(int(end) - 1, 24)
    assert line.shown_facts() == ("$ρ$ max",)
    line.resize(10, 24)
    assert line.shown_facts() == ()
    line.set_theme(DARK)
    assert not line.grab().isNull()


def test_a_fact_aside_is_on_hover_and_read_aloud(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.resize(600, 24)
    line.set_facts((replace(FACTS[0], aside=True), FACTS[1]))
    assert line.shown_facts() == ("rank",)
    assert "0.5" in line.hidden_facts_text()
    assert "0.5" in line.accessibleName()


def test_behind_a_fact_that_has_no_room_there_is_none(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.set_facts((FACTS[1], Fact("a name that is far too long", "1,234,567"), FACTS[1]))
    line.resize(120, 24)
    assert line.shown_facts() == (
        "rank",
    )  # the third would have room, and would seem to be the second
    line.resize(1200, 24)
    assert len(line.shown_facts()) == 3


def test_a_fact_under_the_cursor_is_explained(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.resize(600, 24)
    line.set_facts(FACTS)
    line.show()
    _, left, _ = line._fact_positions()[1]

    def tip(x: float) -> str:
        at = QPoint(round(x), 10)
        QApplication.sendEvent(line, QHelpEvent(QEvent.Type.ToolTip, at, line.mapToGlobal(at)))
        return QToolTip.text()

    assert tip(left + 3) == "How many."
    assert tip(3) == "The largest."
    QToolTip.hideText()


def test_facts_without_room_are_in_the_tip_behind_an_ellipsis(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.set_facts(FACTS)
    line.resize(600, 24)
    assert line.hidden_facts_text() == ""
    (_, _, first), (_, _, end) = line._fact_positions()
    line.resize(int(end) - 1, 24)
    assert line.hidden_facts_text() == "rank <b>4</b>"
    place = QPoint(int(first) + 12, 12)
    QApplication.sendEvent(line, QHelpEvent(QEvent.Type.ToolTip, place, line.mapToGlobal(place)))
    assert QToolTip.text() == "rank <b>4</b>"
    pixels = line.grab().toImage()
    assert any(
        pixels.pixelColor(x, y) != pixels.pixelColor(int(end) - 3, 1)
        for x in range(int(first) + 6, int(end) - 4)
        for y in range(24)
    )
    QToolTip.hideText()


def test_the_caption_of_a_comparison_names_the_steps_that_were_read() -> None:
    view = seeing(Reading("npk", 9))
    b = ComparedRun("early", step=6, at=6, own=True, readings={"npk": Reading("npk", 0)})
    assert compose_caption(SPEC, replace(view, compared=b), Scene((), step=9)).startswith(
        "A step 9 · B step 0"
    )
