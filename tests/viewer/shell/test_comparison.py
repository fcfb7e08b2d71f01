"""A network beside the run, or in its place, in the real window with the real session."""

from __future__ import annotations

import gc
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from torch import nn

from dgn_engine.config import RunConfig
from dgn_engine.figures.provenance import make_provenance
from dgn_engine.protocol.branches import ComparisonOpened
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import OpenFile, Purpose, SaveWeights
from dgn_engine.protocol.training import Measured, Pause, StartRun
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.run_text import short_names
from dgn_engine.training.readings import reading_sizes
from dgn_engine.views.history import History, compared_run
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.window import Window
from tests.engine.importing.torch_networks import narrow_resnet
from tests.image_folders import write_flowers
from tests.viewer.conftest import Begin
from tests.viewer.gestures import LEFT, open_file_page

RELU = FileReading(activation="relu")


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def scene(viewer: Viewer, panel: str) -> Scene:
    viewer.window.display.draw_now()
    shown = viewer.window.docks.hosts[panel].shown_content()
    assert isinstance(shown, Scene), shown
    return shown


def go_of(page: FilePage, purpose: Purpose) -> QPushButton:
    page.choose_purpose(purpose)
    return page.go


def test_every_panel_shows_both_and_is_as_before_when_the_comparison_is_closed(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    assert not window.docks.arrangement.is_open("agreement")
    assert not window.run_views.banners[0].isVisible()
    window.context.send(OpenFile(str(saved_weights), "compare"))
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)

    def seen() -> bool:
        """The panels in sight, which the Compare layout shows two of, and those shown since."""
        compared = window.history.view({}).compared
        probes = {
            one for name in window.docks.visible_panels() for one in all_panels()[name].probes
        }
        return compared is not None and probes - {"agreement"} <= set(compared.readings)

    qtbot.waitUntil(seen)
    window.docks.show_panel("agreement")
    qtbot.waitUntil(lambda: "agreement" in window.history.readings)
    qtbot.waitUntil(lambda: not window.history.readings["agreement"].absent)
    shares = scene(viewer, "agreement").charts[0].curves[0].y
    assert shares.shape == (3,)
    assert np.all((shares > 0) & (shares <= 100))
    for name in ("gate_maps", "spectrum"):
        window.docks.show_panel(name)
    qtbot.waitUntil(seen)
    assert window.docks.arrangement.is_open("agreement")
    assert window.run_views.banners[0].isVisible()
    assert "early.safetensors" in window.run_views.banners[0].shown_texts()[1]
    maps = scene(viewer, "gate_maps").charts
    titles = ["A, layer 1", "B, layer 1 · early.safetensors", "A − B"]
    assert [chart.title for chart in maps] == titles
    first, second, _ = (chart.matrix for chart in maps)
    assert first is not None
    assert second is not None
    assert first.high == second.high
    eigenvalues = scene(viewer, "spectrum").charts[0]
    assert [curve.name for curve in eigenvalues.curves] == ["B", "A"]
    window.docks.show_panel("overlap")
    qtbot.waitUntil(seen)
    overlaps = [chart.title[:5] for chart in scene(viewer, "overlap").charts]
    assert overlaps == ["A", "B · e", "A − B"]
    later = saved_weights.with_name("later.safetensors")
    window.context.send(SaveWeights(str(later)))
    qtbot.waitUntil(later.exists)
    window.context.send(OpenFile(str(later), "compare"))
    named = "B, layer 1 · later.safetensors"
    window.docks.show_panel("gate_maps")
    qtbot.waitUntil(lambda: scene(viewer, "gate_maps").charts[1].title == named)
    qtbot.waitUntil(seen)
    assert "later.safetensors" in window.run_views.banners[0].shown_texts()[1]
    assert "early" not in " ".join(window.run_views.banners[0].shown_texts())
    window.docks.show_panel("overlap")
    qtbot.waitUntil(lambda: scene(viewer, "overlap").charts[1].title[:5] == "B · l")
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
    page = open_file_page(viewer, qtbot, tmp_path / "wide.pt", "compare", RELU)
    qtbot.waitUntil(page.go.isEnabled)
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    window.docks.show_panel("ntk")

    def check_both() -> None:
        view = window.history.view({})
        assert view.compared is not None
        for one in (view.readings.get("ntk"), view.compared.readings.get("ntk")):
            assert one is not None, window.notices.recent_notices
            assert one.arrays, (one.absent, one.remark, window.notices.recent_notices)
            assert one.progress == 1.0, (one.progress, one.remark, window.notices.recent_notices)

    qtbot.waitUntil(check_both)
    host = window.docks.hosts["ntk"]
    qtbot.waitUntil(lambda: "20" in host.footer_text() and "exact" in host.footer_text())


def test_a_state_dict_is_shown_with_what_was_said_and_the_accuracy_that_follows(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 10))
    path = tmp_path / "tanh.pt"
    torch.save(network.state_dict(), path)
    window = viewer.window
    page = open_file_page(viewer, qtbot, path, "network")
    assert not page.go.isEnabled()
    page = open_file_page(viewer, qtbot, path, "network", RELU)
    assert "taken as 64-9-10 with ReLU between" in page.verdict.text()
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected_file == path.name)
    qtbot.waitUntil(lambda: "npk" in window.history.readings)
    qtbot.waitUntil(lambda: "360" in window.run_views.banners[0].shown_texts()[0])
    said = window.run_views.banners[0].shown_texts()[0]
    view = window.history.view({})
    caption = make_provenance(view, all_panels()["spectrum"], Scene(())).caption
    for words in (said, caption):
        assert "tanh.pt" in words
        assert "ReLU" in words


