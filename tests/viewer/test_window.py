"""The real window on the real session: panels fill, hidden ones cost nothing, it closes clean."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QDockWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import Where
from dgn_engine.protocol.messages import Command, Failed, Refused
from dgn_engine.protocol.training import Pause, SetLearningRate, SettingsIgnored, SwapRegime
from dgn_engine.protocol.watching import Watch
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.run_text import in_form_words
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.training.readings import reading_sizes
from dgn_engine.views.event_notices import Notice, notice_of
from dgn_viewer import application
from dgn_viewer.application import Options, Viewer
from dgn_viewer.settings import Settings
from tests.viewer.seen_charts import visible_range


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
    main = {name for name, host in docks.hosts.items() if host.spec.opened}
    assert main - set(hosts) == {"agreement"}  # of a comparison, and there is none
    assert set(hosts) <= main
    qtbot.waitUntil(lambda: all(isinstance(host.shown(), Scene) for host in hosts.values()))
    first = {name: host.shown().step for name, host in hosts.items()}  # type: ignore[union-attr]
    qtbot.waitUntil(
        lambda: all(host.shown().step > first[name] for name, host in hosts.items()),  # type: ignore[union-attr]
    )


def test_a_hidden_panel_asks_for_nothing(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    probe = window.docks.hosts["ntk"].drawn.requests()[0].probe
    qtbot.waitUntil(lambda: probe in window.history.readings)  # the window asked for it before
    sent = record(viewer)

    def watched() -> list[set[str]]:
        watches = [command for command in sent if isinstance(command, Watch)]
        return [{request.probe for request in watch.requests} for watch in watches]

    window.docks.toggle("ntk")
    assert not window.registry["panel.ntk"].isChecked()
    qtbot.waitUntil(lambda: len(watched()) == 1)
    assert probe not in watched()[-1]
    window.docks.toggle("ntk")
    qtbot.waitUntil(lambda: len(watched()) == 2)
    assert probe in watched()[-1]
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
    assert window.docks.arrangement.is_open("spectrum")
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
    first.window.context.theme.choose("dark")
    kept = {"loss": ChartSettings(last=200, smoothing=0.9)}
    first.window.docks.hosts["training"].charts.put(kept)
    first.close()
    second = make_viewer()
    assert second.window.docks.hosts["training"].charts.settings == kept
    assert not second.window.docks.arrangement.is_open("overlap")
    assert second.window.docks.arrangement.is_open("ntk")


def test_shift_f10_opens_the_menu_of_the_panel_in_front(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    docks = window.docks
    qtbot.waitUntil(lambda: isinstance(docks.hosts["training"].shown(), Scene))
    docks.show("training")
    QTest.keyClick(window, Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)
    menu = QApplication.activePopupWidget()
    assert menu is not None
    assert menu.objectName() == "chart_menu"
    assert menu.parent() is docks.hosts["training"].charts.view
    menu.close()


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


def test_a_theme_is_put_on_everything_at_once_and_nothing_moves(viewer: Viewer) -> None:
    window = viewer.window
    docks = window.findChildren(QDockWidget)
    window.resizeDocks([window.docks.docks()[0]], [300], Qt.Orientation.Horizontal)
    QApplication.processEvents()
    places = [dock.geometry() for dock in docks]
    window.registry["view.theme.dark"].trigger()
    assert window.context.theme.now is DARK
    assert window.registry["view.theme.dark"].isChecked()
    assert window.palette().window().color().name().upper() == DARK.window
    window.registry["view.theme.light"].trigger()
    assert window.context.theme.now is LIGHT
    assert not window.registry["view.theme.dark"].isChecked()
    QApplication.processEvents()
    assert [dock.geometry() for dock in docks] == places


def test_a_refusal_becomes_a_notice_and_nothing_changes(viewer: Viewer, qtbot: QtBot) -> None:
    viewer.pump.send(SetLearningRate(-1.0))
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent) > 0)
    notice = viewer.window.notices.recent[-1]
    assert notice.kind == "refused"
    assert "learning rate" in notice.text
    assert viewer.window.run_state.running


def test_a_notice_names_settings_as_the_form_does() -> None:
    rate = Where("training.learning_rate") + " is -1; see " + Where("data.options.n") + "."
    refused = notice_of(Refused("start a run", rate))
    assert refused == Notice("refused", "Cannot start a run: 'learning rate' is -1; see 'n'.")
    wiring = Where("gating.wiring") + " has none."
    ignored = notice_of(SettingsIgnored((Where("training.momentum") + " has no effect.", wiring)))
    assert ignored == Notice("refused", "'momentum' has no effect. gating.wiring has none.")
    assert in_form_words("Cannot read runs/data.root.toml") == "Cannot read runs/data.root.toml"


def test_a_failure_shows_its_traceback_one_click_away(viewer: Viewer) -> None:
    notices = viewer.window.notices
    notices.on_event(Failed("Training stopped by a fault", "Traceback: line 1\nline 2"))
    line, rows = viewer.window.notice_views.line, viewer.window.notice_views.list
    line.details.click()
    row = rows.rows()[0]
    assert not row.details.isHidden()
    row.buttons()["Copy"].click()
    assert "line 2" in viewer.application.clipboard().text()
    line.close_button.click()
    assert line.entry is None
    assert notices.recent[-1].kind == "failed"


def test_no_notice_covers_a_panel_before_its_list_is_opened(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.resize(1024, 700)
    for kind in ("info", "refused", "failed"):
        window.notices.tell(Notice(kind, f"{kind} " * 60, "line\n" * 100))  # type: ignore[arg-type]  # a kind
    line = window.notice_views.line
    qtbot.waitUntil(lambda: line.isVisible() and window.width() == 1024)
    assert line.mapTo(window, line.rect().topLeft()).y() >= window.run_views.status.y()
    assert window.notice_views.list.isHidden()
    window.registry["view.notices"].trigger()
    qtbot.waitUntil(lambda: window.rect().contains(window.notice_views.list.geometry()))
    assert window.notice_views.list.geometry().bottom() < window.run_views.status.y()
    qtbot.keyClick(window.notice_views.list, Qt.Key.Key_Escape)
    assert window.notice_views.list.isHidden()


def test_a_notice_leads_to_its_step_on_every_time_axis(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 60)
    viewer.pump.send(SwapRegime("FL"))
    qtbot.waitUntil(lambda: any("→ FL" in notice.text for notice in window.notices.recent))
    qtbot.waitUntil(lambda: [b.text() for b in window.notice_views.line.offers()] == ["Undo"])
    (mark,) = window.history.view({}).marks
    training = window.docks.hosts["training"].charts.view
    qtbot.waitUntil(lambda: "loss" in training.charts.shown_keys())
    window.registry["view.notices"].trigger()
    window.notice_views.list.rows()[0].buttons()["Go to step"].click()
    low, high = visible_range(training, "loss")[0]
    assert low <= mark.x <= high
    assert not training.charts.items["loss"].following
    window.notice_views.line.offers()[0].click()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")


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
    status = viewer.window.run_views.status
    qtbot.waitUntil(lambda: "steps/s" in status.text("speed"))
    assert status.text("device") == "cpu"
    assert status.text("regime") == "DL"
    qtbot.waitUntil(lambda: status.text("overhead").startswith("viewer overhead "))


def test_cnn4_shows_a_picture_in_every_kernel_panel_and_refines_it(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    monkeypatch.setattr(reading_sizes, "FIRST_LOOK", 0.0)
    net = NetConfig("cnn4", (("channels", 4),))
    training = TrainingConfig(learning_rate=1e-3, pace=20.0)
    viewer = make_viewer(RunConfig(net=net, training=training, probe_examples=20))
    hosts = viewer.window.docks.hosts
    kernels = [hosts[name] for name in ("overlap", "spectrum", "ntk")]
    qtbot.waitUntil(
        lambda: all(isinstance(host.shown(), Scene) for host in kernels), timeout=60_000
    )
    qtbot.waitUntil(lambda: all("exact" in host.footer() for host in kernels), timeout=60_000)
    dial = hosts["ntk"].findChild(QComboBox, "probe_examples")
    assert isinstance(dial, QComboBox)
    assert dial.isVisible()
    assert dial.currentText() == "20 examples"
    dial.setCurrentIndex(0)
    dial.activated.emit(0)
    qtbot.waitUntil(lambda: viewer.window.run_state.probe_examples == 8)
    seen = "8 probe examples, exact"
    qtbot.waitUntil(lambda: all(seen in host.footer() for host in kernels), timeout=60_000)


def test_the_status_bar_says_at_once_where_a_run_stands(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    assert window.run_views.status.text("phase") == "paused"
    assert window.run_views.status.text("step") == f"step {window.run_state.step:,}"


def test_heaps_are_limited_before_a_viewer_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(application, "use_one_heap", lambda: order.append("heaps"))
    monkeypatch.setattr(application, "Viewer", lambda _options: order.append("viewer"))
    application.build(Options(RunConfig()))
    assert order == ["heaps", "viewer"]
