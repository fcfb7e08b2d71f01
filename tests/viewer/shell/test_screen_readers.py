"""Screen readers and the keyboard: everything has a name, everything can be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6 import QtGui
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QLabel,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot
from safetensors.numpy import save_file

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.runs import ReadCurves, ShowRun
from dgn_engine.scene.chart_words import describe_charts
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix
from dgn_engine.scene.typeset import escape_label, label_html, split_runs, strip_markup
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.inspector.pages.reading_section import ReadingSection
from dgn_viewer.layer_strip.gate_chip import GateChip
from dgn_viewer.plots.spoken_charts import SpokenCharts
from dgn_viewer.shell.recent_files import RecentFiles
from dgn_viewer.style.stylesheet import plain_tip, wrapping_tip
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import PlainLabel, plain_label
from dgn_viewer.window import Window
from tests.hostile_names import HOSTILE, hidden_characters


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def held(window: Window) -> str:
    """The part of the window that has the focus."""
    widget = QApplication.focusWidget()
    while widget is not None:
        if isinstance(widget, PanelDock):
            return widget.panel_id
        if isinstance(widget, GateChip):
            return "strip"
        if widget is window.inspector:
            return "inspector"
        widget = widget.parentWidget()
    return ""


def test_the_keyboard_walks_through_strip_panels_and_inspector(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.inspector.show_run_settings()
    window.setFocus()
    wanted = ["strip", *window.docks.visible_panels(), "inspector"]
    seen = []
    for _ in range(len(wanted) + 1):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_F6)
        seen.append(held(window))
    assert seen == [*wanted, "strip"]
    QTest.keyClick(
        QApplication.focusWidget() or window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier
    )
    assert held(window) == "inspector"
    window.registry["view.next_part"].trigger()
    window.registry["view.next_part"].trigger()
    assert window.docks.front_panel() == held(window) == wanted[1]  # what Ctrl+E and F1 act on


def test_a_chip_is_moved_with_the_keyboard_alone(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.activateWindow()
    window.registry["view.next_part"].trigger()
    chip = QApplication.focusWidget()
    assert isinstance(chip, GateChip)
    QTest.keyClick(chip, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    qtbot.waitUntil(lambda: window.run_state.wiring == (1, 0, 2))
    assert chip.accessibleName() == "G1 over layer 2"


def charts() -> tuple[Chart, ...]:
    steps = np.array([0, 617, 1234])
    curve = Curve("test", steps, np.array([11.0, 97.04, 96.0]))
    matrix = Matrix(
        "active",
        np.array([[1.0, 0.25], [0.25, np.nan]]),
        "sequential",
        0.0,
        1.0,
        row_name="example",
        column_name="example",
    )
    return (
        Chart("accuracy", "Accuracy, %", Axis(label="step"), Axis(), curves=(curve,)),
        Chart("active", "Active $Λ$", Axis(), Axis(), matrix=matrix),
        Chart("empty", "Loss", Axis(), Axis()),
        Chart("small", "G1", Axis(), Axis(), matrix=matrix, small=True),
    )


def test_a_chart_in_words_has_title_what_and_range() -> None:
    assert describe_charts(charts()) == (
        "Accuracy, %: test over step 0 to 1,234, 11 to 97, 96 at the end. "
        "Active Λ: 2 examples by 2 examples, 0.25 to 1. "
        "Loss: no curves yet."
    )


def test_charts_are_put_into_words_once_a_second_and_only_for_a_listener(
    qtbot: QtBot,
) -> None:
    now, listening = [100.0], [False]
    widget = QWidget()
    qtbot.addWidget(widget)
    spoken = SpokenCharts(widget, clock=lambda: now[0], is_heard=lambda: listening[0])
    first, second = charts()[:1], charts()[1:2]
    spoken.update_names(first)
    assert widget.accessibleName() == "Charts"
    listening[0] = True
    spoken.update_names(first)
    assert widget.accessibleName().startswith("Accuracy")
    now[0] += 0.9
    spoken.update_names(second)
    assert widget.accessibleName().startswith("Accuracy")
    now[0] += 0.2
    spoken.update_names(second)
    assert widget.accessibleName().startswith("Active")


SHOWN = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole)
LINES = {"\n", "\t"}
PLACES_TO_BREAK = {"\u200b"}  # of a label that wraps


def test_labels_tips_and_notices_escape_what_hides(qtbot: QtBot) -> None:
    for label in (PlainLabel(HOSTILE), ElidedLabel(HOSTILE), plain_label(HOSTILE, selectable=True)):
        qtbot.addWidget(label)
        assert label.textFormat() == Qt.TextFormat.PlainText
        assert not hidden_characters(QLabel.text(label)) - LINES
        assert not hidden_characters(label.toolTip()) - LINES
        assert not hidden_characters(label.accessibleName()) - LINES
    notice = Notice("refused", HOSTILE, HOSTILE, (NoticeButton(HOSTILE, lambda: None),))
    assert not hidden_characters(notice.text + notice.offers[0].text)
    assert hidden_characters(notice.details) <= LINES
    for said in (wrapping_tip(HOSTILE), plain_tip(f"<b>{HOSTILE}")):
        assert said.startswith("<span>")
        assert "<img" not in said
        assert hidden_characters(said) <= LINES
    assert plain_tip("Close (Esc)") == "Close (Esc)"


def test_labels_of_charts_escape_what_hides_and_literal_names_have_no_formula() -> None:
    for set_ in (
        strip_markup,
        label_html,
        lambda text: "".join(run.text for run in split_runs(text)),
    ):
        assert hidden_characters(set_(HOSTILE)) <= LINES
    assert "<img" not in label_html(HOSTILE)
    assert strip_markup(escape_label("a$x^2$b")) == "a$x^2$b"
    assert [run.level for run in split_runs(escape_label("a$x^2$b_1"))] == [0]


def texts_of(widget: QWidget) -> Iterator[str]:
    """What a widget shows and says, and the parts of it that are no widgets."""
    yield from (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription())
    yield widget.windowTitle()
    match widget:
        case QLabel():
            yield QLabel.text(widget)
        case QAbstractButton():
            yield widget.text()
        case QComboBox():
            yield from (widget.itemText(place) for place in range(widget.count()))
        case QPlainTextEdit() if widget.isReadOnly():
            yield widget.toPlainText()
        case QAbstractItemView() if widget.model() is not None:
            yield from cells_of(widget.model(), *SHOWN)
    for action in widget.actions():
        yield from action_texts(action)


def action_texts(action: QAction) -> Iterator[str]:
    yield from (action.text(), action.toolTip(), action.statusTip())


def cells_of(model: QAbstractItemModel, *roles: Qt.ItemDataRole) -> Iterator[str]:
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount()
    for row in range(model.rowCount()):
        for column in range(columns):
            for role in roles:
                yield str(model.index(row, column).data(role) or "")


def tips_of(widget: QWidget) -> Iterator[str]:
    yield widget.toolTip()
    yield from (action.toolTip() for action in widget.actions())
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from cells_of(widget.model(), Qt.ItemDataRole.ToolTipRole)


def check_everything(window: Window) -> int:
    """Every text of every widget; how many of them quote the hostile name."""
    quoted = 0
    for widget in [window, *window.findChildren(QWidget), *QApplication.topLevelWidgets()]:
        for text in texts_of(widget):
            assert not hidden_characters(text) - LINES - PLACES_TO_BREAK, (widget, text)
            quoted += r"\x1b" in text
        for text in tips_of(widget):  # Qt takes what looks like markup for markup
            assert not (QtGui.Qt.mightBeRichText(text) and "<img" in text), (widget, text)
        if isinstance(widget, QLabel) and "\\x1b" in QLabel.text(widget):
            assert widget.textFormat() == Qt.TextFormat.PlainText
    return quoted


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    """A recorded run whose folder, data set, file and notes have hostile names."""
    path = tmp_path / "mine" / "runs" / f"<b>{HOSTILE}"
    config = RunConfig(
        data=DataConfig(name=f"folder:/x/{HOSTILE}"), net=NetConfig(f"file:{HOSTILE}")
    )
    path.parent.mkdir(parents=True)
    RunFolder.create(path, config).close()
    write_notes(path, RunNotes(HOSTILE.replace("\n", " ")[:60], HOSTILE))
    return path


def test_nothing_in_the_window_takes_a_name_for_markup_or_hides_in_it(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path, hostile_run: Path
) -> None:
    window = make_viewer(home="mine").window
    window.registry["file.open_run"].trigger()
    rail = window.runs.rail
    qtbot.waitUntil(lambda: len(rail.runs.runs) == 2)
    rail.table.choose_first()
    assert check_everything(window) >= 3
    file = tmp_path / f"<b>{HOSTILE}.safetensors"
    tensors = {HOSTILE: np.ones((16, 64)), "b": np.ones((10, 16)), f"{HOSTILE}2": np.ones(7)}
    save_file(tensors, tmp_path / "plain")
    (tmp_path / "plain").rename(file)
    for command in (
        ShowRun(str(hostile_run)),
        ShowRun(f"{hostile_run}-none"),
        ReadCurves((str(hostile_run),)),
        OpenFile(str(file)),
        OpenFile(f"{file}-none"),
    ):
        before = len(window.notices.entries)
        window.context.send(command)
        window.notices.add_notice(
            Notice("failed", f"after {type(command).__name__} {HOSTILE}", HOSTILE)
        )
        qtbot.waitUntil(lambda before=before: len(window.notices.entries) > before)
    qtbot.waitUntil(lambda: window.inspector.page is not None)
    recent = window.findChild(RecentFiles)
    window.notices.show_recent()
    section = window.inspector.page.findChild(ReadingSection)
    qtbot.waitUntil(lambda: section.readings.count() > 0)
    assert check_everything(window) >= 10
    if recent is not None:
        assert not hidden_characters(recent.menu_text(0))
