"""Experiments in the window: the menu, the page, the child process, the Results panel."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Polygon
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from dgn_engine.cli.reproduce import add_arguments
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow, ReportUnit
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.report_figures import draw
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress, RunningUnit
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.figures.save_figure import save_page
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.protocol.experiments import Claim, Figure, PlottedLine, Printed
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.application import Viewer
from dgn_viewer.experiments.results_panel import EMPTY, ResultsPanel
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.seen_charts import visible_range

ENTRY = ExperimentEntry(
    "npf-nu", "ν falls", "[NPF] Figure 2", "About.", ("as-published",), "30 s", "2 h"
)
NOTHING = Catalogue((), (), (), (), ("cpu",))
FIGURE = Figure(
    "nu",
    "ν",
    "epoch",
    "ν",
    (PlottedLine("ν", (0.0, 1.0), (2.0, 1.0), (0.5, 2.0)), PlottedLine("p", (), (1.5,))),
    log_y=True,
)

BOXES = Figure(
    "models",
    "The models",
    "",
    "test accuracy (%)",
    (
        PlottedLine("", (0.0,) * 8, tuple(map(float, range(90, 98))), style="boxes"),
        PlottedLine("x^v = 1", (0.0,) * 8, tuple(map(float, range(90, 98))), style="cloud"),
    ),
    categories=("FR-II", "ReLU"),
)
DONE = Document(
    name="npf-nu",
    title="ν falls",
    paper="[NPF] Figure 2",
    about="",
    scale="quick",
    protocol="as-published",
    request={},
    made="2026-01-02T03:04:05+00:00",
    state="done",
    versions={},
    machine={},
    seconds=61.0,
    rows=(ReportRow("ReLU", (97.5, 97.7, 97.6), 97.6, 0.25, Printed(98.14, 0.07), -0.54),),
    claims=(
        Claim("npf-4", "falls", "Spearman; below 0", -0.9, -1.0, -0.8, 3, "held"),
        Claim("npf-1", "is below", "d; above 0", -2.0, -3.0, -1.0, 3, "not held"),
        Claim("npf-2", "is near", "d; below 1", 0.5, math.nan, math.nan, 1, "not decided"),
    ),
    figures=(FIGURE,),
    scaled_down=("digits",),
    units=(ReportUnit("relu-s0", "done", 5.0),),
    command=("reproduce", "npf-nu", "--quick"),
)


@pytest.fixture
def panel(qtbot: QtBot) -> ResultsPanel:
    made = ResultsPanel(LIGHT)
    qtbot.addWidget(made)
    made.resize(560, 800)
    made.show()
    return made


def test_a_panel_without_a_result_says_where_one_comes_from(panel: ResultsPanel) -> None:
    assert panel._message.isVisible()
    assert panel._message.text() == EMPTY


def test_a_figure_of_a_result_has_the_menu_of_charts(panel: ResultsPanel) -> None:
    panel.show_document(DONE)
    view = panel.figures
    place = view.charts.area("nu").center().toPoint()
    QTest.mouseClick(view.canvas(), Qt.MouseButton.RightButton, pos=place)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    inner = next(action.menu() for action in menu.actions() if action.text() == "Range")
    assert isinstance(inner, QMenu)
    next(action for action in inner.actions() if action.text() == "Logarithmic y").trigger()
    menu.close()
    assert 3.0 < visible_range(view, "nu")[1][1] < 3.2  # 3 and no longer its power of ten
    panel.show_document(replace(DONE, name="another"))
    assert 0.4 < visible_range(view, "nu")[1][1] < 0.6


def test_a_result_at_a_reduced_scale_says_so_above_its_rows_and_in_its_verdicts(
    panel: ResultsPanel,
) -> None:
    said = "Reduced scale: 3 of 60 epochs."
    panel.show_document(replace(DONE, scale="reduced", notices=(said,)))
    assert panel.answer.isVisible()
    assert panel.answer.text() == said
    assert "reduced" in panel.paper.text()
    assert [label.text() for label in panel.claims.verdicts] == [
        "✓ held, reduced scale",
        "✗ not held, reduced scale",
        "○ not decided at this scale",
    ]


def test_a_running_experiment_shows_how_far_it_is(panel: ResultsPanel) -> None:
    panel.show_beginning("ν falls", "[NPF] Figure 2")
    now = ReproductionProgress(
        "npf-nu",
        "running",
        6,
        2,
        1,
        0.5,
        30.0,
        90.0,
        RunningUnit("a", 1.0, 0.9731),
        (RunningUnit("relu-s1", 0.4, 0.9),),
    )
    panel.show_progress(now)
    assert panel.words.text() == "2 of 6 done, 1 failed · 90 s left · best 97.31 %"
    assert panel.bar.value() == 500
    (line,) = panel.running.lines
    told = (line.name.text(), line.share.text(), line.score.text())
    assert told == ("relu-s1", "40 %", "90.00 %")
    assert line.bar.value() == 400
    assert not panel.running.more.isVisible()
    many = tuple(RunningUnit(f"relu-s{seed}", 0.1) for seed in range(11))
    panel.show_progress(replace(now, running=many))
    assert panel.running.more.text() == "and 3 more"
    panel.show_progress(replace(now, running=many[:2]))
    assert [line.name.isVisible() for line in panel.running.lines] == [True] * 2 + [False] * 6
    assert panel.stop.isVisible()
    assert not panel.go_on.isVisible()


def test_a_result_stands_beside_what_was_printed_and_verdicts_are_words(
    panel: ResultsPanel,
) -> None:
    panel.show_document(DONE)
    cells = [panel.rows.item(0, column).text() for column in range(4)]  # type: ignore[union-attr]
    assert cells == ["ReLU", "97.60 ± 0.25 %", "98.14 ± 0.07", "−0.54"]
    assert [label.text() for label in panel.claims.verdicts] == [
        "✓ held",
        "✗ not held",
        "○ not decided",
    ]
    assert LIGHT.refused in panel.claims.verdicts[1].styleSheet()
    panel.set_theme(DARK)
    assert DARK.refused in panel.claims.verdicts[1].styleSheet()
    assert panel.figures.isVisible()
    assert not panel.stop.isVisible()
    assert not panel.go_on.isVisible()


def test_an_interrupted_result_can_be_gone_on_with(panel: ResultsPanel, qtbot: QtBot) -> None:
    units = (*DONE.units, ReportUnit("relu-s1", "queued"))
    left = replace(DONE, state="interrupted", rows=(), claims=(), figures=(), units=units)
    panel.show_document(left)
    assert panel.words.text().startswith("interrupted · 1 of 2 runs and calculations · ")
    assert panel.go_on.isVisible()
    with qtbot.waitSignal(panel.go_on_wanted):
        panel.go_on.click()


def test_window_report_and_script_draw_the_same_numbers_of_a_figure(
    panel: ResultsPanel, tmp_path: Path
) -> None:
    panel.show_document(DONE)
    item = panel.figures.charts.items["nu"]
    shown = {key: line.getData() for key, line in item._curves._lines.items()}
    with print_style():
        (axes,) = draw(FIGURE).axes
    area = next(patch for patch in axes.patches if isinstance(patch, Polygon))
    lines = {str(line.get_gid()): line for line in axes.lines}
    x, y = area.get_xy()[:4].T
    assert x.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert y.tolist() == pytest.approx([2.5, 3.0, 3e-9, 1.5])
    np.testing.assert_allclose(shown["#0"], np.stack([x, np.log10(y)]))
    for name in ("$ν$", "p"):
        line = lines[f"nu.{name.strip('$')}"]
        at, values = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        np.testing.assert_allclose(shown[name], np.stack([at, np.log10(values)]))

    page = FigurePanel("nu", scene_of((FIGURE,)), Provenance("ν"))
    script, numbers = save_page([page], tmp_path / "redrawn.py", FigureStyle(3.25, dpi=100))
    with np.load(numbers, allow_pickle=False) as found:
        np.testing.assert_array_equal(found["nu.curve 0.y"][:4], y)
        np.testing.assert_array_equal(found["nu.ν.y"], lines["nu.ν"].get_ydata())
    (ours,) = save_page([page], tmp_path / "ours.png", FigureStyle(3.25, dpi=100))
    subprocess.run([sys.executable, script, tmp_path / "theirs.png"], check=True, timeout=120)
    np.testing.assert_array_equal(imread(tmp_path / "theirs.png"), imread(ours))


def test_a_line_that_takes_the_place_of_a_band_is_not_filled(panel: ResultsPanel) -> None:
    panel.show_document(DONE)
    lines = panel.figures.charts.items["nu"]._curves._lines
    assert lines["#0"].opts["fillLevel"] == "enclosed"
    bare = replace(FIGURE, lines=(PlottedLine("", (0.0, 1.0), (2.0, 1.0)),))
    panel.show_document(replace(DONE, figures=(bare,)))
    assert lines["#0"].opts["fillLevel"] is None
    points = replace(FIGURE, lines=(PlottedLine("", (0.0, 1.0), (2.0, 1.0), style="points"),))
    panel.show_document(replace(DONE, figures=(points,)))
    panel.show_document(DONE)
    dots = panel.figures.charts.items["nu"]._curves._dots
    assert "#0" not in dots


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_boxes_and_points_are_drawn_in_both_themes(qtbot: QtBot, theme: Theme) -> None:
    view = SceneView(theme)
    qtbot.addWidget(view)
    view.resize(520, 320)
    view.show()
    view.show_scene(scene_of((BOXES,)))
    picture = view.grab().toImage()
    seen = {
        QColor(picture.pixel(x, y)).name()
        for x in range(picture.width())
        for y in range(picture.height())
    }
    assert QColor(theme.role("value")).name() in seen, "points"
    assert QColor(theme.role("text")).name() in seen, "medians"
    assert QColor(theme.panel).name() in seen


def test_the_page_asks_for_what_is_filled_in(qtbot: QtBot) -> None:
    asked: list[ReproduceRequest] = []
    page = ExperimentPage(ENTRY, NOTHING, lambda _entry, request: asked.append(request) or "", "")
    qtbot.addWidget(page)
    page.show()
    page.advanced.open()
    assert not page.rows.isVisible()
    assert not page.advanced.steps.isVisible()
    assert not page.advanced.augmentation.isVisible()
    page.full.setChecked(True)
    page.seeds.setValue(2)
    page.begin.click()
    (request,) = asked
    assert request == ReproduceRequest("npf-nu", scale="full", seeds=2)
    assert request.arguments[:5] == ("reproduce", "npf-nu", "--full", "--protocol", "as-published")
    assert request.folder.name == "npf-nu-full-2_seeds"


def test_the_page_asks_for_rows_rates_and_the_device_where_they_mean_something(
    qtbot: QtBot,
) -> None:
    asked: list[ReproduceRequest] = []
    entry = replace(ENTRY, rows=("FC/SGD", "GCONV/Adam"), asks=("steps", "augmentation"))
    page = ExperimentPage(entry, NOTHING, lambda _entry, request: asked.append(request) or "", "")
    qtbot.addWidget(page)
    page.show()
    page.rows.pick("GCONV/Adam")
    page.advanced.open()
    page.advanced.steps.setText("0.1, fast")
    page.begin.click()
    assert asked == []
    assert "'0.1, fast'; they must be learning rates" in page.message.text()
    page.advanced.steps.setText("0.1, 0.01")
    page.advanced.augmentation.pick("davidnet")
    page.advanced.seed_start.setValue(3)
    page.advanced.train_limit.setValue(500)
    page.advanced.device.pick("cpu")
    page.advanced.executor.pick("serial")
    page.advanced.open(False)
    assert page.advanced.button.text() == "Advanced: SGD's steps and 5 more"
    page.begin.click()
    (request,) = asked
    assert request.arguments[5:-2] == (
        "--seed-start",
        "3",
        "--only",
        "GCONV/Adam",
        "--train-limit",
        "500",
        "--augmentation",
        "davidnet",
        "--device",
        "cpu",
        "--executor",
        "serial",
        "--steps",
        "0.1,0.01",
    )
    assert request.folder.name == (
        "npf-nu-quick-only_GCONV_Adam-steps_0.1_0.01-from_3-augmented-500_training"
    )
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    told = parser.parse_args(request.arguments[1:])
    assert (told.only, told.steps, told.device) == ("GCONV/Adam", (0.1, 0.01), "cpu")


def test_an_experiment_is_carried_out_beside_the_run_and_stopped_with_the_window(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    viewer = make_viewer()
    window = viewer.window
    experiments, results = window.experiments, window.experiments.results
    window.registry["experiment.npf-nu"].trigger()
    page = window.inspector.page
    assert isinstance(page, ExperimentPage)
    page.begin.click()
    assert experiments.running
    assert not results.isHidden()
    folder = tmp_path / "results" / "npf-nu-quick"
    qtbot.waitUntil(lambda: (folder / "progress.json").exists())
    assert document.read(folder).state == "running", "a folder that is killed can be opened"
    window.registry["experiment.npf-nu"].trigger()
    busy = window.inspector.page
    assert isinstance(busy, ExperimentPage)
    assert (busy.message.isHidden(), busy.begin.isEnabled()) == (False, False)
    run = window.run_state.run
    results.panel.stop.click()
    qtbot.waitUntil(lambda: not experiments.running)
    assert (busy.message.isHidden(), busy.begin.isEnabled()) == (True, True)
    assert document.read(folder).state == "interrupted"
    assert results.panel.go_on.isVisible()
    assert window.run_state.run is run, "the live run is untouched"
    results.panel.go_on.click()
    assert experiments.running
    window.registry["experiments.stop"].trigger()
    qtbot.waitUntil(lambda: not experiments.running)
    results.panel.go_on.click()
    assert experiments.running
    window.close()
    assert not experiments.running


def test_cards_are_named_only_where_there_are_some(qtbot: QtBot) -> None:
    for devices in (("cpu",), ("cpu", "cuda")):
        catalogue = replace(NOTHING, devices=devices)
        page = ExperimentPage(ENTRY, catalogue, lambda *_: "", "")
        qtbot.addWidget(page)
        page.show()
        page.advanced.open()
        assert page.advanced.devices.isVisible() == ("cuda" in devices)
    page.advanced.devices.setText("cuda:0,cuda:1 ")
    assert page.request().arguments[-4:-2] == ("--devices", "cuda:0,cuda:1")
