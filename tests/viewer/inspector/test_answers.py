"""What the network answers, on the page of probe examples: for a drawing, and its mistakes."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Pause
from dgn_engine.protocol.watching import ChooseMisclassified, Watch
from dgn_engine.scene.panel_spec import PREDICTIONS
from dgn_engine.scene.predictions import WRONG, predictions_of
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.widgets.drawing_canvas import DrawingCanvas
from tests.viewer.gestures import LEFT, NONE, tap_commands


def open_page(viewer: Viewer, qtbot: QtBot) -> ExamplesPage:
    viewer.window.registry["edit.examples"].trigger()
    page = viewer.window.inspector.page
    assert isinstance(page, ExamplesPage)
    qtbot.waitUntil(lambda: page.canvas is not None)
    return page


def draw_line(canvas: DrawingCanvas, x: float) -> None:
    side = canvas.width()
    for kind, y in (
        (QEvent.Type.MouseButtonPress, 0.1),
        (QEvent.Type.MouseMove, 0.9),
        (QEvent.Type.MouseButtonRelease, 0.9),
    ):
        place = QPointF(x * side, y * side)
        event = QMouseEvent(kind, place, canvas.mapToGlobal(place), LEFT, LEFT, NONE)
        QApplication.sendEvent(canvas, event)


def test_a_drawn_digit_gets_the_networks_answer_and_no_other_drawings(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    page = open_page(viewer, qtbot)
    assert page.canvas is not None
    assert not page.answer.isVisible()
    for x in (0.3, 0.7):
        draw_line(page.canvas, x)
        # From the choice of the examples to the next frame there is no answer at all.
        before = window.run_state.probe_digest
        qtbot.waitUntil(lambda before=before: window.run_state.probe_digest != before)
        qtbot.waitUntil(lambda: page.answer.isVisible())
        qtbot.waitUntil(lambda: bool(predictions_of(window.history.view({}))))
        view = window.history.view({})
        last = predictions_of(view)[-1]
        assert view.pictures is not None
        assert view.pictures.images is not None
        np.testing.assert_array_equal(view.pictures.images[-1], page.canvas.pixels())
        assert last.place == len(view.pictures.probe_set.indices) - 1
        assert last.label is None
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.is_paused)
    qtbot.waitUntil(lambda: window.history.readings[PREDICTIONS].step == window.history.step)
    qtbot.waitUntil(
        lambda: page.answer.text() == predictions_of(window.history.view({}))[-1].in_words
    )


def test_mistakes_are_listed_and_outlined_and_pictures_say_their_answer(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    page = open_page(viewer, qtbot)
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.is_paused)
    window.context.send(ChooseMisclassified())
    qtbot.waitUntil(lambda: window.run_state.probe_set.startswith("rows"))
    qtbot.waitUntil(lambda: page.mistakes.isVisible())
    found = predictions_of(window.history.view({}))
    wrong = sorted((one for one in found if one.is_wrong), key=lambda one: -one.top[0][1])
    assert len(wrong) == len(found)  # at this step, all of them
    items = [page.mistakes.item(row).text() for row in range(page.mistakes.count())]
    texts = [f"{WRONG} {text}".replace("\u00a0", " ") for text in items]
    assert texts == [one.in_words for one in wrong[: len(texts)]]
    qtbot.keyClick(page.mistakes, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: window.docks.linked.lit.examples != ())
    assert window.docks.linked.lit.examples == (wrong[page.mistakes.currentRow()].place,)

    pictures = window.history.view({}).pictures
    assert pictures is not None
    assert page.grid.answers == {
        pictures.probe_set.indices[one.place]: one.in_words for one in found
    }
    place = page.grid.example_rect(0).center().toPoint()
    event = QHelpEvent(QEvent.Type.ToolTip, place, page.grid.mapToGlobal(place))
    QApplication.sendEvent(page.grid, event)
    assert "training example 0" in QToolTip.text()
    QToolTip.hideText()
    assert place != QPoint()


def test_answers_are_read_only_while_they_are_in_sight(viewer: Viewer, qtbot: QtBot) -> None:
    window, docks = viewer.window, viewer.window.docks
    docks.set_front_panel("training")
    window.registry["view.maximise"].trigger()
    sent = tap_commands(viewer)

    def is_read() -> bool | None:
        watches = [command for command in sent if isinstance(command, Watch)]
        return any(one.probe == PREDICTIONS for one in watches[-1].requests) if watches else None

    qtbot.waitUntil(lambda: is_read() is False)
    open_page(viewer, qtbot)
    qtbot.waitUntil(lambda: is_read() is True)
    window.inspector.close_page()
    qtbot.waitUntil(lambda: is_read() is False)
    docks.arrangement.restore_panels()
    qtbot.waitUntil(lambda: is_read() is True)


def test_at_a_step_looked_back_at_the_card_has_the_answers_of_that_step(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    window.docks.show_panel("gate_maps")
    qtbot.waitUntil(lambda: {"gates", PREDICTIONS} <= set(window.history.readings))
    read = window.history.readings["gates"].step
    qtbot.waitUntil(lambda: window.history.readings["gates"].step > read + 100)
    host = window.docks.hosts["gate_maps"]
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.is_paused)
    qtbot.waitUntil(lambda: window.history.readings["gates"].step == window.history.step)
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    for _ in range(3):
        qtbot.keyClick(host, Qt.Key.Key_Down)

    def is_told(word: str) -> bool:
        return word in host.charts.view.accessibleDescription()

    live = predictions_of(window.history.view({}))[2].in_words
    qtbot.waitUntil(lambda: is_told(live))
    window.time.cursor.move_by(-1)
    qtbot.waitUntil(lambda: host.drawn.view.cursor is not None)
    then = predictions_of(host.drawn.view)[2]
    assert then.step <= host.drawn.view.step < window.history.step
    qtbot.waitUntil(lambda: is_told(then.in_words))
    assert then.in_words == live or not is_told(live)
