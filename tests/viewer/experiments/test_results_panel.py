"""Experiments in the window: the page, the child process, progress and result."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Polygon
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from dgn_engine.cli.reproduce import add_arguments
from dgn_engine.confinement.child_process import python_command
from dgn_engine.experiments.report import document, reproduction_progress
from dgn_engine.experiments.report.document import ReportUnit
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.papers import OTHERS, PAPERS, RELATED, paper_title
from dgn_engine.experiments.report.report_figures import draw_report_figure
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest, find_results
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress, RunningUnit
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.figures.save_figure import save_page
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.protocol.experiments import Printed
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.application import Viewer
from dgn_viewer.experiments import dgn_process
from dgn_viewer.experiments.dgn_process import DgnProcess
from dgn_viewer.experiments.results_panel import ResultsPanel
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.plots.scene_view import SceneView
from tests.engine.confinement.trap_folder import BIN, TrapFolder, make_trap_folder
from tests.plugins import each
from tests.snapshots import Recorded
from tests.viewer.experiments.made_results import BOXES, DONE, FIGURE
from tests.viewer.seen_charts import colours_in, visible_range

ENTRY = ExperimentEntry(
    "npf-nu", "ν falls", "[NPF] Figure 2", "About.", ("as-published",), "30 s", "2 h"
)
NOTHING = Catalogue((), (), (), (), ("cpu",))


@pytest.fixture
def panel(qtbot: QtBot) -> ResultsPanel:
    made = ResultsPanel(LIGHT)
    qtbot.addWidget(made)
    made.resize(560, 800)
    made.show()
    return made


def test_a_figure_of_a_result_has_the_menu_of_charts(panel: ResultsPanel) -> None:
    panel.show_document(DONE)
    view = panel.figures_view
    place = view.charts.data_rect("nu").center().toPoint()
    QTest.mouseClick(view.chart_viewport(), Qt.MouseButton.RightButton, pos=place)
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
    reduced = [label.text() for label in panel.claims.verdicts]
    panel.show_document(replace(DONE, scale="full"))  # another result after it
    assert not panel.answer.isVisible()
    assert "reduced" not in panel.paper.text()
    whole = [label.text() for label in panel.claims.verdicts]
    assert all(one.startswith(two) and one != two for one, two in zip(reduced, whole, strict=True))


def test_a_running_experiment_shows_how_far_it_is(panel: ResultsPanel) -> None:
    panel.show_beginning("ν falls", "[NPF] Figure 2")
    assert panel.bar.maximum() == 0  # it loads
    best, other = RunningUnit("a", 1.0, 0.9731), RunningUnit("relu-s1", 0.4, 0.9)
    now = ReproductionProgress("npf-nu", "running", 6, 2, 1, 0.5, 30.0, 90.0, best, (other,))
    panel.show_progress(now)
    assert panel.words.text() == "2 of 6 done, 1 failed · 90 s left · best 97.31 %"
    assert (panel.bar.value(), panel.bar.maximum()) == (500, 1000)
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
    printed = replace(DONE.rows[0], printed=Printed(98.14, 0.07, 0.5))
    for row, mark in (
        (DONE.rows[0], "±"),
        (replace(printed, values=(96.5, 96.6, 96.4)), "✗ ±"),
        (printed, "○ ±"),
        (replace(printed, values=(98.1, 98.2, 98.1)), "✓ ±"),
    ):
        panel.rows.show_rows((row,), "reduced")
        assert panel.rows.item(0, 4).text().startswith(mark)  # type: ignore[union-attr]
        verdict = row.agreement.verdict
        assert verdict in panel.rows.item(0, 4).toolTip()  # type: ignore[union-attr]
    panel.rows.show_rows((replace(printed, printed=None),))
    assert panel.rows.isColumnHidden(4)
    verdicts = [label.text() for label in panel.claims.verdicts]
    assert verdicts == [
        "✓ held at quick scale",
        "✗ not held at quick scale",
        "○ not decided at quick scale",
    ]
    assert LIGHT.refused in panel.claims.verdicts[1].styleSheet()
    panel.set_theme(DARK)
    assert DARK.refused in panel.claims.verdicts[1].styleSheet()
    assert panel.figures_view.isVisible()
    assert not panel.stop.isVisible()
    assert not panel.go_on.isVisible()


def test_an_experiment_without_a_result_has_no_report_of_the_one_before(
    panel: ResultsPanel,
) -> None:
    panel.show_document(DONE)
    assert panel.report.isVisible()
    panel.show_beginning("another", "[NPF] Table 1")
    panel.show_trouble("It broke.")
    assert (panel.report.isVisible(), panel.bar.isVisible()) == (False, False)
    assert panel.trouble.text() == "It broke."


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
    item = panel.figures_view.charts.items["nu"]
    shown = {key: line.getData() for key, line in item._curves._lines.items()}
    with print_style():
        (axes,) = draw_report_figure(FIGURE).axes
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


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_boxes_and_points_are_drawn_in_both_themes(qtbot: QtBot, theme: Theme) -> None:
    view = SceneView(theme)
    qtbot.addWidget(view)
    view.resize(520, 320)
    view.show()
    view.show_scene(scene_of((BOXES,)))
    seen = colours_in(view)
    assert theme.role_colour("value") in seen, "points"
    assert theme.role_colour("text") in seen, "medians"
    assert theme.panel in seen


def test_the_page_asks_for_what_is_filled_in_and_again_for_what_is_filled_in_then(
    qtbot: QtBot, recorded: Recorded
) -> None:
    """Rows, rates and the device only where they mean something."""
    asked: list[ReproduceRequest] = []

    def page_of(entry: ExperimentEntry) -> ExperimentPage:
        made = ExperimentPage(entry, NOTHING, lambda _entry, one: asked.append(one) or "", "")
        qtbot.addWidget(made)
        made.show()
        made.advanced.set_open()
        return made

    page = page_of(ENTRY)
    hidden = (page.rows, page.advanced.steps, page.advanced.augmentation)
    assert not any(field.isVisible() for field in hidden)
    page.full.setChecked(True)
    page.seeds.setValue(2)
    page.begin.click()
    assert asked.pop() == ReproduceRequest("npf-nu", scale="full", seeds=2)
    rows = ("FC/SGD", "GCONV/Adam")
    page = page_of(replace(ENTRY, rows=rows, asks=("steps", "augmentation")))
    page.rows.pick_value("GCONV/Adam")
    page.advanced.steps.setText("0.1, fast")
    page.begin.click()
    assert asked == []
    assert "'0.1, fast'" in page.message.text()
    page.advanced.steps.setText("0.1, 0.01")
    page.advanced.augmentation.pick_value("davidnet")
    page.advanced.seed_start.setValue(3)
    page.advanced.train_limit.setValue(500)
    page.advanced.device.pick_value("cpu")
    page.advanced.executor.pick_value("serial")
    page.advanced.set_open(False)
    assert "5 more" in page.advanced.button.text()
    page.begin.click()
    recorded((asked[0].arguments[:-1], asked[0].folder.name))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    told = parser.parse_args(asked[0].arguments[1:])
    assert (told.only, told.steps, told.device) == ("GCONV/Adam", (0.1, 0.01), "cpu")
    page.rows.pick_value("FC/SGD")
    page.advanced.steps.setText("")
    page.begin.click()
    assert asked[1].folder != asked[0].folder
    assert "GCONV/Adam" not in asked[1].arguments


def test_an_experiment_of_the_menu_is_carried_out_beside_the_run_and_stopped_with_the_window(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    window = make_viewer().window
    experiments, results = window.experiments, window.experiments.results
    window.registry["experiment.npf-nu"].trigger()
    page = window.inspector.page
    assert isinstance(page, ExperimentPage)
    page.advanced.executor.pick_value("serial")  # no more processes than the one that is stopped
    page.begin.click()
    assert experiments.is_running
    assert not results.isHidden()
    folder = tmp_path / "results" / "npf-nu-quick"
    qtbot.waitUntil(lambda: (folder / "progress.json").exists())
    assert document.read_document(folder).state == "running", (
        "a folder that is killed can be opened"
    )
    window.registry["experiment.npf-nu"].trigger()
    busy = window.inspector.page
    assert isinstance(busy, ExperimentPage)
    assert (busy.message.isHidden(), busy.begin.isEnabled()) == (False, False)
    run = window.run_state.run
    results.panel.stop.click()
    qtbot.waitUntil(lambda: not experiments.is_running)
    assert (busy.message.isHidden(), busy.begin.isEnabled()) == (True, True)
    assert document.read_document(folder).state == "interrupted"
    assert not results.panel.go_on.isHidden()  # the page may have the room of the column
    assert window.run_state.run is run, "the live run is untouched"
    waits = python_command("-c", "import sys; sys.stdin.read()")  # begins sooner than `dgn`
    monkeypatch.setattr(dgn_process, "module_command", lambda _: waits)
    results.panel.go_on.click()
    assert experiments.is_running
    window.registry["experiments.stop"].trigger()
    qtbot.waitUntil(lambda: not experiments.is_running)
    results.panel.go_on.click()
    assert experiments.is_running
    window.close()
    assert not experiments.is_running


def test_cards_are_named_only_where_there_are_some(qtbot: QtBot) -> None:
    for devices in (("cpu",), ("cpu", "cuda")):
        catalogue = replace(NOTHING, devices=devices)
        page = ExperimentPage(ENTRY, catalogue, lambda *_: "", "")
        qtbot.addWidget(page)
        page.show()
        page.advanced.set_open()
        assert page.advanced.devices.isVisible() == ("cuda" in devices)
    page.advanced.devices.setText("cuda:0,cuda:1 ")
    assert page.make_request().arguments[-4:-2] == ("--devices", "cuda:0,cuda:1")


ENTRIES = {entry.id: entry for entry in experiment_entries()}


def result(folder: Path, made: str) -> None:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(f'{{\n "made": "{made}"\n}}\n', encoding="utf-8")


@pytest.mark.parametrize("name", each(ENTRIES))
def test_every_experiment_stands_under_a_paper(name: str) -> None:
    cited = ENTRIES[name].paper
    title = paper_title(cited)
    assert title in {paper.title for paper in {**PAPERS, **RELATED}.values()} | {OTHERS}


def test_a_paper_is_the_first_that_is_cited() -> None:
    assert paper_title("[NPF] §3, [DGN] §3") == "Neural Path Features and Neural Path Kernel"
    assert paper_title("Arora et al.") == paper_title("[XYZ] 3") == OTHERS


def test_the_newest_result_of_each_experiment_is_found(tmp_path: Path) -> None:
    result(tmp_path / "npf-nu-quick", "2026-11-02T10:00:00+00:00")
    result(tmp_path / "npf-nu-full-3_seeds", "2026-10-30T10:00:00+00:00")
    result(tmp_path / "duality-48-quick", "2026-01-02T10:00:00+00:00")
    result(tmp_path / "duality-quick", "nonsense")
    (tmp_path / "npf-kernels-quick").mkdir()
    (tmp_path / "npf-kernels-quick" / "results.json").write_bytes(b"\xff\xfe")
    (tmp_path / "file").write_text("")
    names = ("npf-nu", "npf-kernels", "duality", "duality-48", "npf")
    found = find_results(tmp_path, names)
    assert {name: result.made[:10] for name, result in found.items()} == {
        "npf-nu": "2026-11-02",
        "duality-48": "2026-01-02",
    }
    assert found["npf-nu"].folder == tmp_path / "npf-nu-quick"
    assert find_results(tmp_path / "nowhere", names) == {}


def test_the_progress_of_a_process_is_its_own_also_where_one_before_it_was_killed_there(
    tmp_path: Path, qtbot: QtBot
) -> None:
    assert qtbot is not None  # its timer needs an application
    process = DgnProcess(program=python_command("-c", "input()"))
    seen: list[ReproductionProgress] = []
    process.progressed.connect(seen.append)
    left = ReproductionProgress("x", "running", 60, 59, 0, 0.98, 100.0)
    for count in (1, 2):
        reproduction_progress.write_progress(left, tmp_path)
        process.start(["reproduce"], tmp_path)
        process.report_progress()
        assert len(seen) == count - 1
        ours = replace(left, done=0, fraction=0.0, elapsed=0.1)
        reproduction_progress.write_progress(ours, tmp_path)
        process.report_progress()
        process.report_progress()
        assert seen == count * [ours]
        process.close()


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("import sys; sys.exit('first\\nlast')", [1, "last"]),
        ("import os; os.kill(os.getpid(), 9)", [9, ""]),
        ("input()", [0, ""]),
    ],
)
def test_the_end_of_a_process_is_its_code_and_its_last_words_and_another_can_be_started(
    tmp_path: Path, qtbot: QtBot, code: str, ended: list[object]
) -> None:
    command = python_command("-c", f"try: exec({code!r})\nexcept EOFError: pass")
    process = DgnProcess(program=command, every=5)
    for _ in range(2):
        with qtbot.waitSignal(process.ended, timeout=60_000) as end:
            process.start([], tmp_path)
            process.stop()
        assert end.args == ended
        assert not process.is_running


def test_a_program_that_cannot_be_started_has_ended(tmp_path: Path, qtbot: QtBot) -> None:
    process = DgnProcess(program=["/no/such/program"])
    with qtbot.waitSignal(process.ended) as end:
        process.start([], tmp_path)
    assert end.args is not None
    assert end.args[0] == 1
    assert end.args[1]
    assert not process.is_running


SHELL = pytest.mark.skipif(sys.platform == "win32", reason="the traps are shell scripts")


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> TrapFolder:
    return make_trap_folder(tmp_path_factory.mktemp("start"))


def typed(traps: TrapFolder, line: str) -> None:
    program, *words = line.split()
    done = subprocess.run(
        [str(BIN / program), *words],
        cwd=traps.folder,
        env=traps.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert traps.marks == []
    assert done.returncode == 0, done.stderr


@SHELL
def test_a_window_with_its_engine_in_a_process_runs_nothing_of_the_folder(
    traps: TrapFolder,
) -> None:
    picture = traps.safe / "window.png"
    typed(traps, f"dgn-viewer --process --offscreen --steps 1 --screenshot {picture}")
    assert json.loads(picture.with_suffix(".json").read_text())


@SHELL
@pytest.mark.faults
def test_a_run_is_trained_and_drawn_with_no_settings_of_the_folder(traps: TrapFolder) -> None:
    run, out = traps.safe / "run", traps.safe / "figure.pdf"
    small = "--data digits --width 4 --depth 3 --epochs 1"
    typed(traps, f"dgn train {small} --quiet --out {run}")
    typed(traps, f"dgn figure {run} --panel training -o {out}")
    assert out.stat().st_size


@SHELL
def test_an_experiment_of_the_window_is_started_safely(
    traps: TrapFolder, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(traps.folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(traps.folder)])
    process = DgnProcess(every=5)
    with qtbot.waitSignal(process.ended, timeout=60_000) as ended:
        process.start(["reproduce", "--list"], Path(traps.safe))
    assert traps.marks == []
    assert ended.args == [0, ""]


@pytest.mark.parametrize("width", [360, 560])
def test_no_label_of_a_row_is_cut(panel: ResultsPanel, width: int) -> None:
    label = "fixed gates, w = 1,024: the largest difference of predicted and measured errors"
    (row, *_) = DONE.rows
    panel.resize(width, 800)
    panel.show_document(replace(DONE, rows=(row, replace(row, label=label))))
    table = panel.rows
    lines = range(table.rowCount())
    line = next(n for n in lines if (item := table.item(n, 0)) and item.text() == label)
    wide = sum(table.columnWidth(column) for column in range(table.columnSpan(line, 0)))
    room = QRect(0, 0, wide - 16, 1000)
    needed = QFontMetrics(table.item(line, 0).font()).boundingRect(  # type: ignore[union-attr]
        room, Qt.TextFlag.TextWordWrap, label
    )
    assert needed.width() <= room.width()
    assert needed.height() <= table.rowHeight(line)
    assert sum(map(table.rowHeight, lines)) < table.height()
