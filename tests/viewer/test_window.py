"""The real window on the real session: panels fill, hidden ones cost nothing, it closes clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import Where
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.training import SetLearningRate, SettingsIgnored, SwapRegime
from dgn_engine.protocol.watching import Watch
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.run_text import use_form_names
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.training.readings import reading_sizes
from dgn_engine.views.event_notices import Notice, make_notice
from dgn_viewer import application
from dgn_viewer.application import Options, Viewer
from dgn_viewer.settings import RecentItem, Settings
from tests.viewer.conftest import Begin
from tests.viewer.gestures import tap_commands
from tests.viewer.seen_charts import visible_range


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


@pytest.mark.check
def test_every_panel_fills_with_recent_data(viewer: Viewer, qtbot: QtBot) -> None:
    docks = viewer.window.docks
    hosts = {name: docks.hosts[name] for name in docks.visible_panels()}
    main = {name for name, host in docks.hosts.items() if host.spec.opened}
    assert main - set(hosts) == {"agreement"}  # of a comparison, and there is none
    assert set(hosts) <= main
    qtbot.waitUntil(lambda: all(isinstance(host.shown_content(), Scene) for host in hosts.values()))
    first = {name: host.shown_content().step for name, host in hosts.items()}  # type: ignore[union-attr]
    qtbot.waitUntil(
        lambda: all(host.shown_content().step > first[name] for name, host in hosts.items()),  # type: ignore[union-attr]
    )


def test_a_hidden_panel_asks_for_nothing(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    probe = window.docks.hosts["ntk"].drawn.probe_requests()[0].probe
    qtbot.waitUntil(lambda: probe in window.history.readings)  # the window asked for it before
    sent = tap_commands(viewer)

    def watched() -> list[set[str]]:
        watches = [command for command in sent if isinstance(command, Watch)]
        return [{request.probe for request in watch.requests} for watch in watches]

    window.docks.toggle_panel("ntk")
    assert not window.registry["panel.ntk"].isChecked()
    qtbot.waitUntil(lambda: watched() != [] and probe not in watched()[-1])
    window.docks.toggle_panel("ntk")
    qtbot.waitUntil(lambda: probe in watched()[-1])
    step = window.history.step
    readings = window.history.readings
    qtbot.waitUntil(lambda: probe in readings and readings[probe].step > step)


def test_a_panel_behind_another_tab_asks_for_nothing(opened_viewer: Viewer, qtbot: QtBot) -> None:
    window = opened_viewer.window
    docks = {dock.objectName(): dock for dock in window.findChildren(QDockWidget)}
    window.tabifyDockWidget(docks["panel.spectrum"], docks["panel.ntk"])
    docks["panel.ntk"].raise_()
    qtbot.waitUntil(lambda: "spectrum" not in window.docks.visible_panels())
    assert window.docks.arrangement.is_open("spectrum")
    window.docks.toggle_panel("spectrum")
    qtbot.waitUntil(lambda: "spectrum" in window.docks.visible_panels())
    assert "ntk" not in window.docks.visible_panels()


def test_reset_layout_brings_every_panel_back(opened_viewer: Viewer, qtbot: QtBot) -> None:
    window = opened_viewer.window
    before = window.docks.visible_panels()
    for name in before:
        window.docks.toggle_panel(name)
    assert window.docks.visible_panels() == ()
    window.registry["view.reset_layout"].trigger()
    qtbot.waitUntil(lambda: window.docks.visible_panels() == before)


def test_shift_f10_opens_the_menu_of_the_panel_in_front(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    window = opened_viewer.window
    docks = window.docks
    qtbot.waitUntil(lambda: isinstance(docks.hosts["training"].shown_content(), Scene))
    docks.show_panel("training")
    QTest.keyClick(window, Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)
    menu = QApplication.activePopupWidget()
    assert menu is not None
    assert menu.objectName() == "chart_menu"
    assert menu.parent() is docks.hosts["training"].charts.view
    menu.close()


BROKEN = (
    b"[window]\ntheme=dark\ngeometry=@ByteArray(\\x1\n%%%\nlayout=17\n[export]\nfolder=/nowhere\n"
)


@pytest.mark.parametrize(("data", "theme"), [(BROKEN, "dark"), (bytes(range(256)) * 8, "system")])
def test_settings_of_a_broken_file_keep_their_good_keys(
    tmp_path: Path, data: bytes, theme: str
) -> None:
    path = tmp_path / "settings.ini"
    path.write_bytes(data)
    settings = Settings(path)
    assert settings.theme == theme
    assert (settings.layout, settings.geometry, settings.export_folder) == (None, None, "")


@pytest.mark.parametrize(
    ("name", "usual", "nonsense"),
    [
        ("recent", (), ("[3]", "{", '[["tape", "a"]]', '[["run"]]', '[["run", 4]]', '{"run": 1}')),
        ("start", "card", ("never", "3")),
        ("budget", 0, ("900", "0", "-1", "1.5", "x")),
        ("shortcuts", {}, ("[1]", "{", '{"a": 3}')),
        ("numbers", "1,234.5", ("1;2",)),
        ("theme", "system", ("blue",)),
        ("export_choices", {}, ("[1]", "{")),
        ("charts", None, ("{", "nul")),
    ],
)
def test_a_setting_that_makes_no_sense_is_as_if_it_were_not_set(
    tmp_path: Path, name: str, usual: object, nonsense: tuple[str, ...]
) -> None:
    settings = Settings(tmp_path / "settings.ini")
    key = vars(Settings)[name].key
    for value in nonsense:
        settings.store.setValue(key, value)
        assert getattr(settings, name) == usual, value


def test_settings_of_two_windows_do_not_take_back_each_others(tmp_path: Path) -> None:
    path = tmp_path / "settings.ini"
    first, second = Settings(path), Settings(path)
    assert (first.theme, second.start) == ("system", "card")
    first.theme = "dark"
    assert first.save()
    second.start = "last"  # it has read the file before the other one wrote it
    assert second.save()
    for settings in (first, second, Settings(path)):
        assert (settings.theme, settings.start) == ("dark", "last")
    second.theme = "light"
    assert second.save()
    first.budget = 20
    assert first.save()
    again = Settings(path)
    assert (again.theme, again.start, again.budget) == ("light", "last", 20)
    written = path.read_text("utf-8")
    assert "theme=light" in written
    # Another process writes the file between a read and a write of this one.
    path.write_text(written.replace("theme=light", "theme=dark").replace("run=last", "run=digits"))
    again.budget = 30
    assert again.save()
    assert (again.theme, again.start, again.budget) == ("dark", "digits", 30)
    assert "theme=dark" in path.read_text("utf-8")
    again.recent = (RecentItem("run", "/a"),)
    assert again.recent == (RecentItem("run", "/a"),)


def test_a_theme_is_put_on_everything_at_once_and_nothing_moves(opened_viewer: Viewer) -> None:
    window = opened_viewer.window
    docks = window.findChildren(QDockWidget)
    window.resizeDocks([window.docks.dock_frames()[0]], [300], Qt.Orientation.Horizontal)
    QApplication.processEvents()
    places = [dock.geometry() for dock in docks]
    for name, theme, other in (("dark", DARK, "light"), ("light", LIGHT, "dark")):
        window.registry[f"view.theme.{name}"].trigger()
        assert window.context.theme.now is theme
        assert window.registry[f"view.theme.{name}"].isChecked()
        assert not window.registry[f"view.theme.{other}"].isChecked()
        assert window.palette().window().color().name().upper() == theme.window
        QApplication.processEvents()
        assert [dock.geometry() for dock in docks] == places


def test_a_refusal_becomes_a_notice_and_nothing_changes(viewer: Viewer, qtbot: QtBot) -> None:
    viewer.pump.send(SetLearningRate(-1.0))
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent_notices) > 0)
    notice = viewer.window.notices.recent_notices[-1]
    assert notice.kind == "refused"
    assert "-1" in notice.text
    assert viewer.window.run_state.is_running


def test_a_notice_names_settings_as_the_form_does() -> None:
    rate = Where("training.learning_rate") + " is -1; see " + Where("data.options.n") + "."
    refused = make_notice(Refused("start a run", rate))
    assert refused == Notice("refused", "Cannot start a run: 'learning rate' is -1; see 'n'.")
    wiring = Where("gating.wiring") + " has none."
    ignored = make_notice(SettingsIgnored((Where("training.momentum") + " has no effect.", wiring)))
    assert ignored == Notice("refused", "'momentum' has no effect. gating.wiring has none.")
    assert use_form_names("Cannot read runs/data.root.toml") == "Cannot read runs/data.root.toml"


def test_a_notice_leads_to_its_step_on_every_time_axis(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 60)
    viewer.pump.send(SwapRegime("FL"))
    qtbot.waitUntil(lambda: any("→ FL" in notice.text for notice in window.notices.recent_notices))
    qtbot.waitUntil(
        lambda: [b.text() for b in window.notice_views.line.offer_buttons()] == ["Undo"]
    )
    (mark,) = window.history.view({}).marks
    training = window.docks.hosts["training"].charts.view
    qtbot.waitUntil(lambda: "loss" in training.charts.shown_keys())
    window.registry["view.notices"].trigger()
    window.notice_views.list.notice_rows()[0].buttons_by_text()["Go to step"].click()
    low, high = visible_range(training, "loss")[0]
    assert low <= mark.x <= high
    assert not training.charts.items["loss"].following
    window.notice_views.line.offer_buttons()[0].click()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")


def test_a_fault_in_a_slot_becomes_a_notice_and_the_window_lives_on(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("on purpose")

    printed: list[object] = []
    viewer.faults.remove_hooks()
    monkeypatch.setattr(sys, "excepthook", lambda *error: printed.append(error))
    viewer.faults.install_hooks()
    QTimer.singleShot(0, fail)
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent_notices) > 0)
    viewer.faults.remove_hooks()
    assert len(printed) == 1
    notice = viewer.window.notices.recent_notices[-1]
    assert "on purpose" in notice.text
    assert "in fail" in notice.details
    step = viewer.window.history.step
    qtbot.waitUntil(lambda: viewer.window.history.step > step)


def test_a_fault_in_a_thread_becomes_a_notice(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("in the background")

    viewer.faults.remove_hooks()
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: None)
    viewer.faults.install_hooks()
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: len(viewer.window.notices.recent_notices) > 0)
    viewer.faults.remove_hooks()
    assert "Internal error in worker" in viewer.window.notices.recent_notices[-1].text


def test_the_status_bar_says_where_the_run_is(viewer: Viewer, qtbot: QtBot) -> None:
    status = viewer.window.run_views.status
    qtbot.waitUntil(lambda: "steps/s" in status.field_text("speed"))
    assert status.field_text("device") == "cpu"
    assert status.field_text("regime") == "DL"
    qtbot.waitUntil(lambda: status.field_text("overhead").startswith("viewer overhead "))


def test_cnn4_shows_a_picture_in_every_kernel_panel_and_refines_it(
    begin_run: Begin, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    monkeypatch.setattr(reading_sizes, "FIRST_LOOK", 0.0)
    net = NetConfig("cnn4", (("channels", 4),))
    training = TrainingConfig(learning_rate=1e-3, pace=20.0)
    viewer = begin_run(RunConfig(net=net, training=training, probe_examples=20))
    hosts = viewer.window.docks.hosts
    kernels = [hosts[name] for name in ("overlap", "spectrum", "ntk")]
    qtbot.waitUntil(
        lambda: all(isinstance(host.shown_content(), Scene) for host in kernels), timeout=60_000
    )
    qtbot.waitUntil(lambda: all("exact" in host.footer_text() for host in kernels), timeout=60_000)
    dial = viewer.window.time.bar.dial
    assert dial.isVisible()
    assert dial.currentText() == "20 examples"
    dial.setCurrentIndex(0)
    dial.activated.emit(0)
    qtbot.waitUntil(lambda: viewer.window.run_state.probe_examples == 8)
    seen = "8 probe examples, exact"
    qtbot.waitUntil(lambda: all(seen in host.footer_text() for host in kernels), timeout=60_000)


def test_a_window_closed_while_it_trains_comes_back_as_it_was_and_trains_a_run_of_its_own(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    kept = {"loss": ChartSettings(last=200, smoothing=0.9)}
    first = make_viewer()
    qtbot.waitUntil(lambda: first.window.history.step > 10)
    first.window.docks.toggle_panel("overlap")
    first.window.context.theme.select_theme("dark")
    first.window.docks.hosts["training"].charts.apply_settings(kept)
    assert first.close(patience=60.0)
    assert "dgn-engine" not in {thread.name for thread in threading.enumerate()}
    second = make_viewer().window
    assert second.docks.hosts["training"].charts.settings == kept
    assert not second.docks.arrangement.is_open("overlap")
    assert second.docks.arrangement.is_open("ntk")
    assert second.context.settings.theme == "dark"
    assert [notice.kind for notice in second.notices.recent_notices] == []
    qtbot.waitUntil(lambda: second.history.step > 10)
    assert len(second.history.view({}).marks) == 0


def test_heaps_are_limited_before_a_viewer_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(application, "use_one_heap", lambda: order.append("heaps"))
    monkeypatch.setattr(application, "Viewer", lambda _options: order.append("viewer"))
    application.build_viewer(Options(RunConfig()))
    assert order == ["heaps", "viewer"]


_CHILD = """
import json, sys
from pathlib import Path
from PySide6.QtCore import QEvent, QObject, QTimer
from dgn_viewer.shell.start_ways import first_run
from dgn_viewer.application import Options, Viewer

