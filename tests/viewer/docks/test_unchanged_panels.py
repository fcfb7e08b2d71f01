"""A panel whose inputs are those of the last drawing is left alone; each input alone is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Matrix, Scene, deep_equal
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.panel_spec import ComparedRun, Series, View, all_panels
from dgn_engine.scene.selection import make_selection
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.plots import arranged_charts
from dgn_viewer.style.chosen_numbers import choose_numbers
from tests.daily import nightly
from tests.plugins import each, own
from tests.viewer.seen_charts import visible_range

PANELS = all_panels()
MakeView = Callable[..., View]


class Shown:
    """A panel on the screen, and how often it was asked."""

    def __init__(self, qtbot: QtBot, panel: str) -> None:
        self.asked = 0
        self._draw = PANELS[panel].draw
        self.linked, self.steps = LinkedSelection(), LinkedSteps()
        spec = replace(PANELS[panel], draw=self._counted)
        self.host = PanelDock(panel, spec, LIGHT, linked=self.linked, steps=self.steps)
        self.host.resize(800, 560)
        qtbot.addWidget(self.host)
        self.host.show()
        qtbot.waitExposed(self.host)
        self.asked = 0

    def _counted(self, view: View) -> Any:
        self.asked += 1
        return self._draw(view)

    def show(self, view: View) -> bytes:
        self.host.show_view(view)
        return self.picture()

    def picture(self) -> bytes:
        """The pixels of the charts, without what stands above and below them."""
        QApplication.processEvents()
        image = self.host.charts.view.grab().toImage()
        return bytes(image.constBits())


@pytest.mark.parametrize("panel", each(PANELS))
def test_a_panel_of_the_same_inputs_is_neither_asked_nor_compared(
    panel: str, qtbot: QtBot, make_view: MakeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, view = Shown(qtbot, panel), make_view("soft")
    if not PANELS[panel].compares:
        view = replace(view, compared=None)
    picture = shown.show(view)
    scene, asked = shown.host.shown_content(), shown.asked
    assert isinstance(scene, Scene)
    compared: list[object] = []

    def count(*sides: object) -> bool:
        compared.append(sides)
        return False

    # The words around the picture are of other steps; the picture is of the same readings.
    again = replace(view, readings=dict(view.readings), series=dict(view.series))
    with monkeypatch.context() as patched:
        for kind in (Scene, Chart, Axis, Curve, Matrix, Mark):
            patched.setattr(kind, "__eq__", count)
        patched.setattr(arranged_charts, "deep_equal", count)
        shown.host.show_view(replace(again, paused=True, trains=False))
    assert (shown.asked, compared) == (asked, [])
    assert shown.host.shown_content() is scene
    assert shown.host.footer_text().startswith("paused")
    assert shown.picture() == picture


@pytest.mark.parametrize("panel", each(name for name, spec in PANELS.items() if spec.probes))
def test_a_new_reading_is_drawn(panel: str, qtbot: QtBot, make_view: MakeView) -> None:
    shown, view = Shown(qtbot, panel), make_view("soft")
    shown.show(view)
    asked = shown.asked
    for probe in PANELS[panel].probes:
        reading = view.readings[probe]
        shown.host.show_view(replace(view, readings={**view.readings, probe: replace(reading)}))
        assert shown.asked > asked, probe
        asked = shown.asked


def test_each_input_alone_changes_the_picture(
    qtbot: QtBot, make_view: MakeView, grown: Callable[[View, int], View]
) -> None:
    view = make_view("soft")
    shown = Shown(qtbot, "training")
    first = shown.show(view)
    assert shown.show(view) == first

    def differs(change: Callable[[], object], back: Callable[[], object]) -> None:
        before = shown.picture()
        change()
        changed = shown.picture()
        assert changed != before, change
        back()
        assert shown.picture() != changed, back

    host = shown.host
    for other in (
        replace(view, cursor=600),  # the step cursor
        replace(view, marks=(*view.marks, Mark(300.0, "FR-II"))),
        grown(view, 200),
        replace(view, diverged=2000),
    ):
        differs(lambda other=other: host.show_view(other), lambda: host.show_view(view))
    differs(lambda: shown.steps.mark_step(400), shown.steps.clear_marks)
    settings = {"loss": ChartSettings(y_range=(0.5, 0.6))}
    differs(lambda: host.charts.apply_settings(settings), lambda: host.charts.replace_settings({}))
    differs(lambda: host.set_theme(DARK), lambda: host.set_theme(LIGHT))
    numbers = replace(LIGHT, numbers="1 234,5")
    differs(lambda: host.set_theme(numbers), lambda: host.set_theme(LIGHT))


def test_a_choice_a_pin_colours_and_b_change_the_picture(qtbot: QtBot, make_view: MakeView) -> None:
    view = make_view("soft")
    shown = Shown(qtbot, "gate_maps")
    first, host = shown.show(view), shown.host
    host.set_choice("layer", "1")
    assert shown.picture() != first
    host.set_choice("layer", "0")
    assert shown.picture() == first
    shown.linked._set_pinned(None, make_selection(layer=1))
    assert host.drawn.view.choices["layer"] == "1" or "layer" in host.drawn.choices
    shown.linked.unpin()
    assert shown.picture() == first
    host.charts.apply_settings({"large": ChartSettings(colours=ColourChoice(ramp="grey"))})
    assert shown.picture() != first
    host.charts.replace_settings({})
    assert shown.picture() == first
    overlap = Shown(qtbot, "overlap")
    alone, gates = overlap.show(view), view.readings["overlap"]
    turned = {name: np.ascontiguousarray(array[::-1]) for name, array in gates.arrays.items()}
    b = ComparedRun("b", view.regime, readings={"overlap": replace(gates, arrays=turned)})
    both = overlap.show(replace(view, compared=b))
    assert both != alone
    other = replace(b, readings={"overlap": gates})
    assert overlap.show(replace(view, compared=other)) != both


def test_words_of_the_state_and_the_numbers_of_facts_follow_an_unchanged_picture(
    qtbot: QtBot, make_view: MakeView, qapp: QApplication
) -> None:
    view = make_view("soft")
    shown = Shown(qtbot, "spectrum")
    shown.show(view)
    asked = shown.asked
    before = shown.host.grab().toImage()
    choose_numbers(qapp, "1 234,5")
    shown.host.set_theme(replace(LIGHT, numbers="1 234,5"))
    try:
        assert shown.host.grab().toImage() != before
    finally:
        choose_numbers(qapp, "")
    shown.host.show_view(view, every=3.0)
    assert "every 3 s" in shown.host.footer_text()
    shown.host.show_view(view, every=5.0)
    assert "every 5 s" in shown.host.footer_text()
    shown.host.show_view(replace(view, gaps={"npk": ((2, 4),)}), every=5.0)
    assert shown.asked == asked


# A dock that has shown a run, or a B, shows the next one as a dock does that has shown nothing.

OFTEN = ("gate_maps", "spectrum", "training", "agreement")
GROWS = ("gate_maps", "overlap", "ntk")  # the margins of a chart, for its widest numbers
AGAIN = [*OFTEN, *nightly(*(name for name in own(all_panels()) if name not in OFTEN))]


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
    words = (
        host.footer_text()
        if host.shown_content() is not None
        else " ".join(host.parts.message.displayed_text())
    )
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


@pytest.mark.parametrize("panel", AGAIN)
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
    assert deep_equal(lived.shown_content(), fresh.shown_content())
    for view in (without, first, without):
        lived.show_view(view)
    fresh.show_view(without)
    assert seen(lived)[1:] == seen(fresh)[1:]
    assert deep_equal(lived.shown_content(), fresh.shown_content())


@pytest.mark.parametrize("panel", AGAIN)
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
    first.charts.apply_settings({"loss": ChartSettings(y_range=(0.5, 0.6))})
    assert seen(first) != before[0]
    assert seen(second) == before[1]
    first.charts.replace_settings({})
    assert visible_range(first.charts.view, "loss") == visible_range(second.charts.view, "loss")
