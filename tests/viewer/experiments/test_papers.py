"""The Experiments menu: by paper, with cost, and with the day of a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.papers import OTHERS, PAPERS, paper_title, place_in_paper
from dgn_engine.experiments.report.reproduce_request import results_found
from dgn_viewer.application import Viewer
from tests.plugins import each

ENTRIES = {entry.id: entry for entry in experiment_entries()}


def result(folder: Path, made: str) -> None:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(f'{{\n "made": "{made}"\n}}\n', encoding="utf-8")


@pytest.mark.parametrize("name", each(ENTRIES))
def test_every_experiment_stands_under_a_paper(name: str) -> None:
    cited = ENTRIES[name].paper
    title = paper_title(cited)
    assert title in {paper.title for paper in PAPERS.values()} | {OTHERS}


def test_a_paper_is_the_first_that_is_cited() -> None:
    assert paper_title("[NPF] §3, [DGN] §3") == "Neural Path Features and Neural Path Kernel"
    assert place_in_paper("[NPF] §3, [DGN] §3") == "§3"
    assert paper_title("Arora et al.") == paper_title("[XYZ] 3") == OTHERS
    assert place_in_paper("[DGN], [WS]") == ""


def test_the_newest_result_of_each_experiment_is_found(tmp_path: Path) -> None:
    result(tmp_path / "npf-nu-quick", "2026-11-02T10:00:00+00:00")
    result(tmp_path / "npf-nu-full-3_seeds", "2026-10-30T10:00:00+00:00")
    result(tmp_path / "duality-48-quick", "2026-01-02T10:00:00+00:00")
    result(tmp_path / "duality-quick", "nonsense")
    (tmp_path / "npf-kernels-quick").mkdir()
    (tmp_path / "npf-kernels-quick" / "results.json").write_bytes(b"\xff\xfe")
    (tmp_path / "file").write_text("")
    names = ("npf-nu", "npf-kernels", "duality", "duality-48", "npf")
    assert results_found(tmp_path, names) == {"npf-nu": "2026-11-02", "duality-48": "2026-01-02"}
    assert results_found(tmp_path / "nowhere", names) == {}


def test_the_menu_groups_by_paper_and_says_cost_and_result(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    result(tmp_path / "results" / "npf-table2-quick", "2026-11-02T10:00:00+00:00")
    window = make_viewer(paused=True).window
    menus = [action.menu() for action in window.menuBar().actions()]
    top = next(menu for menu in menus if isinstance(menu, QMenu) and menu.title() == "Experiments")
    top.aboutToShow.emit()
    titles = [action.text() for action in top.actions() if action.menu() is not None]
    known = [paper.title for paper in PAPERS.values()]
    assert set(titles) <= {*known, OTHERS}
    assert len(titles) >= 4
    entry, action = ENTRIES["npf-table2"], window.registry["experiment.npf-table2"]
    assert action.text().startswith(f"Table 2: {entry.title}…")
    assert action.text().endswith("✓ result of 2026-11-02")
    assert f"about {entry.quick_cost}" in action.text()
    assert "✓" not in window.registry["experiment.npf-nu"].text()