class Painted(QObject):
    said = None
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and self.said is None:
            hosts = [host for host in viewer.window.docks.hosts.values() if host.isVisible()]
            self.said = {
                "modules": sorted(sys.modules),
                "titles": [host.spec.title for host in hosts],
                "words": [host.parts.message.displayed_text()[0] for host in hosts],
                "menus": [action.text() for action in viewer.window.menuBar().actions()],
            }
        return False

class Engine:
    begun_after_paint = False
    def set_wakeup(self, wake): pass
    def start(self):
        self.begun_after_paint = painted.said is not None
        QTimer.singleShot(0, viewer.window.close)
    def send(self, command): pass
    def drain_events(self): return []
    def take_latest_frame(self): return None
    def close(self, timeout): return True

painted, engine = Painted(), Engine()
viewer = Viewer(Options(first_run(), settings=Path(sys.argv[1]) / "settings.ini"), engine)
viewer.window.installEventFilter(painted)
viewer.run()
viewer.close()
print(json.dumps({**painted.said, "begun after": engine.begun_after_paint}))
"""


def at_first_paint(folder: Path) -> dict[str, Any]:
    """Modules that were imported, titles and words of the panels in sight, and the menus."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", _CHILD, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


# Libraries and parts of the engine that a window needs only later, if at all.
_LATE = {
    *("torch", "torchvision", "sklearn", "scipy", "numba", "matplotlib", "pyqtgraph", "rich"),
    *("PIL", "dask", "sqlite3", "http", "asyncio", "multiprocessing", "unittest"),
}
_LATE_PARTS = (
    *("kernels", "training", "data", "attachment", "notebook", "session.engine"),
    *("figures.save_figure", "storage.session_file.untrusted_run", "storage.runs.run_reader"),
)


def test_the_window_is_painted_whole_before_what_only_a_run_needs_is_imported(
    tmp_path: Path,
) -> None:
    said = at_first_paint(tmp_path)
    assert {module.partition(".")[0] for module in said["modules"]}.isdisjoint(_LATE)
    parts = tuple(f"dgn_engine.{part}" for part in _LATE_PARTS)
    assert [module for module in said["modules"] if module.startswith(parts)] == []
    assert said["begun after"]
    assert {"File", "View", "Help"} <= {menu.replace("&", "") for menu in said["menus"]}
    assert "Training" in said["titles"]
    assert len(set(said["words"])) == 1  # all say the same: what they wait for
    assert said["words"][0]
