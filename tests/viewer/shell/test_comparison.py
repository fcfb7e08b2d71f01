"""A network beside the run, or in its place, in the real window with the real session."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from torch import nn

from dgn_engine.figures.provenance import context_of
from dgn_engine.protocol.branches import ComparisonOpened
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import OpenFile, Purpose, WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured, Pause
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.run_text import short_names
from dgn_engine.training.readings import reading_sizes
from dgn_engine.views.history import History, compared_run
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.gestures import LEFT, opened_file

RELU = FileReading(activation="relu")


def scene(viewer: Viewer, panel: str) -> Scene:
    viewer.window.display.draw_now()
    shown = viewer.window.docks.hosts[panel].shown()
    assert isinstance(shown, Scene), shown
    return shown


def go_of(page: FilePage, purpose: Purpose) -> QPushButton:
    page.choose(purpose)
    return page.go


def test_every_panel_shows_both_and_is_as_before_when_the_comparison_is_closed(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    assert not window.docks.arrangement.is_open("agreement")
    assert not window.run_views.banners[0].isVisible()
    window.context.send(OpenFile(str(saved_weights), "compare"))
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    probes = {"gates", "overlap", "npk", "ntk", "agreement"}

    def seen() -> bool:
        compared = window.history.view({}).compared
        return compared is not None and set(compared.readings) == probes

    qtbot.waitUntil(seen)
    qtbot.waitUntil(lambda: not window.history.readings["agreement"].absent)
    assert window.docks.arrangement.is_open("agreement")
    assert window.run_views.banners[0].isVisible()
    assert "early.safetensors" in window.run_views.banners[0].texts()[1]
    maps = scene(viewer, "gate_maps").charts
    assert [chart.title for chart in maps] == ["A, layer 1", "B · early.safetensors, layer 1"]
    first, second = (chart.matrix for chart in maps)
    assert first is not None
    assert second is not None
    assert first.high == second.high
    eigenvalues = scene(viewer, "spectrum").charts[0]
    assert [curve.name for curve in eigenvalues.curves] == ["B", "A"]
    overlaps = [chart.title[:5] for chart in scene(viewer, "overlap").charts]
    assert overlaps == ["A", "B · e", "A − B"]
    shares = scene(viewer, "agreement").charts[0].curves[0].y
    assert shares.shape == (3,)
    assert np.all((shares > 0) & (shares <= 100))
    window.registry["file.close_comparison"].trigger()
    qtbot.waitUntil(lambda: window.run_state.comparison is None)
    assert not window.docks.arrangement.is_open("agreement")
    assert not window.run_views.banners[0].isVisible()
    assert [chart.key for chart in scene(viewer, "overlap").charts] == ["active", "sensitive"]


def test_heavy_readings_of_a_and_of_b_are_made_by_the_reading_process(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = viewer.window
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    monkeypatch.setattr(reading_sizes, "FIRST_LOOK", 0.0)
    wide = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)]
    torch.save(torch.nn.Sequential(*wide).state_dict(), tmp_path / "wide.pt")
    window.context.send(Pause())
    page = opened_file(viewer, qtbot, tmp_path / "wide.pt", "compare", RELU)
    qtbot.waitUntil(page.go.isEnabled)
    QTest.mouseClick(page.go, LEFT)

    def check_both() -> None:
        view = window.history.view({})
        assert view.compared is not None
        for one in (view.readings.get("ntk"), view.compared.readings.get("ntk")):
            assert one is not None, window.notices.recent
            assert one.arrays, (one.absent, one.remark, window.notices.recent)
            assert one.progress == 1.0, (one.progress, one.remark, window.notices.recent)

    qtbot.waitUntil(check_both)
    host = window.docks.hosts["ntk"]
    qtbot.waitUntil(lambda: "20 probe examples, exact" in host.footer())


def test_weights_go_into_the_value_network_and_leave_a_mark(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window, told = viewer.window, list[Event]()
    viewer.pump.event_arrived.connect(told.append)
    page = opened_file(viewer, qtbot, saved_weights, "weights")
    assert page.go.text() == "Copy weights"
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: any(isinstance(event, WeightsTaken) for event in told))
    qtbot.waitUntil(lambda: not window.inspector.isVisible())
    assert window.run_state.regime == "DL"
    assert [mark.label for mark in window.history.view({}).marks] == ["weights"]
    assert "weights of early.safetensors in 4 layers" in window.notices.recent[-1].text


def test_a_state_dict_is_shown_with_what_was_said_and_the_accuracy_that_follows(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 10))
    path = tmp_path / "tanh.pt"
    torch.save(network.state_dict(), path)
    window = viewer.window
    page = opened_file(viewer, qtbot, path, "network")
    assert not page.go.isEnabled()
    page = opened_file(viewer, qtbot, path, "network", RELU)
    assert "taken as 64-9-10 with ReLU between" in page.verdict.text()
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected == path.name)
    qtbot.waitUntil(lambda: "npk" in window.history.readings)
    done = "% of 360 test examples, reading: ReLU, as you said – not training"
    qtbot.waitUntil(lambda: window.run_views.banners[0].texts()[0].endswith(done))
    said = window.run_views.banners[0].texts()[0]
    assert said.startswith("Inspecting tanh.pt on digits, right on ")
    view = window.history.view({})
    caption = context_of(view, all_panels()["spectrum"], Scene(())).caption
    assert "tanh.pt, reading: ReLU, as you said" in caption


def test_an_inspected_network_is_shown_and_the_window_says_that_nothing_is_trained(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    page = opened_file(viewer, qtbot, saved_weights, "network")
    assert window.run_state.running  # nothing has changed yet
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected == saved_weights.name)
    qtbot.waitUntil(lambda: "npk" in window.history.readings)
    run = window.registry["run.toggle"]
    assert not run.isEnabled()
    assert run.toolTip() == (
        "Inspecting early.safetensors: not training. Train on from here, or begin a run."
    )
    qtbot.waitUntil(lambda: "right on " in window.run_views.banners[0].texts()[0])
    (said,) = window.run_views.banners[0].texts()
    assert said.startswith("Inspecting early.safetensors on digits, right on ")
    assert said.endswith("360 test examples – not training")
    assert window.run_views.status.text("phase") == "not training"
    assert not window.run_views.toolbar.regime.isEnabled()
    assert len(scene(viewer, "gate_maps").charts) == 4  # three overviews and the large map
    window.display.draw_now()
    training = window.docks.hosts["training"].shown()
    assert isinstance(training, Empty)
    assert "not trained" in training.reason
    step = window.history.step
    window.context.send(Pause())
    qtbot.wait(100)
    assert window.history.step == step


def test_comparisons_and_inspections_that_come_and_go_leave_no_dangling_slot(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    for _ in range(2):
        QTest.mouseClick(
            go_of(opened_file(viewer, qtbot, saved_weights, "weights"), "compare"), LEFT
        )
        qtbot.waitUntil(lambda: window.run_state.comparison is not None)
        gc.collect()  # what only a slot knows is gone now
        window.run_views.banners[0].buttons["file.close_comparison"].click()
        qtbot.waitUntil(lambda: window.run_state.comparison is None)
        QTest.mouseClick(
            go_of(opened_file(viewer, qtbot, saved_weights, "weights"), "network"), LEFT
        )
        qtbot.waitUntil(lambda: window.run_state.inspected == saved_weights.name)
        gc.collect()
        window.run_views.banners[0].buttons["file.new_run"].click()
        QTest.mouseClick(window.inspector.run_page.start, LEFT)
        qtbot.waitUntil(lambda: not window.run_state.inspected)
        gc.collect()
    assert not [notice for notice in window.notices.recent if notice.kind == "failed"]


def test_a_closed_window_forgets_the_panels_of_a_comparison(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    viewer.window.context.send(OpenFile(str(saved_weights), "compare"))
    qtbot.waitUntil(lambda: viewer.window.docks.arrangement.is_open("agreement"))
    viewer.window.close()  # the layout is saved
    assert not viewer.window.docks.arrangement.is_open("agreement")


def test_a_recorded_run_brings_its_curves() -> None:
    scores = (Measured(5, 0.5, 2.0, 0.3), Measured(10, 1.0, 1.5, 0.5, 1.6, 0.45))
    event = ComparisonOpened("a run", "scores only", "DL", (), scores=scores)
    series = compared_run(event).series
    assert series["training", "train_loss"].values.tolist() == [2.0, 1.5]
    assert series["training", "test_accuracy"].steps.tolist() == [10]
    history = History()
    history.on_event(event)
    compared = history.view({}).compared
    assert compared is not None
    assert compared.name == "a run"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("0.weight", "2.weight"), ("0.weight", "2.weight")),
        (
            ("blocks.0.attention.weight", "blocks.11.attention.weight"),
            ("…0…", "…11…"),
        ),
        (("model.encoder.first.weight", "head.weight"), ("model.encoder.first…", "head…")),
    ],
)
def test_long_names_are_shortened_to_what_tells_them_apart(
    names: tuple[str, ...], short: tuple[str, ...]
) -> None:
    assert short_names(names) == short
