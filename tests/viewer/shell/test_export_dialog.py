"""The export dialog: what it shows, writes and remembers, while the panels go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.errors import UserError
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.views.event_notices import Notice, time_of_day
from dgn_engine.views.history import History
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.settings import Settings
from dgn_viewer.shell.export import Exports, capture_panels, write_panels
from dgn_viewer.shell.export_dialog import ExportDialog
from dgn_viewer.shell.figure_thread import FigureThread
from dgn_viewer.timeline.step_cursor import StepCursor
from tests.daily import nightly
from tests.viewer.window_contexts import make_context

PANELS = all_panels()
# Curves, a spectrum and matrices; that each panel makes a figure is tested beside the figures.
FEW = ("training", "spectrum", "overlap", "ntk")
MakeView = Callable[..., View]


class Desk:
    """Panels with something to show, and an export that opens dialogs over them."""

    def __init__(
        self, qtbot: QtBot, make_view: MakeView, folder: Path, panels: tuple[str, ...] = FEW
    ) -> None:
        """Over these panels, or over every one there is where none is named."""
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.hosts: dict[str, PanelDock] = {}
        for name in panels or PANELS:
            host = PanelDock(name, PANELS[name], DARK)
            qtbot.addWidget(host)
            host.show_view(make_view("hard"))
            self.hosts[name] = host
        self.told: list[Notice] = []
        self.settings = Settings(folder / "settings.ini")
        docks = SimpleNamespace(hosts=self.hosts, visible_panels=lambda: tuple(self.hosts))
        context = make_context(self.window, notify=self.told.append, settings=self.settings)
        history = History(time_of_day)
        cursor = StepCursor(history, (), lambda _: None, lambda: True, self.window)
        self.export = Exports(context, cast(PanelDocks, docks), history, cursor)
        self.qtbot = qtbot

    def dialog(self) -> ExportDialog:
        (found,) = [one for one in self.window.findChildren(ExportDialog) if not one.isHidden()]
        return found

    def drawn(self) -> ExportDialog:
        """The dialog with its preview."""
        dialog = self.dialog()
        self.qtbot.waitUntil(lambda: not dialog.picture.pixmap().isNull())
        return dialog

    def answer(self, asked: QFileDialog | None, path: Path) -> None:
        """Choose a name and wait until what came of it is told."""
        assert asked is not None
        count = len(self.told)
        asked.fileSelected.emit(str(path))
        asked.close()
        self.qtbot.waitUntil(lambda: len(self.told) > count)


@pytest.fixture
def desk(
    qtbot: QtBot, make_view: MakeView, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Desk]:
    made = Desk(qtbot, make_view, tmp_path, getattr(request, "param", FEW))
    yield made
    made.export.close()


def test_the_preview_is_the_figure_at_its_final_size(desk: Desk) -> None:
    desk.export.save_panel("spectrum")
    dialog = desk.drawn()
    assert dialog.windowTitle() == "Export NPK spectrum · step 1,200"
    assert not dialog.isModal()
    pixmap = dialog.picture.pixmap()
    assert pixmap.width() / pixmap.devicePixelRatio() == pytest.approx(3.25 * 96, abs=1)
    assert dialog.caption.text().startswith("3.25 × ")
    assert "8 and 7 pt." in dialog.caption.text()
    dialog.close()


def test_the_fields_are_those_of_the_figure(desk: Desk) -> None:
    desk.export.save_panel("training")
    dialog = desk.drawn()
    form = dialog.form
    form.width_box.pick_value("free")
    form.inches.setValue(5.0)
    form.height_box.setValue(3.0)
    form.font_size.setValue(10.0)
    form.caption.setChecked(False)
    form.letters.setChecked(True)
    QTest.keyClicks(form.names["train"], " set")
    assert form.figure_style() == FigureStyle(
        5.0, 3.0, 10.0, caption=False, letters=True, legend=(("train", "train set"),)
    )
    desk.qtbot.waitUntil(lambda: dialog.caption.text().startswith("5 × 3 in"))
    dialog.close()


def test_what_was_chosen_is_there_the_next_time(desk: Desk) -> None:
    desk.export.save_panel("training")
    first = desk.dialog()
    first.form.width_box.pick_value("text")
    first.form.kind_box.pick_value("png")
    first.form.dpi.setValue(600)
    first.form.letters.setChecked(True)
    QTest.keyClicks(first.form.names["test"], " set")
    wanted = first.form.figure_style()
    first.close()
    desk.export.save_panel("training")
    assert desk.dialog().form.figure_style() == wanted
    assert desk.dialog().form.kind == "png"
    desk.dialog().close()


@pytest.mark.parametrize(
    "left",
    [{}, [], {"width": 7, "kind": {}, "dpi": "x", "font": None, "names": [1], "inches": "a"}],
)
def test_choices_that_make_no_sense_are_as_at_first(left: Any, desk: Desk) -> None:
    desk.settings.store.setValue("export/choices", json.dumps(left))
    desk.export.save_panel("training")
    assert desk.dialog().form.figure_style() == FigureStyle(3.25)
    desk.dialog().close()


@pytest.mark.parametrize("ending", ["pdf", "npz", *nightly("svg", "png", "pgf", "py", "csv")])
def test_a_panel_is_written_in_the_format_of_its_name(
    ending: str, desk: Desk, tmp_path: Path
) -> None:
    desk.export.save_panel("training")
    folder = tmp_path / "inner"
    folder.mkdir()
    desk.answer(desk.dialog().save(), folder / f"a.{ending}")
    assert [notice.kind for notice in desk.told] == ["info"]
    assert str(folder) in desk.told[0].text
    assert desk.settings.export_folder == str(folder)
    assert all(file.stat().st_size > 100 for file in folder.iterdir())
    assert list(folder.glob("a*"))
    desk.dialog().close()


def test_a_figure_is_light_on_white_in_a_dark_window(desk: Desk, tmp_path: Path) -> None:
    (panel,) = capture_panels([desk.hosts["training"]])
    write_panels([panel], tmp_path / "a.svg", FigureStyle(), apart=False)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8").upper()
    assert LIGHT.accent in text
    assert DARK.accent not in text


@pytest.mark.parametrize(
    "desk",
    [
        pytest.param(FEW, id="few"),
        pytest.param((), id="all", marks=pytest.mark.faults),
    ],
    indirect=True,
)
def test_all_panels_are_written_on_a_page_or_beside_each_other(
    desk: Desk, make_view: MakeView, tmp_path: Path
) -> None:
    empty = next(host for host in desk.hosts.values() if host.spec.probes)
    empty.show_view(make_view("absent"))
    desk.export.save_visible_panels()
    dialog = desk.dialog()
    shown = [name for name, host in desk.hosts.items() if host is not empty]
    assert list(dialog.form.chosen_panels()) == shown
    assert dialog.windowTitle() == f"Export {len(shown)} panels · step 1,200"
    desk.answer(dialog.save(), tmp_path / "page.npz")
    dialog.form.apart_box.pick_value("apart")
    desk.answer(dialog.save(), tmp_path / "board.svg")
    assert {file.name for file in tmp_path.glob("*.svg")} == {f"board-{name}.svg" for name in shown}
    assert empty.spec.title in desk.told[-1].text
    dialog.form.apart_box.pick_value("page")
    desk.answer(dialog.save(), tmp_path / "one.pdf")
    assert [file.name for file in tmp_path.glob("*.pdf")] == ["one.pdf"]
    dialog.close()


def test_the_panel_goes_on_and_the_dialog_shows_the_moment_it_was_opened(
    desk: Desk, make_view: MakeView
) -> None:
    desk.export.save_panel("spectrum")
    dialog = desk.drawn()
    before = dialog.panels
    desk.hosts["spectrum"].show_view(make_view("hard", step=1300))
    assert dialog.panels is before
    assert dialog.windowTitle().endswith("step 1,200")
    dialog.capture_newest()
    assert dialog.windowTitle() == "Export NPK spectrum · step 1,300"
    assert dialog.form.chosen_panels() == ("spectrum",)
    dialog.close()


def test_a_page_is_of_one_run(desk: Desk, make_view: MakeView) -> None:
    view = make_view("hard")
    assert view.run is not None
    hosts = [desk.hosts["training"], desk.hosts["spectrum"]]
    for host in hosts:
        host.show_view(view)
    assert [panel.name for panel in capture_panels(hosts)] == ["training", "spectrum"]
    other = replace(view.run, run=view.run.run + 1)
    hosts[1].show_view(replace(view, run=other))  # the first one is drawn in a moment
    assert [panel.name for panel in capture_panels(hosts)] == ["spectrum"]


def test_a_refusal_to_save_ends_and_copy_puts_the_figure_on_the_clipboard(
    desk: Desk, tmp_path: Path
) -> None:
    desk.export.save_panel("training")
    dialog = desk.drawn()
    desk.answer(dialog.save(), tmp_path / "gone" / "a.svg")
    assert dialog.said.refusal == desk.told[-1].text
    dialog.said.end_refusal()  # as its time does
    assert dialog.said.text() == ""
    dialog.copy_to_clipboard()
    desk.qtbot.waitUntil(lambda: dialog.said.text() != "")
    assert dialog.said.refusal == ""
    image = QGuiApplication.clipboard().image()
    assert image.width() == 975  # 3.25 in at 300 dpi
    dialog.close()


def test_what_was_saved_stays_said_when_a_preview_comes_after_it(
    desk: Desk, tmp_path: Path
) -> None:
    desk.export.save_panel("training")
    dialog = desk.dialog()
    desk.answer(dialog.save(), tmp_path / "a.svg")
    dialog.form.inches.setValue(5.0)
    dialog.form.width_box.pick_value("free")
    desk.qtbot.waitUntil(lambda: dialog.caption.text().startswith("5 × "))
    assert dialog.said.text() == f"a.svg saved in {tmp_path}."
    dialog.close()


def test_what_makes_no_figure_is_said_in_the_dialog(desk: Desk, tmp_path: Path) -> None:
    desk.export.save_panel("training")
    dialog = desk.drawn()
    dialog.form.height_box.setValue(0.9)
    desk.qtbot.waitUntil(lambda: "has no room for Loss" in dialog.caption.text())
    assert dialog.caption.property("role") == "refused"
    dialog.form.height_box.setValue(0.0)
    desk.qtbot.waitUntil(lambda: dialog.caption.property("role") == "muted")
    dialog.form.names["train"].setText("$^{$")
    dialog.form.names["train"].textEdited.emit("$^{$")
    desk.qtbot.waitUntil(lambda: "for the curve train cannot be typeset" in dialog.caption.text())
    dialog.form.panel_boxes["training"].setChecked(False)
    desk.qtbot.waitUntil(lambda: "train" not in dialog.caption.text())
    assert dialog.caption.property("role") == "refused"
    assert dialog.save() is None
    dialog.copy_to_clipboard()
    dialog.form.panel_boxes["training"].setChecked(True)
    desk.answer(dialog.save(), tmp_path / "gone" / "a.svg")
    assert desk.told[-1].kind == "refused"
    desk.answer(dialog.save(), tmp_path / "a.bmp")
    assert (desk.told[-1].kind, desk.told[-1].text[:5]) == ("refused", "a.bmp")
    dialog.close()


def test_a_panel_without_a_picture_is_refused(desk: Desk, make_view: MakeView) -> None:
    desk.hosts["spectrum"].show_view(make_view("absent"))
    desk.export.save_panel("spectrum")
    assert desk.told[-1].about == "empty"
    assert desk.told[-1].text.startswith("NPK spectrum ")
    for host in desk.hosts.values():
        host.show_view(View())
    desk.export.save_visible_panels()
    assert desk.told[-1].about == "no-frame"
    desk.export.save_panel("")
    assert len(desk.told) == 2
    assert not desk.window.findChildren(ExportDialog)


def test_a_second_dialog_takes_the_place_of_the_first(desk: Desk) -> None:
    desk.export.save_panel("training")
    desk.export.save_panel("spectrum")
    assert desk.dialog().form.chosen_panels() == ("spectrum",)
    desk.dialog().close()


def test_a_dialog_that_is_closed_while_it_writes_tells_the_outcome(
    desk: Desk, tmp_path: Path
) -> None:
    desk.export.save_panel("training")
    dialog = desk.dialog()
    asked = dialog.save()
    assert asked is not None
    asked.fileSelected.emit(str(tmp_path / "late.pdf"))
    dialog.close()
    desk.qtbot.waitUntil(lambda: bool(desk.told))
    assert "late.pdf saved" in desk.told[-1].text


def test_jobs_run_outside_the_thread_of_the_window_and_end_with_it(qtbot: QtBot) -> None:
    owner = QWidget()
    qtbot.addWidget(owner)
    figures, gate = FigureThread(owner), threading.Event()
    seen: list[Any] = []
    threads: list[str] = []

    def job(name: str) -> Callable[[], str]:
        def make() -> str:
            threads.append(threading.current_thread().name)
            gate.wait(30.0)
            return name

        return make

    figures.run_job(job("first"), seen.append, "preview")
    figures.run_job(job("second"), seen.append, "preview")
    figures.run_job(job("file"), seen.append)
    figures.run_job(job("third"), seen.append, "preview")
    assert figures.is_busy
    gate.set()
    qtbot.waitUntil(lambda: "third" in seen)
    assert seen == ["file", "third"], "only the newest preview counts, a file is always written"
    assert set(threads) == {"dgn-figure"}
    assert not figures.is_busy
    trouble = UserError("no.")

    def fail() -> None:
        raise trouble

    figures.run_job(fail, seen.append)
    qtbot.waitUntil(lambda: seen[-1] is trouble)
    figures.close()
