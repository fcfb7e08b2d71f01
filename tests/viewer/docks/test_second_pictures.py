"""A dock that has shown a run, or a B, shows the next one as a dock does that has shown nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import same
from dgn_engine.scene.panel_spec import ComparedRun, Series, View, all_panels
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.panel_dock import PanelDock
from tests.daily import nightly
from tests.plugins import own
from tests.viewer.seen_charts import visible_range

MakeView = Callable[..., View]
OFTEN = ("gate_maps", "spectrum", "training", "agreement")
GROWS = ("overlap", "ntk")  # the margins of a chart, for its widest numbers
PANELS = [*OFTEN, *nightly(*(name for name in own(all_panels()) if name not in OFTEN))]


def dock(qtbot: QtBot, panel: str) -> PanelDock:
    host = PanelDock(panel, all_panels()[panel], LIGHT, clock=lambda: 0.0)
    host.resize(800, 500)
    qtbot.addWidget(host)
    host.show()
    qtbot.waitExposed(host)
    return host


def seen(host: PanelDock) -> tuple[bytes, str]:
    """All pixels, and the words below the charts or in their place."""
    for _ in range(3):
        QApplication.processEvents()
    image = host.grab().toImage()
    words = host.footer() if host.shown() is not None else " ".join(host.message.words())
    return bytes(image.constBits()), words


def other_b(view: View, name: str, factor: float) -> View:
    """The view with this B, whose numbers are so many times those of A."""
    readings = {
        probe: replace(
            one,
            arrays={
                key: array * array.dtype.type(factor) if array.dtype.kind == "f" else array
                for key, array in one.arrays.items()
            },
        )
        for probe, one in view.readings.items()
    }
    series = {key: Series(one.steps, factor * one.values) for key, one in view.series.items()}
    assert view.run is not None
    b = ComparedRun(name, "ReLU", view.run.layers, (0, 1, 2), 7, readings, series)
    return replace(view, compared=b)


@pytest.mark.parametrize("panel", PANELS)
def test_a_second_run_and_a_second_b_leave_no_trace_of_the_first(
    panel: str, qtbot: QtBot, make_view: MakeView
) -> None:
    first = other_b(make_view("soft", n=30), "first.pt", 0.5)
    second = other_b(make_view("hard", n=20, step=700), "second.pt", 0.25)
    assert second.run is not None
    second = replace(second, run=replace(second.run, run=2), marks=())
    without = replace(second, compared=None)
    lived = dock(qtbot, panel)
    for view in (make_view("first"), first, make_view("absent"), without, first, second):
        lived.show_view(view)
        seen(lived)
    fresh = dock(qtbot, panel)
    fresh.show_view(second)
    kept, new = seen(lived), seen(fresh)
    assert (kept == new) if panel not in GROWS else (kept[1:] == new[1:])
    assert same(lived.shown(), fresh.shown())
    for view in (without, first, without):
        lived.show_view(view)
    fresh.show_view(without)
    assert seen(lived)[1:] == seen(fresh)[1:]
    assert same(lived.shown(), fresh.shown())


@pytest.mark.parametrize("panel", PANELS)
def test_hidden_and_shown_again_in_themes_that_come_and_go_a_dock_looks_as_before(
    panel: str, qtbot: QtBot, make_view: MakeView
) -> None:
    host, view = dock(qtbot, panel), other_b(make_view("soft"), "b.pt", 0.5)
    host.show_view(view)
    before = seen(host)
    for theme in (DARK, LIGHT, DARK):
        host.set_theme(theme)
        host.hide()
        host.show()
        assert (seen(host) == before) == (theme is LIGHT)
    fresh = dock(qtbot, panel)
    fresh.set_theme(DARK)
    fresh.show_view(view)
    assert seen(host) == seen(fresh)


def test_a_setting_of_a_chart_is_kept_by_its_dock_and_not_by_another(
    qtbot: QtBot, make_view: MakeView
) -> None:
    first, second = dock(qtbot, "training"), dock(qtbot, "training")
    for host in (first, second):
        host.show_view(make_view("hard"))
    before = seen(first), seen(second)
    first.charts.put({"loss": ChartSettings(y_range=(0.5, 0.6))})
    assert seen(first) != before[0]
    assert seen(second) == before[1]
    first.charts.put_all({})
    assert visible_range(first.charts.view, "loss") == visible_range(second.charts.view, "loss")
