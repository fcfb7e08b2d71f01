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
from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Matrix, Scene
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from dgn_engine.scene.selection import selected
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.plots import arranged_charts
from dgn_viewer.style.chosen_numbers import choose_numbers
from tests.plugins import each

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
    scene, asked = shown.host.shown(), shown.asked
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
        patched.setattr(arranged_charts, "same", count)
        shown.host.show_view(replace(again, paused=True, trains=False))
    assert (shown.asked, compared) == (asked, [])
    assert shown.host.shown() is scene
    assert shown.host.footer().startswith("paused")
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
    differs(lambda: shown.steps.mark(400), shown.steps.clear)
    settings = {"loss": ChartSettings(y_range=(0.5, 0.6))}
    differs(lambda: host.charts.put(settings), lambda: host.charts.put_all({}))
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
    shown.linked._pin(None, selected(layer=1))
    assert host.drawn.view.choices["layer"] == "1" or "layer" in host.drawn.choices
    shown.linked.unpin()
    assert shown.picture() == first
    host.charts.put({"large": ChartSettings(colours=ColourChoice(ramp="grey"))})
    assert shown.picture() != first
    host.charts.put_all({})
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
    assert "every 3 s" in shown.host.footer()
    shown.host.show_view(view, every=5.0)
    assert "every 5 s" in shown.host.footer()
    shown.host.show_view(replace(view, gaps={"npk": ((2, 4),)}), every=5.0)
    assert shown.asked == asked
