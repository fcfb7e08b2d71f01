"""The first-minute tour on the real window: it points, it acts, it can be left at any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig
from dgn_engine.experiments import all_experiments
from dgn_engine.experiments.report.papers import PAPERS
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.protocol.training import RegimeSwapped, Rewired, StartRun, SwapRegime
from dgn_engine.regimes import find_regime
from dgn_engine.scene.panel_spec import Series, View, run_key
from dgn_engine.scene.theme import DARK
from dgn_engine.session.known_plug_ins import regime_entries
from dgn_viewer.application import Options, Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.shell.claims_tour import ClaimActs, tour_run
from dgn_viewer.shell.tour import Tour
from tests.viewer.conftest import small_run
from tests.viewer.window_contexts import make_context

MakeView = Callable[..., View]


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def pointed(tour: Tour) -> QRect:
    """Where the callout stands, in the window."""
    return tour.callout.geometry()


def test_the_tour_is_shown_once_and_never_where_nobody_looks(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(small_run(), settings=tmp_path / "settings.ini", tour=True)

    def shown(started: Callable[[Viewer], object] = lambda _: None) -> bool:
        viewer = Viewer(options)
        viewer.start()
        qtbot.waitUntil(lambda: viewer.window.history.step > 5)
        found = viewer.window.guides.tour.step_index == 0
        assert viewer.close(60.0)
        return found

    assert not shown()  # offscreen
    monkeypatch.setattr(QGuiApplication, "platformName", lambda: "xcb")
    assert shown()
    assert not shown()


def test_the_tour_acts_on_the_live_run_and_undoes_what_it_did(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window, told = viewer.window, list[object]()
    viewer.pump.event_arrived.connect(told.append)
    qtbot.waitUntil(lambda: "overlap" in window.history.readings)
    cursor = window.time.cursor
    qtbot.waitUntil(lambda: not cursor.reason_not_available)
    cursor.go_to_first()
    window.registry["help.tour"].trigger()
    tour, callout = window.guides.tour, window.guides.tour.callout
    assert callout.isVisible()
    assert cursor.step is None  # before each step, the first included
    assert callout.note.isVisible()
    assert callout.accessibleName() == "Tour, 1 of 6: Gates"
    host = window.docks.hosts["gate_maps"]
    before = host.drawn.choices
    callout.act.click()
    assert host.drawn.choices != before
    assert not callout.act.isEnabled()
    cursor.go_to_first()
    callout.next.click()
    assert cursor.step is None
    assert host.drawn.choices == before | {"layer": host.drawn.choices["layer"]}
    assert callout.title.text() == "Overlap"
    callout.act.click()
    cursor.go_to_first()
    callout.next.click()
    assert cursor.step is None
    assert callout.note.isVisible()
    assert "FR-II" in callout.title.text()
    cursor.go_to_first()
    callout.act.click()
    assert cursor.step is None
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    callout.next.click()
    callout.act.click()
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 2, 1))
    callout.next.click()
    assert callout.title.text() == "Undo"
    callout.act.click()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 1, 2))
    assert any(isinstance(event, RegimeSwapped) for event in told)
    assert any(isinstance(event, Rewired) for event in told)
    callout.next.click()
    callout.act.click()
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    page = window.inspector.page
    assert isinstance(page, FilePage)
    file = Path(page.listed.path)
    assert file.is_file()
    assert not window.files.recent.items
    callout.next.click()
    assert tour.step_index == -1
    assert not callout.isVisible()
    assert window.inspector.page is None
    assert not file.exists()


def test_the_tour_can_be_left_at_any_step_and_started_again(
    make_viewer: Callable[..., Viewer],
) -> None:
    window = make_viewer(paused=True).window
    tour = window.guides.tour
    for leave in (
        lambda: QTest.keyClick(window, Qt.Key.Key_Escape),
        tour.callout.close_.click,
        window.close,
    ):
        tour.start()
        assert tour.step_index == 0
        tour.go_to_next_step()
        leave()
        assert tour.step_index == -1
        assert not tour.callout.isVisible()


def test_the_callout_follows_its_target_and_stays_in_the_window(viewer: Viewer) -> None:
    window = viewer.window
    window.guides.tour.start()
    for size in (QSize(1440, 900), QSize(1024, 700)):
        window.resize(size)
        QApplication.processEvents()
        for _ in range(6):
            assert window.rect().contains(pointed(window.guides.tour)), (
                size,
                window.guides.tour.step_index,
            )
            window.guides.tour.go_to_next_step()
        window.guides.tour.start()
    window.guides.tour.set_theme(DARK)
    window.docks.toggle_panel("gate_maps")  # what is closed cannot be pointed at
    window.guides.tour.reposition_callout()
    assert window.rect().contains(pointed(window.guides.tour))
    window.guides.tour.skip_tour()


def any_regime(view: View) -> View:
    """With every regime to choose from."""
    return replace(view, regimes=regime_entries())


def with_accuracy(view: View, accuracy: float) -> View:
    """The view once so much of the test set is right."""
    series = Series(np.array([1, 2]), np.array([0.1, accuracy]), run_key(view.run))
    return replace(view, series={(TRAINING, "test_accuracy"): series}, outdated={})


def begun(view: View, command: Command) -> View:
    """The view once a run with this configuration has begun."""
    assert isinstance(command, StartRun)
    assert view.run is not None
    regime = command.config.gating.regime
    wiring = command.config.gating.wiring or (0, 1, 2, 3)
    run = replace(
        view.run, run=view.run.run + 1, config=command.config, regime=regime, wiring=wiring
    )
    return replace(view, run=run, regime=regime, wiring=wiring, series={}, outdated={})


def acts(seen: list[View], sent: list[Command], opened: list[str], qtbot: QtBot) -> ClaimActs:
    window, docks = QWidget(), QWidget()
    qtbot.addWidget(window)
    qtbot.addWidget(docks)
    unused: Any = docks  # no step is pointed at here
    context = make_context(window, sent.append, view=lambda: seen[0])
    return ClaimActs(context, unused, window, opened.append, window)


@pytest.mark.discovery
def test_every_paper_has_a_step_and_every_step_can_be_done(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    opened: list[str] = []
    steps = acts([any_regime(make_view("soft"))], sent, opened, qtbot).build_steps()
    for step in steps:
        step.act()
    text = " ".join(step.text for step in steps)
    assert all(f"[{paper}]" in text for paper in PAPERS)
    assert set(opened) <= set(all_experiments())
    assert len(sent) + len(opened) == len(steps)
    for command in sent:
        if isinstance(command, StartRun):
            gating = command.config.gating
            layers = dict(command.config.net.options)["depth"] - 1
            assert not gating.wiring or sorted(gating.wiring) == list(range(layers))
            assert find_regime(gating.regime)
        else:
            assert isinstance(command, SwapRegime)
            assert find_regime(command.regime)


@pytest.mark.discovery
def test_the_accuracies_of_the_runs_so_far_stand_side_by_side(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).build_steps()
    assert steps[0].seen() == ""
    steps[0].act()
    waiting = steps[0].seen()
    assert "%" not in waiting
    seen[0] = with_accuracy(seen[0], 0.5)  # of the run before
    assert steps[0].seen() == waiting
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.971)
    assert steps[0].seen().endswith("(DL): 97.1 % so far")
    steps[2].act()
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.93)
    first, second = steps[2].seen().splitlines()[1:]
    assert first.endswith("(DL): 97.1 %")
    assert second.endswith("(FR-II): 93.0 % so far")


@pytest.mark.discovery
def test_a_run_that_no_card_has_begun_gives_no_card_its_accuracy(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).build_steps()
    playground = StartRun(replace(tour_run(), data=DataConfig(name="xor")))
    for place, reached in ((4, 0.4), (5, None)):
        steps[place].act()
        seen[0] = begun(seen[0], sent[-1])
        if reached is not None:
            seen[0] = with_accuracy(seen[0], reached)
        before = steps[place].seen()
        seen[0] = with_accuracy(begun(seen[0], playground), 0.995)
        after = steps[place].seen()
        assert "99.5" not in after
        assert after != before  # it is over
    steps[1].act()  # the gates that XOR has learnt are no result of a paper
    assert isinstance(sent[-1], SwapRegime)
    seen[0] = with_accuracy(replace(seen[0], regime=sent[-1].regime), 0.99)
    assert steps[1].seen() == after
    assert after.count(":") == 2


@pytest.mark.discovery
def test_a_swap_by_hand_ends_what_is_counted_for_a_card(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).build_steps()
    steps[0].act()
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.97)
    assert "97.0 % so far" in steps[0].seen()
    ours = seen[0]
    seen[0] = with_accuracy(replace(ours, regime="FR-II"), 0.3)
    assert steps[0].seen().endswith(": 97.0 %")
    seen[0] = ours
    steps[1].act()
    assert isinstance(sent[-1], SwapRegime)
    assert steps[1].seen().endswith("not measured yet")  # the swap is to come
    seen[0] = with_accuracy(replace(ours, regime=sent[-1].regime), 0.95)
    assert "97.0 %" in steps[1].seen()
    assert steps[1].seen().endswith("95.0 % so far")
