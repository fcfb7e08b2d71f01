"""The bar of a reading that is being made better, Cancel and Go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.watching import CancelReading, GoOnReading
from dgn_engine.scene.elements import Axis, Chart, Empty, Scene, Shown
from dgn_engine.scene.panel_spec import About, ComparedRun, PanelSpec, View
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.reading_controls import RefinementBar
from tests.engine.panels.pictures import started_run


def draw(view: View) -> Shown:
    reading = view.readings.get("npk")
    if reading is None or reading.absent:
        return Empty(reading.absent if reading else "None yet.")
    return Scene((Chart("c", "Chart", Axis("step"), Axis()),), step=reading.step)


Part = TypeVar("Part", bound=QWidget)
SPEC = PanelSpec("Panel", ("npk", "ntk"), draw, About("."))
RESTING = Reading("npk", 3)
REFINED = Reading("npk", 3, progress=0.4, left=12.3)


def seeing(*readings: Reading, b: Reading | None = None) -> View:
    compared = None if b is None else ComparedRun("x.pt", readings={"npk": b})
    known = {reading.probe: reading for reading in readings}
    return View(run=started_run((2,)), readings=known, compared=compared, probe_examples=64)


@pytest.fixture
def bar(qtbot: QtBot) -> Iterator[RefinementBar]:
    host = QWidget()
    qtbot.addWidget(host)
    made = RefinementBar(SPEC)
    made.setParent(host)
    made.set_theme(LIGHT)
    host.show()
    yield made
    host.close()


def part(bar: QWidget, kind: type[Part]) -> Part:
    found = bar.findChild(kind)
    assert isinstance(found, kind)
    return found


def test_a_better_reading_shows_its_share_and_the_time_that_is_left(bar: RefinementBar) -> None:
    bar.show_view(seeing(RESTING), picture=True)
    assert (bar.isVisible(), bar.time_left_text()) == (False, "")
    bar.show_view(seeing(REFINED), picture=True)
    assert bar.isVisible()
    assert bar.time_left_text() == "12 s left"
    progress = part(bar, QProgressBar)
    assert (progress.value(), progress.maximum()) == (400, 1000)
    assert progress.toolTip().startswith("40 % ")
    assert not part(bar, QPushButton).isVisible()
    bar.show_view(seeing(replace(REFINED, doing="compiling, once")), picture=True)
    assert bar.time_left_text() == "compiling, once"
    bar.show_view(seeing(replace(REFINED, progress=0.0, left=0.0)), picture=True)
    assert (bar.time_left_text(), bar.isVisible()) == ("", True), (
        "nothing is said before it was measured"
    )


def test_of_several_the_one_is_told_that_takes_longest(bar: RefinementBar) -> None:
    other = Reading("ntk", 3, progress=0.9, left=40.0)
    bar.show_view(seeing(REFINED, other), picture=True)
    assert bar.time_left_text() == "40 s left"
    bar.show_view(seeing(RESTING, b=REFINED), picture=True)
    assert bar.time_left_text() == "B: 12 s left"
    bar.show_view(seeing(REFINED, b=other), picture=True)
    assert bar.time_left_text() == "12 s left"


def test_cancel_is_reached_by_keyboard_and_has_a_name(bar: RefinementBar, qtbot: QtBot) -> None:
    bar.show_view(seeing(REFINED), picture=True)
    cancel = part(bar, QToolButton)
    assert cancel.accessibleName().endswith(" (Panel)")
    assert cancel.focusPolicy() & Qt.FocusPolicy.TabFocus
    with qtbot.waitSignal(bar.cancelled):
        qtbot.keyClick(cancel, Qt.Key.Key_Space)


def test_a_button_that_goes_gives_the_keyboard_to_the_window(
    bar: RefinementBar, qtbot: QtBot
) -> None:
    host = bar.window()
    other = QPushButton("next", host)
    other.show()
    host.activateWindow()
    qtbot.waitUntil(host.isActiveWindow)
    bar.show_view(seeing(replace(RESTING, cancelled=True)), picture=True)
    resume = part(bar, QPushButton)
    resume.setFocus()
    assert resume.hasFocus()
    bar.show_view(seeing(REFINED), picture=True)
    assert not resume.isVisible()
    assert not other.hasFocus(), "the space bar would press it"
    assert not any(button.hasFocus() for button in bar.findChildren(QToolButton))


def test_go_on_is_offered_below_a_picture_whose_reading_was_cancelled(
    bar: RefinementBar, qtbot: QtBot
) -> None:
    go_on = part(bar, QPushButton)
    bar.show_view(seeing(replace(RESTING, cancelled=True)), picture=True)
    assert (go_on.isVisible(), part(bar, QToolButton).isVisible()) == (True, False)
    assert go_on.accessibleName().endswith(" (Panel)")
    with qtbot.waitSignal(bar.resumed):
        qtbot.keyClick(go_on, Qt.Key.Key_Space)
    bar.show_view(seeing(replace(RESTING, cancelled=True)), picture=False)
    assert not bar.isVisible(), "the message has that button"


@pytest.fixture
def panel(qtbot: QtBot) -> PanelDock:
    made = PanelDock("p", SPEC, LIGHT)
    qtbot.addWidget(made)
    made.resize(600, 300)
    made.show()
    return made


def test_a_panel_asks_the_engine_to_cancel_and_to_go_on(panel: PanelDock, qtbot: QtBot) -> None:
    panel.show_view(seeing(REFINED))
    with qtbot.waitSignal(panel.command_wanted) as asked:
        panel.findChild(QToolButton, "cancel_reading").click()
    assert asked.args == [CancelReading(("npk", "ntk"))]
    panel.show_view(seeing(replace(RESTING, cancelled=True)))
    with qtbot.waitSignal(panel.command_wanted) as asked:
        panel.findChild(QPushButton, "resume_reading").click()
    assert asked.args == [GoOnReading(("npk", "ntk"))]


def test_before_the_first_picture_a_panel_says_that_it_is_being_made(
    panel: PanelDock, qtbot: QtBot
) -> None:
    pending = Reading("npk", 3, absent="It is being made.", progress=0.0)
    panel.show_view(seeing(pending))
    assert (panel.panel_state(), panel.parts.message.displayed_text()[:2]) == (
        "reading",
        ("In progress", "It is being made."),
    )
    stopped = replace(pending, progress=1.0, cancelled=True)
    panel.show_view(seeing(stopped))
    assert panel.parts.message.displayed_text()[0] == "No result yet"
    (go_on,) = [b for b in panel.findChildren(QPushButton) if b.isVisible()]
    with qtbot.waitSignal(panel.command_wanted) as asked:
        go_on.click()
    assert asked.args == [GoOnReading(("npk", "ntk"))]


def test_what_is_being_refined_or_was_cancelled_is_as_stale_as_any_picture(qtbot: QtBot) -> None:
    now = [100.0]
    panel = PanelDock("p", SPEC, LIGHT, clock=lambda: now[0])
    qtbot.addWidget(panel)
    view = replace(seeing(REFINED), step=8)
    panel.show_view(view)
    for reading in (REFINED, replace(RESTING, cancelled=True), RESTING):
        for _ in range(8):  # longer than the first minute
            now[0] += 9.0
            view = replace(view, step=view.step + 1, readings={"npk": reading})
            panel.show_view(view)
        assert panel.panel_state() == "stale"
