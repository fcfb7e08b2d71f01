"""The host of a panel: its states, its options, and that a fault stays inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import PREDICTIONS, PanelSpec, View, all_panels
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.views import reading_age
from dgn_engine.views.reading_age import Age
from dgn_viewer.docks.panel_dock import CHART, PanelDock
from dgn_viewer.docks.text_line import FactsLine
from tests.plugins import each
from tests.viewer.seen_charts import visible_range

PANELS = all_panels()
OFTEN = ("gate_maps", "training", "paths")  # thumbnails, curves, a graph
MakeView = Callable[..., View]
MakeHost = Callable[..., PanelDock]


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_host(qtbot: QtBot, clock: Clock) -> MakeHost:
    def make(panel: str, spec: PanelSpec | None = None) -> PanelDock:
        host = PanelDock(panel, spec or PANELS[panel], LIGHT, clock=clock)
        host.resize(700, 400)
        qtbot.addWidget(host)
        host.show()
        assert host.parts
        qtbot.waitExposed(host)
        return host

    return make


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_panel_goes_from_waiting_to_live_to_paused(
    panel: str, make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host(panel)
    assert host.panel_state() == "waiting"
    assert all(host.parts.message.displayed_text()[:2])
    host.show_view(make_view("soft"))
    assert host.panel_state() == "live"
    assert "step 1,200" in host.footer_text()
    host.show_view(replace(make_view("soft"), paused=True))
    assert host.panel_state() == "paused"
    assert host.footer_text().startswith("paused")
    assert not host.grab().isNull()


@pytest.mark.parametrize("panel", each(name for name, spec in PANELS.items() if spec.probes))
def test_an_absent_reading_is_shown_as_unavailable(
    panel: str, make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host(panel)
    host.show_view(replace(make_view("absent"), regime="ReLU"))
    assert host.panel_state() == "unavailable"
    heading = "Nothing to compare" if PANELS[panel].compares else "Not in ReLU"
    assert host.parts.message.displayed_text()[:2] == (
        heading,
        "There is no feature network in ReLU; choose DL.",
    )


@pytest.mark.parametrize(
    "panel",
    [
        *each(OFTEN),
        *(
            pytest.param(name, marks=(pytest.mark.discovery, pytest.mark.nightly))
            for name in PANELS
            if name not in OFTEN
        ),
    ],
)
def test_a_panel_fits_into_every_size_and_theme(
    panel: str, make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host(panel)
    for kind in ("hard", "conv", "absent"):
        host.show_view(make_view(kind))
        for width, height in ((700, 400), (360, 300), (240, 120), (1600, 160)):
            host.resize(width, height)
            host.set_theme(DARK)
            assert not host.grab().isNull()
            host.set_theme(LIGHT)


def test_a_picture_that_stays_behind_is_pale_and_says_its_step_until_the_next_reading(
    make_host: MakeHost, make_view: MakeView, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_age, "PATIENCE", 15.0)
    host = make_host("spectrum")
    view = make_view("hard")
    ages: list[Age | None] = []
    said: list[str] = []
    host.age.changed.connect(ages.append)
    host.age.became_stale.connect(said.append)
    facts, charts = host.findChild(FactsLine), host.charts.view
    assert facts is not None
    host.show_view(view)
    picture = facts.grab().toImage(), charts.grab().toImage()
    clock.now = 2.1
    host.update_staleness(view.step + 240)
    assert (host.panel_state(), ages) == ("live", [])
    clock.now = 12.0
    host.update_staleness(view.step + 300)
    assert (host.panel_state(), ages) == ("live", [])  # the next reading is not overdue
    clock.now = 17.0
    host.update_staleness(view.step + 400)
    assert host.panel_state() == "stale"
    assert ages == [Age(1200, 400)]
    assert said == [host.accessibleDescription()] == [Age(1200, 400).long_text]
    pale = facts.grab().toImage(), charts.grab().toImage()
    assert all(one != other for one, other in zip(picture, pale, strict=True))
    host.update_staleness(view.step + 401)  # at once: it is counted once a second
    assert len(ages) == 1
    clock.now = 18.1
    host.update_staleness(view.step + 500)
    assert ages[1:] == [Age(1200, 500)]
    assert len(said) == 1
    host.show_view(replace(view, step=1700, paused=True))  # nothing newer was read yet
    assert (host.panel_state(), ages[-1]) == ("stale", Age(1200, 500))
    host.show_view(replace(make_view("hard", step=1700), run=view.run, paused=True))
    assert (host.panel_state(), ages[-1]) == ("paused", None)
    for tenth in range(2, 6):  # the next one is overdue when it is half as late again as the last
        clock.now = 10.0 * tenth
        host.show_view(replace(view, step=1700 + tenth))
    assert (host.panel_state(), ages[-1]) == ("stale", Age(1200, 505))
    host.show_view(replace(view, step=1705, cursor=1200))
    assert (host.panel_state(), ages[-1]) == ("past", None)
    host.show_view(replace(view, step=1705))
    assert host.panel_state() == "stale"
    host.show_view(replace(make_view("hard", step=1705), run=view.run))
    assert (host.panel_state(), ages[-1], host.accessibleDescription()) == ("live", None, "")
    assert facts.grab().toImage() == picture[0]


def test_a_run_that_pauses_before_it_is_read_again_has_a_picture_of_before(
    make_host: MakeHost, make_view: MakeView, clock: Clock
) -> None:
    host = make_host("spectrum")
    view = make_view("hard")
    host.show_view(view)
    clock.now = 4.0
    host.update_staleness(view.step + 400)
    assert host.panel_state() == "live"
    clock.now = 6.1
    host.show_view(replace(view, step=1600, paused=True))
    assert (host.panel_state(), host.accessibleDescription()) == ("stale", Age(1200, 400).long_text)
    host.show_view(replace(make_view("hard", step=1600), run=view.run, paused=True))
    assert (host.panel_state(), host.accessibleDescription()) == ("paused", "")


def test_a_pause_between_two_points_of_the_log_does_not_dim_the_curves(
    make_host: MakeHost, make_view: MakeView, clock: Clock
) -> None:
    host = make_host("training")
    view = make_view("hard")
    host.show_view(view)
    clock.now = 4.0
    host.update_staleness(view.step + 300)
    clock.now = 6.1
    host.show_view(replace(view, step=view.step + 400, paused=True))
    host.update_staleness(view.step + 400)
    assert host.panel_state() == "paused"


def test_requests_name_the_probe_with_its_engine_options(
    make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host("gate_maps")
    answers = ProbeRequest(PREDICTIONS)
    assert host.drawn.probe_requests() == (ProbeRequest("gates", ()), answers)
    host.show_view(make_view("conv"))
    assert host.drawn.probe_requests()[0].options == (("layer", 0), ("unit", 0))
    host.set_choice("layer", "2")
    host.set_choice("unit", "7")
    assert host.drawn.probe_requests()[0].options == (("layer", 2), ("unit", 7))
    assert make_host("training").drawn.probe_requests() == ()


def test_a_choice_redraws_at_once_and_is_told(
    make_host: MakeHost, make_view: MakeView, qtbot: QtBot
) -> None:
    host = make_host("overlap")
    host.show_view(make_view("hard"))
    with qtbot.waitSignal(host.choices_changed):
        host.set_choice("part", "1")
    assert host.drawn.choices == {"part": "1"}
    shown = host.shown_content()
    assert isinstance(shown, Scene)
    assert shown.charts[0].title == "Active $τ_{2}$"
    with qtbot.assertNotEmitted(host.choices_changed):
        host.set_choice("part", "1")
    with pytest.raises(ValueError, match="no option"):
        host.set_choice("nothing", "1")


def test_the_buttons_ask_for_explanation_and_export(
    make_host: MakeHost, make_view: MakeView, qtbot: QtBot
) -> None:
    host = make_host("ntk")
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    about, export = host.findChildren(QToolButton, options=direct)
    assert not export.isEnabled()
    host.show_view(make_view("hard"))
    with qtbot.waitSignal(host.about_requested) as asked:
        about.click()
    assert asked.args == ["ntk"]
    with qtbot.waitSignal(host.export_requested) as asked:
        export.click()
    assert asked.args == ["ntk"]


def test_the_chart_below_a_tab_is_a_choice_of_the_panel(
    make_host: MakeHost, make_view: MakeView, qtbot: QtBot
) -> None:
    host = make_host("training")
    host.resize(280, 200)
    host.show_view(make_view("hard"))
    picture = host.charts.view
    assert picture.charts.shown_keys() == ("loss",)
    asked = host.drawn.probe_requests()
    with qtbot.waitSignal(host.choices_changed):
        qtbot.keyClick(picture.charts.tabs, Qt.Key.Key_Right)
    assert host.drawn.choices == {CHART: "accuracy"}
    assert host.drawn.probe_requests() == asked  # the engine has nothing to do with it
    host.show_view(replace(make_view("hard"), step=1201))
    assert picture.charts.shown_keys() == ("accuracy",)
    again = make_host("training")
    again.resize(280, 200)
    again.show_view(make_view("hard"))
    again.set_choice(CHART, "accuracy")  # as a session brings it
    assert again.charts.view.charts.shown_keys() == ("accuracy",)


def test_zoom_survives_the_next_frames_of_a_panel(
    make_host: MakeHost, make_view: MakeView, grown: Callable[[View, int], View]
) -> None:
    host = make_host("training")
    view = make_view("hard")
    host.show_view(view)
    picture = host.charts.view
    picture.charts.items["loss"].field.setRange(xRange=(100, 300), padding=0)
    picture.charts.items["loss"].field.sigRangeChangedManually.emit([True, True])
    seen = visible_range(picture, "loss")
    for more in (10, 20, 30):
        host.show_view(grown(view, more))
    assert visible_range(picture, "loss") == seen
    assert visible_range(picture, "accuracy")[0] == (0.0, 1230.0)


def test_settings_of_a_chart_outlive_frames_and_charts_that_come_and_go(
    make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host("training")
    view = make_view("hard")
    host.show_view(view)
    host.charts.apply_settings({"loss": ChartSettings(last=300)})
    for shown in (view, make_view("first"), make_view("hard", step=1300)):
        host.show_view(shown)
    scene = host.shown_content()
    assert isinstance(scene, Scene)
    low, high = scene.charts[0].x.limits or (0.0, 0.0)
    assert high - low == 300
    assert visible_range(host.charts.view, "loss")[0] == (low, high)
    host.charts.apply_settings({"loss": ChartSettings()})
    assert host.charts.settings == {}
