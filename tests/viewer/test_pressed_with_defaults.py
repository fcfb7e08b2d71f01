"""What starts a run or a command is pressed once in the real window, with its form as it opens.

The engine is the thread of the application, `dgn` a process of its own, and runs are recorded, as
they are where `dgn-viewer` is typed. Only the data and the networks are small.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from dgn_engine.cli.gate_information import SEEDS
from dgn_engine.experiments.report import document
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.training import StartRun
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.actions.action_rows import ActionRow, walk_menus
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.about_page import AboutPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.rail.runs_rail import RunsRail
from dgn_viewer.shell.export_dialog import ExportDialog
from dgn_viewer.window import Window
from tests.engine.cli.stranger import Stranger, save_numbered
from tests.viewer.actions.action_bench import Desk
from tests.viewer.conftest import small_run
from tests.viewer.gestures import LEFT, answer_dialog, open_file_page

Open = Callable[..., Viewer]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `dgn` writes what the window has it do."""
    folder = tmp_path / "results"
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(folder))
    return folder


def troubles(viewer: Viewer) -> list[Event]:
    """What the engine refuses or fails in from now on."""
    found: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, (Refused, Failed)):
            found.append(event)

    viewer.pump.event_arrived.connect(note)
    return found


def accept_as_it_is(window: Window, folder: Path) -> Path:
    """Press Save in the file dialog that is open, with the name and the ending that it offers."""
    dialog = next(one for one in window.findChildren(QFileDialog) if one.isVisible())
    assert Path(dialog.directory().absolutePath()) == folder
    (name,) = dialog.selectedFiles()
    dialog.accept()
    return Path(name)


def steps_of(window: Window, qtbot: QtBot, more: int = 5) -> None:
    """Wait until the run has trained on for some steps."""
    there = window.run_state.step
    qtbot.waitUntil(lambda: window.run_state.step > there + more)


@pytest.mark.slow
@pytest.mark.nightly
def test_gate_information_of_a_checkpoint_is_measured_to_its_end(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path, results: Path
) -> None:
    file = save_numbered(tmp_path / "numbered.pt")
    config = small_run()
    few = replace(config.data, train_limit=60, test_limit=30)
    viewer = make_viewer(replace(config, data=few), home="home")
    window = viewer.window
    open_file_page(viewer, qtbot, file, "network", FileReading(activation="relu"))
    window.registry["experiments.gate_information"].trigger()
    answer_dialog(window, file)
    assert window.experiments.is_running
    assert not window.experiments.results.isHidden()
    qtbot.waitUntil(lambda: not window.experiments.is_running)
    panel = window.experiments.results.panel
    assert not panel.trouble.isVisible(), panel.trouble.text()
    (folder,) = results.iterdir()
    made = document.read_document(folder)
    assert (made.state, len(made.units)) == ("done", 2 * SEEDS + 1)
    assert made.answer[0] in panel.answer.text()
    assert window.run_state.is_running, "the run of the window goes on beside it"


