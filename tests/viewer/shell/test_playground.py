"""The playground: each edit restarts it, nothing is recorded until kept, and it has a link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.regimes import all_regimes
from dgn_viewer.__main__ import build_parser, check_arguments
from dgn_viewer.application import Options, Viewer
from dgn_viewer.playground import (
    DEPTHS,
    WIDTHS,
    Playground,
    parse_link,
    playground_of,
    settings_left_out,
)
from dgn_viewer.window import Window
from tests.plugins import each
from tests.refusals import refused
from tests.viewer.gestures import LEFT, press_notice_button

PLANE = ("moons", "spirals", "xor")
Open = Callable[..., Viewer]


@pytest.fixture
def window(make_viewer: Open, qtbot: QtBot) -> Window:
    """A window whose playground has taken a step; runs would be recorded."""
    window = make_viewer(home="home", paused=True).window
    window.registry["playground.xor"].trigger()
    qtbot.waitUntil(lambda: window.run_state.unrecorded and window.run_state.step > 0)
    return window


def folders_of(window: Window, home: Path) -> list[Path]:
    return sorted(path for path in (home / "home" / "runs").iterdir() if path.is_dir())


def restart(window: Window, qtbot: QtBot, act: Callable[[], object]) -> Playground:
    """Edit, and return the playground that has started."""
    before = window.run_state.run
    act()
    qtbot.waitUntil(lambda: window.run_state.run is not before)
    started = window.run_state.run
    assert started is not None
    return playground_of(started.config)


# The link


def test_a_link_says_what_is_trained_and_is_read_back() -> None:
    shown = Playground("spirals", noise=0.2, seed=1)
    assert shown.link == "dgn-play:spirals?depth=4&width=8&noise=0.2&regime=DL&lr=0.01&seed=1"
    assert parse_link(f"  {shown.link}\n", PLANE) == shown
    assert parse_link("dgn-play:xor", PLANE) == Playground("xor")


@pytest.mark.discovery
@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_every_regime_has_a_link_that_starts_the_same_run(regime: str) -> None:
    shown = Playground("moons", 3, 5, 0.25, regime, 3e-4, 7, 2.5, "ones")
    config = parse_link(shown.link, PLANE).run_config()
    assert (playground_of(config), settings_left_out(config)) == (shown, ())


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        ("https://example.org", "no-link"),
        ("dgn-play:xor?" + "&" * 500, "no-link"),
        ("dgn-play:mnist", "unknown-name"),
        ("dgn-play:xor?layers=3", "unknown-name"),
        ("dgn-play:xor?regime=__class__", "unknown-name"),
        ("dgn-play:xor?depth=3&depth=4", "repeated"),
        ("dgn-play:xor?depth=13", "out-of-bounds"),
        ("dgn-play:xor?depth=3.5", "out-of-bounds"),
        ("dgn-play:xor?width=65", "out-of-bounds"),
        ("dgn-play:xor?width=-1", "out-of-bounds"),
        ("dgn-play:xor?noise=nan", "out-of-bounds"),
        ("dgn-play:xor?lr=1e99", "out-of-bounds"),
        ("dgn-play:xor?seed=99999999999", "out-of-bounds"),
        ("dgn-play:xor?depth=٣", "out-of-bounds"),
        ("dgn-play:xor?input=/etc/passwd", "no-choice"),
    ],
)
def test_a_link_that_says_anything_else_is_refused(link: str, kind: str) -> None:
    with refused(kind):
        parse_link(link, PLANE)


def test_a_run_with_other_settings_has_no_link_that_would_be_another_run() -> None:
    config = Playground("xor").run_config()
    noisy = replace(config, data=replace(config.data, label_noise=0.5))
    many = replace(config, data=replace(config.data, options=(("n", 50), ("noise", 0.08))))
    turned = replace(config, gating=replace(config.gating, wiring=(2, 0, 1)))
    assert [settings_left_out(one) for one in (noisy, many, turned)] == [
        ("label noise",),
        ("n",),
        ("gate order",),
    ]


def test_a_link_on_the_command_line_is_checked_before_a_window_opens() -> None:
    check_arguments(build_parser().parse_args(["dgn-play:xor?depth=3"]))
    with refused("out-of-bounds", value="99"):
        check_arguments(build_parser().parse_args(["dgn-play:xor?depth=99"]))


def test_a_window_that_was_given_a_link_opens_with_its_playground(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    assert make_viewer is not None  # its threads and timers are looked for
    shown = Playground("moons", 3, 5, seed=2)
    home = tmp_path / "home"
    home.mkdir()
    options = Options(
        shown.run_config(),
        settings=home / "settings.ini",
        runs_root=str(home / "runs"),
        start="playground",
    )
    viewer = Viewer(options)
    viewer.start()
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.unrecorded and window.run_state.step > 0)
    assert window.playground.shown == shown
    assert window.playground_bar.isVisible()
    assert window.docks.arrangement.preset == "teach"
    assert not (home / "runs").exists()
    assert viewer.close(60.0)


# The bar


def test_layers_units_noise_and_data_restart_the_network_from_the_same_seed(
    window: Window, qtbot: QtBot
) -> None:
    bar = window.playground_bar
    assert bar.isVisible()
    expected = Playground("xor")
    edits: list[tuple[Callable[[], object], dict[str, object]]] = [
        (bar.layers.more.click, {"depth": 5}),
        (bar.units.fewer.click, {"width": 7}),
        (lambda: bar.noise.setValue(10), {"noise": 0.2}),
        (lambda: QTest.mouseClick(bar.pictures[0], LEFT), {"data": bar.pictures[0].entry.id}),
        (bar.seed.click, {"seed": 1}),
    ]
    for act, changes in edits:
        started = restart(window, qtbot, act)
        expected = replace(expected, **changes)  # type: ignore[arg-type]  # of one field each
        assert started == expected
        assert window.run_state.is_running
    assert [picture.isChecked() for picture in bar.pictures].count(True) == 1


def test_an_edit_keeps_regime_learning_rate_and_pause(window: Window, qtbot: QtBot) -> None:
    window.registry["regime.ReLU"].trigger()
    window.run_views.toolbar.learning_rate.chosen.emit(0.05)
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: window.run_state.is_paused and window.run_state.regime == "ReLU")
    started = restart(window, qtbot, window.playground_bar.units.more.click)
    assert (started.regime, started.learning_rate, started.width) == ("ReLU", 0.05, 9)
    assert window.run_state.is_paused


def test_many_quick_edits_start_the_first_and_the_last(window: Window, qtbot: QtBot) -> None:
    first = window.run_state.run
    for _ in range(6):
        window.playground_bar.units.more.click()
    shown = window.playground.shown
    assert shown is not None
    assert shown.width == 14
    qtbot.waitUntil(
        lambda: playground_of(window.run_state.run.config).width == 14  # type: ignore[union-attr]
    )
    assert first is not None
    assert window.run_state.run is not None
    assert window.run_state.run.run == first.run + 2


def test_the_bar_ends_where_the_panels_no_longer_draw_every_unit(
    window: Window, qtbot: QtBot
) -> None:
    bar, control = window.playground_bar, window.playground
    restart(window, qtbot, lambda: control.edit(depth=DEPTHS[1], width=WIDTHS[0]))
    assert not bar.layers.more.isEnabled()
    assert not bar.units.fewer.isEnabled()
    wide = Playground("xor", depth=12, width=40)  # a link may go beyond
    restart(window, qtbot, lambda: control.open_link(wide.link))
    assert not bar.layers.more.isEnabled()
    assert restart(window, qtbot, bar.layers.fewer.click).depth == 11


def test_only_a_playground_has_the_bar(window: Window, qtbot: QtBot) -> None:
    control = window.playground
    digits = replace(
        Playground("xor").run_config(), data=DataConfig(name="digits"), net=NetConfig(name="fc")
    )
    restart(window, qtbot, lambda: control.start(digits))
    assert control.shown is None
    assert not window.playground_bar.isVisible()


# Recording


def test_a_playground_is_recorded_only_once_it_is_kept(
    window: Window, qtbot: QtBot, tmp_path: Path
) -> None:
    bar = window.playground_bar
    restart(window, qtbot, bar.layers.more.click)
    window.registry["run.reset"].trigger()
    before = folders_of(window, tmp_path)  # that of the run at start
    assert bar.keep.isVisible()
    bar.keep.click()
    qtbot.waitUntil(lambda: not window.run_state.unrecorded)
    (kept,) = set(folders_of(window, tmp_path)) - set(before)
    assert kept.name.endswith("DL-fc-xor")
    assert not bar.keep.isVisible()
    restart(window, qtbot, bar.layers.more.click)  # the next one is not
    assert window.run_state.unrecorded
    assert len(folders_of(window, tmp_path)) == len(before) + 1
    window.registry["play.keep"].trigger()
    qtbot.waitUntil(lambda: not window.run_state.unrecorded)
    assert len(folders_of(window, tmp_path)) == len(before) + 2


def test_a_playground_is_recorded_before_another_run_takes_its_place(
    window: Window, qtbot: QtBot, tmp_path: Path
) -> None:
    (at_start,) = folders_of(window, tmp_path)
    window.context.send(ShowRun(str(at_start)))
    qtbot.waitUntil(window.notice_views.question.isVisible)
    press_notice_button(window, "Record it first")
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    assert len(folders_of(window, tmp_path)) == 2


# Copying and pasting


def test_a_copied_link_is_pasted_with_the_keys_of_the_platform(
    window: Window, qtbot: QtBot
) -> None:
    window.registry["play.copy_link"].trigger()
    clipboard = QGuiApplication.clipboard()
    assert parse_link(clipboard.text(), PLANE) == Playground("xor")
    clipboard.setText(Playground("moons", 3, 6).link)
    window.activateWindow()
    started = restart(
        window,
        qtbot,
        lambda: QTest.keyClick(window, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier),
    )
    assert started == Playground("moons", 3, 6)


def test_a_field_of_text_takes_what_is_pasted_into_it(window: Window, qtbot: QtBot) -> None:
    QGuiApplication.clipboard().setText(Playground("moons").link)
    window.action_views.palette.open()
    field: QLineEdit = window.action_views.palette.query
    run = window.run_state.run
    QTest.keyClick(field, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert field.text() == Playground("moons").link
    assert window.run_state.run is run


def test_what_is_pasted_and_is_no_link_is_refused_and_the_run_goes_on(
    window: Window, qtbot: QtBot
) -> None:
    run = window.run_state.run
    QGuiApplication.clipboard().setText("rm -rf /")
    window.registry["play.paste_link"].trigger()
    assert window.run_state.run is run
    notice = window.notices.recent_notices[-1]
    assert (notice.kind, notice.about) == ("refused", "no-link")
