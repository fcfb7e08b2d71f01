"""Reports from the window: the button on the page of a file, and the row in the list of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report.document import read_document
from dgn_engine.protocol.file_reading import FileReading
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.engine.cli.stranger import save_numbered
from tests.viewer.conftest import small_run
from tests.viewer.gestures import open_file_page

Open = Callable[..., Viewer]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `dgn` writes what the window has it do."""
    folder = tmp_path / "results"
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.nightly
def test_the_page_of_a_file_writes_a_report_of_its_network(
    make_viewer: Open,
    qtbot: QtBot,
    tmp_path: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    browsed: list[QUrl] = []  # not by the browser of whoever runs the tests
    monkeypatch.setattr(QDesktopServices, "openUrl", browsed.append)
    file = save_numbered(tmp_path / "numbered.pt")
    config = small_run()
    few = replace(config.data, train_limit=60, test_limit=30)
    viewer = make_viewer(replace(config, data=few), home="home")
    window = viewer.window
    open_file_page(viewer, qtbot, file, "network", FileReading(activation="relu"))
    page = window.inspector.page
    assert isinstance(page, FilePage)
    qtbot.waitUntil(page.report.isEnabled)
    page.report.click()
    assert window.experiments.is_running
    panel = window.experiments.results.panel
    qtbot.waitUntil(lambda: not window.experiments.is_running)
    assert not panel.trouble.isVisible(), panel.trouble.text()
    (folder,) = [path for path in results.iterdir() if path.name.startswith("report-")]
    made = read_document(folder)
    assert made.state == "done"
    assert panel.rows.rowCount() == len(made.rows) > 10
    panel.report.click()
    assert [url.toLocalFile() for url in browsed] == [str(folder / "report.html")]
    assert (folder / "report.pdf").exists()


@pytest.mark.slow
def test_the_report_of_a_run_is_written_from_the_list(make_viewer: Open, qtbot: QtBot) -> None:
    window = make_viewer(home="home").window
    asked: list[str] = []
    window.experiments.report_run = asked.append  # type: ignore[method-assign]
    rail = window.runs.rail
    qtbot.waitUntil(lambda: rail.table.current_run() is not None)
    (write,) = [action for action in rail.menu.actions() if action.text() == "Write report"]
    write.trigger()
    assert asked == [rail.table.current_run().folder]