@pytest.mark.slow
def test_an_experiment_is_begun_watched_and_reported(
    make_viewer: Open, qtbot: QtBot, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsed: list[QUrl] = []  # not by the browser of whoever runs the tests
    monkeypatch.setattr(QDesktopServices, "openUrl", browsed.append)
    window = make_viewer(home="home").window
    first, panel = window.run_state.run, window.experiments.results.panel
    window.registry["experiment.npf-nu"].trigger()
    page = window.inspector.page
    assert isinstance(page, ExperimentPage)
    page.begin.click()
    folder = results / "npf-nu-quick"
    qtbot.waitUntil(lambda: (folder / "plan.json").exists())
    assert panel.watch.isVisible()
    panel.watch.click()
    qtbot.waitUntil(lambda: window.run_state.run is not first)
    assert window.run_state.regime == "ReLU"
    steps_of(window, qtbot)
    qtbot.waitUntil(lambda: not window.experiments.is_running)
    assert not panel.trouble.isVisible(), panel.trouble.text()
    made = document.read_document(folder)
    assert made.state == "done"
    assert panel.rows.isVisible()
    assert panel.rows.rowCount() == len(made.rows)
    panel.report.click()
    assert [url.toLocalFile() for url in browsed] == [str(folder / "report.html")]
    panel.show_list()
    window.experiments.results.hide()
    window.registry["experiments.show"].trigger()
    assert panel.isVisible()
    window.registry["file.open"].trigger()
    answer_dialog(window, folder)
    assert panel.title.text() == made.title
    assert panel.rows.isVisible()


@pytest.mark.slow
@pytest.mark.nightly
def test_a_branch_is_trained_stopped_and_compared_with_its_origin(
    make_viewer: Open, qtbot: QtBot
) -> None:
    viewer = make_viewer(home="home")
    window, found = viewer.window, troubles(viewer)
    steps_of(window, qtbot)
    window.registry["run.branch"].trigger()
    page = window.inspector.page
    assert isinstance(page, ComparePage)
    QTest.mouseClick(page.start, LEFT)
    qtbot.waitUntil(lambda: window.run_state.branch is not None)

    def phase() -> str:
        assert window.run_state.branch is not None
        return window.run_state.branch.phase

    qtbot.waitUntil(lambda: phase() == "training")
    assert window.run_state.branch is not None
    folder = Path(window.run_state.branch.folder)
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    page.copy.click()
    QTest.mouseClick(page.stop, LEFT)
    qtbot.waitUntil(lambda: not page.stop.isEnabled())
    qtbot.waitUntil(lambda: RunReader(folder).status != "running")
    qtbot.waitUntil(page.start.isEnabled)
    QTest.mouseClick(page.start, LEFT)  # another one
    qtbot.waitUntil(lambda: phase() == "training")
    window.registry["run.stop_branch"].trigger()
    qtbot.waitUntil(lambda: phase() not in ("starting", "training"))
    window.registry["file.close_comparison"].trigger()
    qtbot.waitUntil(lambda: window.run_state.comparison is None)
    qtbot.waitUntil(lambda: page.origin.count() > 1)
    page.origin.setCurrentIndex(1)
    QTest.mouseClick(page.compare_step, LEFT)
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    assert found == []


@pytest.mark.slow
def test_a_finished_run_is_branched_from_twice_and_each_branch_is_the_one_that_is_compared(
    make_viewer: Open, qtbot: QtBot
) -> None:
    viewer = make_viewer(small_run(pace=0.0, epochs=1), home="home")
    window, found = viewer.window, troubles(viewer)
    qtbot.waitUntil(lambda: window.run_state.phase == "finished")

    def opened_page() -> ComparePage:
        """The page, which closes when a comparison needs its room."""
        window.registry["run.branch"].trigger()
        page = window.inspector.page
        assert isinstance(page, ComparePage)
        return page

    def finished(step: int) -> bool:
        branch = window.run_state.branch
        assert found == []
        return branch is not None and (branch.from_step, branch.phase) == (step, "finished")

    def compared(folder: str, regime: str) -> bool:
        comparison, seen = window.run_state.comparison, window.history.view({}).compared
        there = comparison is not None and comparison.folder == folder
        config = seen.config if seen is not None else None
        return there and config is not None and config.gating.regime == regime

    folders: list[str] = []
    for step, regime in ((20, "FR-II"), (31, "ReLU")):
        page = opened_page()
        qtbot.waitUntil(page.start.isEnabled)
        page.origin.line.setText(str(step))
        page.regime.pick_value(regime)
        QTest.mouseClick(page.start, LEFT)
        qtbot.waitUntil(partial(finished, step))
        branch = window.run_state.branch
        assert branch is not None
        folders.append(branch.folder)
        assert RunReader(Path(branch.folder)).log.summary.step == 45
        qtbot.waitUntil(lambda: window.inspector.page is None)
        page = opened_page()
        QTest.mouseClick(page.compare, LEFT)
        qtbot.waitUntil(partial(compared, branch.folder, regime))
        page.update_numbers()
        assert ("regime", "DL", regime, "") in page.table.row_texts()
        for said in (page.status.text(), window.run_views.banners[0].shown_texts()[1]):
            assert f"from step {step}: regime {regime}" in said
        assert f"{regime} from step {step}" in page.sides.text()
    assert len(set(folders)) == 2
    assert window.run_state.phase == "finished"


def test_a_recorded_run_is_compared_opened_left_and_continued(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = make_viewer(home="home")
    window, found = viewer.window, troubles(viewer)
    steps_of(window, qtbot, 40)
    (folder,) = [path for path in (tmp_path / "home" / "runs").iterdir() if path.is_dir()]
    window.context.send(StartRun(small_run()))
    qtbot.waitUntil(lambda: RunReader(folder).status == "stopped")
    last = RunReader(folder).checkpoints[-1].step
    steps_of(window, qtbot)

    def listed() -> RunsRail:
        window.registry["file.open_run"].trigger()
        rail = window.runs.rail
        qtbot.waitUntil(lambda: len(rail.runs.runs) == 2)
        rail.table.choose_run(str(folder))
        return rail

    listed().compare.click()
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    window.run_views.banners[0].buttons["file.close_comparison"].click()
    qtbot.waitUntil(lambda: window.run_state.comparison is None)
    window.registry["file.compare_run"].trigger()
    answer_dialog(window, folder)
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    reached = window.run_state.step
    listed().show_run.click()
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    window.run_views.banners[1].buttons["file.go_back"].click()
    qtbot.waitUntil(lambda: window.run_state.recorded is None and window.run_state.is_running)
    qtbot.waitUntil(lambda: window.run_state.step > reached)
    rail = listed()
    qtbot.waitUntil(rail.go_on.isEnabled)
    rail.go_on.click()
    qtbot.waitUntil(lambda: RunReader(folder).status == "running")
    qtbot.waitUntil(lambda: window.run_state.step > last)
    assert found == []


def test_a_session_and_a_checkpoint_are_opened_in_dialogs_and_once_more_from_the_menu(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = make_viewer(home="home")
    window, found = viewer.window, troubles(viewer)
    file = save_numbered(tmp_path / "numbered.pt")
    session = tmp_path / "session.dgn"
    steps_of(window, qtbot, 40)
    window.context.settings.export_folder = str(tmp_path)
    window.registry["file.save_session"].trigger()
    assert accept_as_it_is(window, tmp_path) == session
    qtbot.waitUntil(session.exists)
    window.registry["file.open"].trigger()
    answer_dialog(window, session)
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: window.run_state.recorded is None and window.run_state.is_running)
    window.registry["file.open"].trigger()
    answer_dialog(window, file)
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    window.inspector.close_page()
    # between them: the run that the session became
    names = [window.registry[f"recent.{place}"].text() for place in (1, 3)]
    assert [name.partition(" ")[0] for name in names] == [file.name, session.name]
    window.registry["recent.1"].trigger()
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    window.registry["recent.3"].trigger()
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    assert found == []


def test_a_paused_run_takes_one_step_one_epoch_and_begins_again(
    make_viewer: Open, qtbot: QtBot
) -> None:
    window = make_viewer(paused=True, home="home").window
    run = window.run_state.run
    assert run is not None

    def rests_at(step: int) -> bool:
        return window.run_state.step == step and window.run_state.phase == "paused"

    window.registry["run.step"].trigger()
    qtbot.waitUntil(lambda: rests_at(1))
    window.registry["run.epoch"].trigger()
    qtbot.waitUntil(lambda: rests_at(run.steps_per_epoch))
    for _ in range(2):
        before = window.run_state.run
        window.registry["run.reset"].trigger()
        qtbot.waitUntil(lambda before=before: window.run_state.run is not before)
        again = window.run_state.run
        assert again is not None
        assert (again.config, again.probe_set.digest) == (run.config, run.probe_set.digest)
        qtbot.waitUntil(lambda: rests_at(0))
        window.registry["run.step"].trigger()
        qtbot.waitUntil(lambda: rests_at(1))
    window.registry["file.quit"].trigger()
    assert not window.isVisible()


def test_a_network_of_a_file_is_trained_on_with_its_gates_fixed(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window, found = viewer.window, troubles(viewer)
    file = save_numbered(tmp_path / "numbered.pt")
    page = open_file_page(viewer, qtbot, file, "network", FileReading(activation="relu"))
    qtbot.waitUntil(page.go.isEnabled)
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(window.registry["run.train_on_gates"].isEnabled)
    window.registry["run.train_on_gates"].trigger()
    qtbot.waitUntil(lambda: window.run_state.has_run and window.run_state.regime == "FL")
    steps_of(window, qtbot)
    assert found == []


@pytest.mark.discovery
def test_each_regime_of_the_menu_is_swapped_to(viewer: Viewer, qtbot: QtBot) -> None:
    window, found = viewer.window, troubles(viewer)
    names = [spec.id for spec in window.registry.rows if spec.id.startswith("regime.")]
    assert len(names) > 10
    for name in names:
        window.registry[name].trigger()
        regime = name.removeprefix("regime.").removesuffix(".keep")
        qtbot.waitUntil(lambda regime=regime: window.run_state.regime == regime or bool(found))
        assert found == [], name
        steps_of(window, qtbot)


@pytest.mark.discovery
def test_each_playground_begins_and_learns(viewer: Viewer, qtbot: QtBot) -> None:
    window, found = viewer.window, troubles(viewer)
    names = [spec.id for spec in window.registry.rows if spec.id.startswith("playground.")]
    assert names
    for name in names:
        before = window.run_state.run
        window.registry[name].trigger()
        qtbot.waitUntil(lambda before=before: window.run_state.run is not before or bool(found))
        assert found == [], name
        steps_of(window, qtbot)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_tour_of_the_papers_does_each_of_its_steps(make_viewer: Open, qtbot: QtBot) -> None:
    viewer = make_viewer(home="home")
    window, found = viewer.window, troubles(viewer)
    window.registry["help.claims"].trigger()
    callout, began = window.guides.tour.callout, 0
    while window.guides.tour.step_index >= 0:
        run, regime = window.run_state.run, window.run_state.regime
        callout.act.click()
        if isinstance(window.inspector.page, ExperimentPage):
            assert window.inspector.page.begin.isEnabled()
        else:
            qtbot.waitUntil(
                lambda run=run, regime=regime: (
                    window.run_state.run is not run or window.run_state.regime != regime
                )
            )
            steps_of(window, qtbot)
            began += 1
        callout.next.click()
    assert began == 6
    assert found == []


@pytest.mark.discovery
@pytest.mark.slow
@pytest.mark.nightly
def test_what_panels_propose_to_try_is_done(viewer: Viewer, qtbot: QtBot) -> None:
    window, found = viewer.window, troubles(viewer)
    pressed = 0
    for name in all_panels():
        window.pages.open_about_panel(name)
        page = window.inspector.page
        assert isinstance(page, AboutPage)
        for _, button in page.trials:
            page.refresh_trials()
            if button.isEnabled():
                button.click()
                pressed += 1
                steps_of(window, qtbot)
        assert found == [], name
    assert pressed > 5


@pytest.mark.nightly
def test_a_run_of_dgn_serve_is_followed(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Stranger(tmp_path / "far", tmp_path)
    few = ("--train-limit", "60", "--test-limit", "30", "--out", "served")
    assert far.types("train", *few).returncode == 0
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "home" / "runs"))
    window = make_viewer(home="home").window
    with far.starts("serve", tmp_path / "served") as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(4)]
        (address,) = [word for word in " ".join(lines).split() if word.startswith("dgn://")]
        window.registry["file.follow_run"].trigger()
        dialog = window.recorded.remote.dialog
        assert dialog is not None
        dialog.address.setText(address)
        dialog.token.setText(lines[-1].split()[-1])
        dialog.follow_button.click()
        qtbot.waitUntil(lambda: window.run_state.recorded is not None)
        qtbot.waitUntil(lambda: not window.recorded.remote.is_following)
    assert window.run_state.recorded is not None
    assert window.run_state.recorded.name == "served"


def test_the_panel_in_front_is_exported_as_the_dialog_offers(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    window.context.settings.export_folder = str(tmp_path)
    front = window.docks.hosts[window.docks.front_panel()]
    qtbot.waitUntil(lambda: isinstance(front.shown_content(), Scene))
    window.registry["file.export_panel"].trigger()
    dialog = window.findChild(ExportDialog)
    assert isinstance(dialog, ExportDialog)
    dialog.save()
    file = accept_as_it_is(window, tmp_path)
    qtbot.waitUntil(lambda: " saved in " in dialog.said.text())
    (written,) = tmp_path.glob(f"{file.stem}.*")
    assert written.stat().st_size > 1000
    dialog.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [(), pytest.param(("--process",), marks=pytest.mark.nightly)], ids=["thread", "process"]
)
def test_the_window_started_with_a_seed_records_its_run(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    user = Stranger(tmp_path / "home", tmp_path)
    with user.starts("--seed", "3", *more, program="dgn-viewer") as window:

        def recorded() -> list[Path]:
            assert window.poll() is None, window.communicate()[1]
            logs = user.home.rglob("runs/[!.]*/log.jsonl")
            return [log.parent for log in logs if log.read_bytes().count(b"\n") > 20]

        while not (found := recorded()):
            time.sleep(0.1)
        window.send_signal(signal.SIGTERM)
        _, errors = window.communicate()
    assert (window.returncode, errors) == (128 + signal.SIGTERM, "")
    (folder,) = found
    reader = RunReader(folder)
    assert reader.outcome == "stopped"
    assert reader.checkpoints[-1].step == reader.log.summary.step > 0


@pytest.mark.slow
def test_the_window_opens_as_it_is_typed_and_records_nothing(tmp_path: Path) -> None:
    user = Stranger(tmp_path / "home", tmp_path)
    with user.starts(program="dgn-viewer") as window:
        maps = Path(f"/proc/{window.pid}/maps")
        while "libtorch_cpu" not in maps.read_text("utf-8"):  # then a run would begin
            assert window.poll() is None, window.communicate()[1]
            time.sleep(0.1)
        window.send_signal(signal.SIGTERM)
        _, errors = window.communicate()
    assert window.returncode == 128 + signal.SIGTERM
    # The import of torch may hold the engine for longer than the window waits; it says so then.
    assert all(line.startswith("dgn-viewer: ") for line in errors.splitlines())
    assert [*user.home.rglob("settings.ini")]  # written when the window closes
    assert not [*user.home.rglob("log.jsonl")]


_PRESSED = re.compile(r'(?:registry|buttons)\["([^"]+)"\]\.(?:trigger|click)\(')


def test_every_action_of_these_menus_is_triggered_in_a_real_window() -> None:
    """`registry` is that of a window; the bench of test_action_rows.py has recorders behind it."""
    modules = Path(__file__).parent.rglob("test_*.py")
    texts = [path.read_text("utf-8") for path in modules if "display" not in path.parts]
    pressed = {name for text in texts for name in _PRESSED.findall(text)}
    menus = [menu for menu in Desk().menus if menu.title in ("File", "Run", "Experiments")]
    rows = [entry for _, entry in walk_menus(menus) if isinstance(entry, ActionRow)]
    actions = {row.id for row in rows if row.fixed}
    assert len(actions) >= 25
    assert actions - pressed == set()
