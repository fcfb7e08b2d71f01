"""The real window on the real session: panels fill, hidden ones cost nothing, it closes clean."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.commands import Command, Pause, SetLearningRate, Watch
from dgn_engine.protocol.events import Failed, Refused, SettingsIgnored
from dgn_engine.training import probe_schedule
from dgn_viewer.application import Viewer
from dgn_viewer.notices import Notice, in_form_words, notice_of
from dgn_viewer.scene.elements import Scene
from dgn_viewer.settings import Settings
from dgn_viewer.style.theme import DARK, LIGHT


def record(viewer: Viewer) -> list[Command]:
    """The commands that go to the engine from now on; they still arrive there."""
    sent: list[Command] = []
    forward = viewer.engine.send

    def send(command: Command) -> None:
        sent.append(command)
        forward(command)

    viewer.engine.send = send  # type: ignore[method-assign]  # a wire tap
    return sent


def test_every_panel_fills_with_recent_data(viewer: Viewer, qtbot: QtBot) -> None:
    docks = viewer.window.docks
    hosts = {name: docks.hosts[name] for name in docks.visible()}
    assert set(docks.hosts) - set(hosts) == {"agreement"}  # of a comparison, and there is none
    qtbot.waitUntil(lambda: all(isinstance(host.shown(), Scene) for host in hosts.values()))
    first = {name: host.shown().step for name, host in hosts.items()}  # type: ignore[union-attr]
    qtbot.waitUntil(
        lambda: all(host.shown().step > first[name] for name, host in hosts.items()),  # type: ignore[union-attr]
    )


def test_a_hidden_panel_asks_for_nothing(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    probe = window.docks.hosts["ntk"].requests()[0].probe
    sent = record(viewer)
    window.docks.toggle("ntk")
    watches = [command for command in sent if isinstance(command, Watch)]
    assert watches
    assert probe not in {request.probe for request in watches[-1].requests}
    assert not window.registry["panel.ntk"].isChecked()
    window.docks.toggle("ntk")
    watches = [command for command in sent if isinstance(command, Watch)]
    assert probe in {request.probe for request in watches[-1].requests}
    step = window.history.step
    readings = window.history.readings
    qtbot.waitUntil(lambda: probe in readings and readings[probe].step > step)


def test_a_panel_behind_another_tab_asks_for_nothing(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    docks = {
        dock.objectName(): dock for dock in window.findChildren(type(window.docks._docks["ntk"]))
    }
    window.tabifyDockWidget(docks["panel.spectrum"], docks["panel.ntk"])
    docks["panel.ntk"].raise_()
    qtbot.waitUntil(lambda: "spectrum" not in window.docks.visible())
    assert window.docks.is_open("spectrum")
    window.docks.toggle("spectrum")
    qtbot.waitUntil(lambda: "spectrum" in window.docks.visible())
    assert "ntk" not in window.docks.visible()


def test_reset_layout_brings_every_panel_back(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    before = window.docks.visible()
    for name in before:
        window.docks.toggle(name)
    assert window.docks.visible() == ()
    window.registry["view.reset_layout"].trigger()
    qtbot.waitUntil(lambda: window.docks.visible() == before)


def test_gate_maps_stand_over_overlap_and_left_of_the_spectrum(viewer: Viewer) -> None:
    docks = viewer.window.docks._docks
    gates, overlap, spectrum = (docks[n].geometry() for n in ("gate_maps", "overlap", "spectrum"))
    assert gates.bottom() < overlap.top()
    assert gates.right() < spectrum.left()


def test_the_layout_comes_back_at_the_next_start(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    first = make_viewer()
    first.window.docks.toggle("overlap")
    first.window.choose_theme("dark")
    first.close()
    second = make_viewer()
    assert not second.window.docks.is_open("overlap")
    assert second.window.docks.is_open("ntk")


def test_broken_settings_keep_their_good_keys(tmp_path: Path) -> None:
    path = tmp_path / "settings.ini"
    path.write_text(
        "[window]\ntheme=dark\ngeometry=@ByteArray(\\x1\n%%%\nlayout=17\n[export]\nfolder=/nowhere\n"
    )
    settings = Settings(path)
    assert settings.theme == "dark"
    assert settings.layout is None
    assert settings.export_folder == ""


def test_settings_that_are_no_text_are_as_if_there_were_none(tmp_path: Path) -> None:
    path = tmp_path / "settings.ini"
    path.write_bytes(bytes(range(256)) * 8)
    settings = Settings(path)
    assert settings.theme == "system"
    assert settings.geometry is None


def test_a_theme_is_put_on_everything_at_once(viewer: Viewer) -> None:
    window = viewer.window
    window.registry["view.theme.dark"].trigger()
    assert window.theme is DARK
    assert window.registry["view.theme.dark"].isChecked()
    assert DARK.window in viewer.application.styleSheet()
    window.registry["view.theme.light"].trigger()
    assert window.theme is LIGHT
    assert not window.registry["view.theme.dark"].isChecked()


def test_a_refusal_becomes_a_notice_and_nothing_changes(viewer: Viewer, qtbot: QtBot) -> None:
    viewer.pump.send(SetLearningRate(-1.0))
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent) > 0)
    notice = viewer.window.notices.recent[-1]
    assert notice.kind == "refused"
    assert "learning rate" in notice.text
    assert viewer.window.run_state.running


def test_a_notice_names_settings_as_the_form_does() -> None:
    refused = notice_of(Refused("start a run", "training.learning_rate is -1; see data.options.n."))
    assert refused == Notice("refused", "Cannot start a run: 'learning rate' is -1; see 'n'.")
    ignored = notice_of(
        SettingsIgnored(("training.momentum has no effect.", "gating.wiring has none."))
    )
    assert ignored == Notice("refused", "'momentum' has no effect. gating.wiring has none.")
    assert in_form_words("Cannot read runs/data.root.toml") == "Cannot read runs/data.root.toml"


def test_a_failure_shows_its_traceback_one_click_away(viewer: Viewer) -> None:
    notices = viewer.window.notices
    notices.on_event(Failed("Training stopped by a fault", "Traceback: line 1\nline 2"))
    card = notices.cards[-1]
    card.details_button.click()
    assert card._details.isVisible()
    card.copy_button.click()
    assert "line 2" in viewer.application.clipboard().text()
    card.close_button.click()
    assert notices.cards == ()
    assert notices.recent[-1].kind == "failed"


def test_a_notice_stays_inside_the_window(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.notices.tell(Notice("failed", "words " * 60, "line\n" * 100))
    window.notices.cards[-1].details_button.click()
    window.resize(1100, 700)
    qtbot.waitUntil(lambda: window.rect().contains(window.notices.geometry()))


def test_a_fault_in_a_slot_becomes_a_notice_and_the_window_lives_on(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("on purpose")

    printed: list[object] = []
    viewer.faults.remove()
    monkeypatch.setattr(sys, "excepthook", lambda *error: printed.append(error))
    viewer.faults.install()
    QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent) > 0)
    viewer.faults.remove()
    assert len(printed) == 1
    notice = viewer.window.notices.recent[-1]
    assert "on purpose" in notice.text
    assert "in fail" in notice.details
    step = viewer.window.history.step
    qtbot.waitUntil(lambda: viewer.window.history.step > step)


def test_a_fault_in_a_thread_becomes_a_notice(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("in the background")

    viewer.faults.remove()
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: None)
    viewer.faults.install()
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent) > 0)
    viewer.faults.remove()
    assert "A fault in worker" in viewer.window.notices.recent[-1].text


def test_closing_in_mid_step_ends_the_engine(viewer: Viewer, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: viewer.window.history.step > 10)
    viewer.window.close()
    assert viewer.close(patience=60.0)
    assert "dgn-engine" not in {thread.name for thread in threading.enumerate()}


def test_the_status_bar_says_where_the_run_is(viewer: Viewer, qtbot: QtBot) -> None:
    status = viewer.window.status
    qtbot.waitUntil(lambda: "steps/s" in status.text("speed"))
    assert status.text("device") == "cpu"
    assert status.text("regime") == "DL"
    qtbot.waitUntil(lambda: "% of a core" in status.text("viewer"))


def test_cnn4_shows_what_is_too_expensive_when_it_is_asked_for(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_schedule, "TOO_LONG", 1e-9)
    net = NetConfig("cnn4", (("channels", 4),))
    training = TrainingConfig(learning_rate=1e-3, pace=20.0)
    viewer = make_viewer(RunConfig(net=net, training=training, probe_examples=20))
    host = viewer.window.docks.hosts["overlap"]
    qtbot.waitUntil(lambda: host.state() == "costly")
    offer = next(b for b in host.findChildren(QPushButton) if b.text() == "Compute anyway")
    assert offer.isVisible()
    qtbot.mouseClick(offer, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: isinstance(host.shown(), Scene))
    qtbot.waitUntil(lambda: host.state() == "live")
    assert viewer.window.docks.hosts["ntk"].state() == "costly"


def test_the_status_bar_says_at_once_where_a_run_stands(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    assert window.status.text("phase") == "paused"
    assert window.status.text("step") == f"step {window.run_state.step:,}"