def test_an_inspected_network_is_shown_and_the_window_says_that_nothing_is_trained(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    page = open_file_page(viewer, qtbot, saved_weights, "network")
    assert window.run_state.is_running  # nothing has changed yet
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected_file == saved_weights.name)
    qtbot.waitUntil(lambda: "npk" in window.history.readings)
    run = window.registry["run.toggle"]
    assert not run.isEnabled()
    assert "early.safetensors" in run.toolTip()
    qtbot.waitUntil(lambda: "test accuracy (" in window.run_views.banners[0].shown_texts()[0])
    (said,) = window.run_views.banners[0].shown_texts()
    assert "early.safetensors on digits" in said
    assert "360" in said
    assert window.run_views.status.field_text("phase") == "not training"
    assert not window.run_views.toolbar.regime.isEnabled()
    assert len(scene(viewer, "gate_maps").charts) == 4  # three overviews and the large map
    window.display.draw_now()
    assert isinstance(window.docks.hosts["training"].shown_content(), Empty)


def test_comparisons_and_inspections_that_come_and_go_leave_no_dangling_slot(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    for _ in range(2):
        QTest.mouseClick(
            go_of(open_file_page(viewer, qtbot, saved_weights, "weights"), "compare"), LEFT
        )
        qtbot.waitUntil(lambda: window.run_state.comparison is not None)
        gc.collect()  # what only a slot knows is gone now
        window.run_views.banners[0].buttons["file.close_comparison"].click()
        qtbot.waitUntil(lambda: window.run_state.comparison is None)
        QTest.mouseClick(
            go_of(open_file_page(viewer, qtbot, saved_weights, "weights"), "network"), LEFT
        )
        qtbot.waitUntil(lambda: window.run_state.inspected_file == saved_weights.name)
        gc.collect()
        window.run_views.banners[0].buttons["file.new_run"].click()
        window.start_card.pages.settings.click()
        QTest.mouseClick(window.inspector.run_page.start, LEFT)
        qtbot.waitUntil(lambda: not window.run_state.inspected_file)
        gc.collect()
    assert not [notice for notice in window.notices.recent_notices if notice.kind == "failed"]


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


RESNET = FileReading(geometry="torchvision")
DEFAULT = replace(RunConfig(), device="cpu")


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "resnet18.pth"
    network = narrow_resnet("BasicBlock", (2, 2, 2, 2)).float()
    torch.save(network.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flowers(tmp_path_factory.mktemp("images"))


def said(window: Window) -> str:
    return (
        window.run_views.banners[0].shown_texts()[0]
        if window.run_views.banners[0].shown_texts()
        else ""
    )


def chosen(page: FilePage, images: Path, qtbot: QtBot) -> None:
    """Fill in the folder and the size, and wait for the verdict."""
    section = page.data.section
    section.name.pick_value("folder")
    qtbot.waitUntil(lambda: page.verdict.text().startswith("No folder chosen"))
    section.folder.line.setText(str(images))
    qtbot.waitUntil(page.go.isEnabled)
    section.fields["image_size"].setValue(32)  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: "resized to 32" in page.verdict.text())


def test_a_resnet_opens_from_the_default_run_and_says_how_good_it_is(
    begin_run: Begin, qtbot: QtBot, resnet: Path, images: Path
) -> None:
    viewer = begin_run(DEFAULT)
    window = viewer.window
    page = open_file_page(viewer, qtbot, resnet, "network", RESNET)
    chosen(page, images, qtbot)
    assert all(part in page.verdict.text() for part in ("5 outputs", "3×20×24", "5 classes"))
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected_file == "resnet18.pth")
    qtbot.waitUntil(lambda: "test accuracy (" in said(window))
    scored = window.run_state.scored
    assert scored is not None
    assert (scored.examples, scored.total) == (10, 10)
    assert f"resnet18.pth on folder flowers, resized to 32, {scored.sentence}" in said(window)
    qtbot.waitUntil(lambda: {"gates", "overlap"} <= set(window.history.readings))
    # another network, and its accuracy is gone
    window.registry["run.train_on"].trigger()
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert window.run_state.scored is None
    assert window.run_views.banners[0].isHidden()
    assert window.run_state.regime == "ReLU"
    qtbot.waitUntil(lambda: window.run_state.step > 0)
    assert any("resnet18.pth in ReLU" in notice.text for notice in window.notices.recent_notices)


def test_what_cannot_be_trained_on_is_disabled_and_says_why(
    viewer: Viewer, qtbot: QtBot, resnet: Path
) -> None:
    window = viewer.window
    page = open_file_page(viewer, qtbot, resnet, "network", RESNET)
    qtbot.waitUntil(page.go.isEnabled)
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.training is not None)
    action = window.registry["run.train_on"]
    assert not action.isEnabled()
    assert all(part in action.toolTip() for part in ("resnet18.pth", "5 outputs", "10"))
    assert window.run_state.scored is None or window.run_state.scored.unknown
    assert "5 outputs" in said(window)
    window.context.send(StartRun(DEFAULT, paused=True))
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert not action.isEnabled()


def test_a_run_with_biases_takes_the_weights_of_a_file_by_one_button(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    sizes = (64, 16, 16, 16, 10)
    layers = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    torch.save(layers.state_dict(), tmp_path / "biased.pt")
    window = viewer.window
    page = open_file_page(viewer, qtbot, tmp_path / "biased.pt", "weights")
    QTest.mouseClick(page.with_biases, LEFT)
    qtbot.waitUntil(lambda: window.run_state.undo == "weights of biased.pt")
    assert window.run_state.run is not None
    assert window.run_state.run.config.net.bias
    assert window.inspector.page is None
