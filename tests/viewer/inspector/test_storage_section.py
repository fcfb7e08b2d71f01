"""The limits of storage in the page of settings, and the notice that all runs take too much."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.runs import RecordedRun, RunsListed, ThinRuns
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.folder_layout import LIMITS
from dgn_engine.storage.runs.storage_limits import StorageLimits, read_limits
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.settings_page import SettingsPage
from dgn_viewer.inspector.pages.storage_section import StorageSection
from tests.viewer.gestures import press

GIB = 1 << 30


@pytest.fixture
def changes() -> list[StorageLimits]:
    return []


@pytest.fixture
def section(qtbot: QtBot, tmp_path: Path, changes: list[StorageLimits]) -> StorageSection:
    made = StorageSection(tmp_path, lambda: changes.append(read_limits(tmp_path)))
    qtbot.addWidget(made)
    return made


def test_the_usual_limits_are_shown_and_nothing_is_written_for_it(
    section: StorageSection, tmp_path: Path
) -> None:
    assert (section.run.text(), section.all.text()) == ("512 MiB", "20 GiB")
    assert list(tmp_path.iterdir()) == []
    assert section.message.isHidden()


def test_a_limit_holds_at_once_for_dgn_too(
    section: StorageSection, tmp_path: Path, changes: list[StorageLimits]
) -> None:
    section.run.setValue(1000)
    section.all.setValue(1.5)
    assert read_limits(tmp_path) == StorageLimits(run=1000 << 20, all=3 * GIB // 2)
    assert changes[-1] == read_limits(tmp_path)
    assert len(changes) == 2


def test_a_limit_that_cannot_be_is_refused_and_the_one_that_holds_is_shown(
    section: StorageSection, tmp_path: Path, changes: list[StorageLimits]
) -> None:
    section.all.setValue(0.25)
    assert "Nothing was changed: the limit of all runs is 256 MiB" in section.message.text()
    assert section.all.text() == "20 GiB"
    assert not (tmp_path / LIMITS).exists()
    assert changes == []
    section.all.setValue(30)
    assert section.message.isHidden()
    assert read_limits(tmp_path).all == 30 * GIB


def test_a_damaged_file_of_limits_is_said_and_a_change_writes_it_anew(
    qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / LIMITS).write_text("run = \x1b[31m")
    section = StorageSection(tmp_path, lambda: None)
    qtbot.addWidget(section)
    assert "is damaged" in section.message.text()
    assert section.run.text() == "512 MiB"
    section.run.setValue(600)
    assert section.message.isHidden()
    assert read_limits(tmp_path).run == 600 << 20


def test_a_folder_that_takes_no_limits_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    section = StorageSection(tmp_path / "file", lambda: None)
    qtbot.addWidget(section)
    section.run.setValue(600)
    assert "cannot be" in section.message.text()
    assert section.run.text() == "512 MiB"


def listed(size: int, limit: int = 20 * GIB) -> RunsListed:
    run = RecordedRun(
        folder="a",
        name="a",
        status="stopped",
        step=1,
        total_steps=2,
        regime="DL",
        net="fc",
        data="digits",
        seed=0,
        best=0.5,
        touched=1.0,
        resumable=True,
    )
    return RunsListed("runs", (dataclasses.replace(run, bytes=size),), limit)


def test_the_window_says_once_that_all_runs_take_too_much_and_offers_what_helps(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, sent = viewer.window, list[object]()
    context = dataclasses.replace(window.context, send=sent.append)
    monkeypatch.setattr(window.recorded, "_context", context)
    entries = window.notices.entries
    entries.clear()
    window.recorded.on_event(listed(19 * GIB))
    assert not entries
    for _ in range(2):
        window.recorded.on_event(listed(21 * GIB))
    (entry,) = entries
    assert "together take 21 GiB, over their limit of 20 GiB" in entry.notice.text
    assert [offer.text for offer in entry.notice.offers] == ["Thin out the oldest", "Settings…"]
    press(window, "Thin out the oldest")
    assert sent == [ThinRuns()]
    window.recorded.on_event(listed(18 * GIB))
    window.recorded.on_event(listed(21 * GIB))
    assert len(entries) == 2
    press(window, "Settings…")
    assert isinstance(window.inspector.page, SettingsPage)


def test_runs_are_thinned_out_when_the_window_asks_and_it_is_said(
    viewer: Viewer, qtbot: QtBot
) -> None:
    """None is over its limit here: that is said too."""
    viewer.window.notices.entries.clear()
    viewer.window.context.send(ThinRuns())
    qtbot.waitUntil(lambda: any("Nothing has to" in n.text for n in viewer.window.notices.recent))


def test_the_page_of_settings_has_the_limits_of_the_users_runs(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "mine"))
    viewer.window.registry["edit.settings"].trigger()
    page = viewer.window.inspector.page
    assert isinstance(page, SettingsPage)
    page.limits.run.setValue(700)
    assert read_limits(folder_layout.runs_root()).run == 700 << 20
