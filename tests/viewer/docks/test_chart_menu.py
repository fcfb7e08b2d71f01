"""The menu of a chart: opened by the right button or the keyboard, its entries act on the chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.figures.export_values import scene_arrays
from dgn_engine.figures.provenance import make_provenance
from dgn_engine.protocol.experiments import Figure, PlottedLine
from dgn_engine.scene import ramps
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings
from dgn_engine.scene.elements import Chart, Scene
from dgn_engine.scene.matrix_difference import Subtrahend
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.docks.chart_controls import ChartControls
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.range_popup import RangePopup
from dgn_viewer.plots.scene_view import SceneView
from tests.snapshots import Recorded
from tests.viewer.seen_charts import colours_in, visible_range

MakeView = Callable[..., View]
MakeHost = Callable[[str], PanelDock]


@pytest.fixture
def make_host(qtbot: QtBot, make_view: MakeView) -> Iterator[MakeHost]:
    """A panel with something in it, in a window of its own."""

    def make(panel: str) -> PanelDock:
        window = QWidget()
        host = PanelDock(panel, all_panels()[panel], LIGHT)
        host.setParent(window)
        window.resize(900, 420)
        host.resize(900, 420)
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        host.show_view(make_view("hard"))
        hosts.append(window)
        return host

    hosts: list[QWidget] = []
    yield make
    _close_menu()


def _right_click(view: SceneView, place: QPoint) -> QMenu:
    QTest.mouseClick(view.chart_viewport(), Qt.MouseButton.RightButton, pos=place)
    return _menu()


def _on(host: PanelDock, key: str) -> QMenu:
    view = host.charts.view
    return _right_click(view, view.charts.data_rect(key).center().toPoint())


def _menu() -> QMenu:
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu), "there is no menu"
    assert menu.objectName() == "chart_menu"
    return menu


def _close_menu() -> None:
    while (menu := QApplication.activePopupWidget()) is not None:
        menu.close()
        QApplication.processEvents()


def _texts(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def _choose(menu: QMenu, *words: str) -> None:
    """Trigger an entry by its words, through its submenu, and close the menu."""
    for word in words:
        action = next(one for one in menu.actions() if one.text() == word)
        inner = action.menu()
        if isinstance(inner, QMenu):
            menu = inner
        else:
            action.trigger()
    _close_menu()


def _chart(host: PanelDock, key: str) -> Chart:
    shown = host.shown_content()
    assert isinstance(shown, Scene)
    return next(chart for chart in shown.charts if chart.key == key)


def test_the_right_button_opens_what_applies_to_the_chart(
    make_host: MakeHost, recorded: Recorded
) -> None:
    found = []
    for panel, key in (("training", "loss"), ("overlap", "active")):
        found.append(_texts(_on(make_host(panel), key)))
        _close_menu()
    recorded(found)


def test_a_right_drag_zooms_and_opens_nothing(make_host: MakeHost) -> None:
    host = make_host("training")
    view = host.charts.view
    place = view.charts.data_rect("loss").center().toPoint()
    canvas = view.chart_viewport()
    QTest.mousePress(canvas, Qt.MouseButton.RightButton, pos=place)
    QTest.mouseMove(canvas, place + QPoint(60, 30))
    QTest.mouseRelease(canvas, Qt.MouseButton.RightButton, pos=place + QPoint(60, 30))
    assert QApplication.activePopupWidget() is None


def test_outside_of_every_chart_there_is_no_menu(make_host: MakeHost) -> None:
    host = make_host("overlap")
    host.resize(1400, 260)  # squares leave room on both sides
    view = host.charts.view
    QApplication.processEvents()
    corners = [QPoint(x, y) for x in (1, view.width() - 1) for y in (1, view.height() - 1)]
    outside = [corner for corner in corners if not view.charts.chart_at(QPointF(corner))]
    assert outside
    for corner in outside:
        QTest.mouseClick(view.chart_viewport(), Qt.MouseButton.RightButton, pos=corner)
    assert QApplication.activePopupWidget() is None


def test_the_last_steps_are_chosen_and_taken_back(make_host: MakeHost) -> None:
    host = make_host("training")
    before = _texts(_on(host, "loss"))
    _choose(_menu(), "Range", "Last 200 steps")
    low, high = visible_range(host.charts.view, "loss")[0]
    assert high - low == 200
    assert _chart(host, "accuracy").x.limits != (low, high)  # each chart has its own
    (back,) = set(_texts(_on(host, "loss"))) - set(before)
    _choose(_menu(), back)
    assert visible_range(host.charts.view, "loss")[0][0] == 0
    assert host.charts.settings == {}


def test_a_chosen_range_takes_a_zoomed_chart_back(make_host: MakeHost) -> None:
    host = make_host("training")
    view = host.charts.view
    view.charts.items["loss"].field.sigRangeChangedManually.emit([True, True])  # as a wheel does
    assert not view.charts.items["loss"].following
    assert "Reset zoom" in _texts(_on(host, "loss"))
    _choose(_menu(), "Reset zoom")
    assert view.charts.items["loss"].following
    view.charts.items["loss"].field.sigRangeChangedManually.emit([True, True])
    _choose(_on(host, "loss"), "Range", "Logarithmic x")
    assert view.charts.items["loss"].following
    assert visible_range(view, "loss")[0][0] == 0.0  # step 1, as a power of ten


def test_smoothing_draws_one_more_line_over_a_pale_one_and_values_are_copied_in_full(
    make_host: MakeHost,
) -> None:
    host = make_host("training")
    before = len(_chart(host, "loss").curves)
    _choose(_on(host, "loss"), "Smoothing", "0.9")
    curves = _chart(host, "loss").curves
    assert len(curves) == 2 * before
    assert "Smoothing 0.9" in host.footer_text()
    assert "Smoothing" in _texts(_on(host, "loss"))
    _choose(_on(host, "loss"), "Copy values")
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "curve\tstep\tLoss (raw; shown smoothed 0.9)"
    series = host.drawn.view.series["training", "train_loss"]
    values = [line.split("\t") for line in lines if line.startswith("train\t")]
    assert [float(value[2]) for value in values] == series.values.tolist()


@pytest.mark.parametrize("name", ["overlap", "spectrum", "training", "gate_maps"])
def test_copied_code_makes_the_exported_arrays_bit_for_bit(make_host: MakeHost, name: str) -> None:
    host = make_host(name)
    shown = host.shown_content()
    assert isinstance(shown, Scene)
    view = host.drawn.view
    exported = scene_arrays(shown, make_provenance(view, host.spec, shown))
    for chart in shown.charts:
        if chart.small:
            continue
        _choose(_on(host, chart.key), "Copy as NumPy")
        code = QGuiApplication.clipboard().text()
        assert code.splitlines()[0] == f"# {make_provenance(view, host.spec, shown).caption}"
        names: dict[str, Any] = {}
        exec(code, names)
        arrays = names[chart.key]
        wanted = {key: value for key, value in exported.items() if key.startswith(f"{chart.key}.")}
        assert {f"{chart.key}.{key}" for key in arrays} == set(wanted)
        for key, array in arrays.items():
            expected = wanted[f"{chart.key}.{key}"]
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


def test_a_map_recolours_every_matrix_under_the_bar(make_host: MakeHost) -> None:
    host = make_host("overlap")
    host.set_choice("scale", "unit")
    _choose(_on(host, "active"), "Colours", "Grey")
    grey = {
        f"#{r:02X}{g:02X}{b:02X}" for r, g, b, _ in ramps.rgba_table("grey", LIGHT)[:-1].tolist()
    }
    for key in ("active", "sensitive"):
        view = host.charts.view
        inside = view.charts.data_rect(key).toRect().adjusted(3, 3, -3, -3)
        lines = {LIGHT.panel, LIGHT.line}
        assert colours_in(view.grab(inside).toImage(), 2) <= grey | lines


def test_a_difference_takes_the_place_of_the_matrix(make_host: MakeHost) -> None:
    host = make_host("overlap")
    active, sensitive = (_chart(host, key).matrix for key in ("active", "sensitive"))
    assert active is not None
    assert sensitive is not None
    _choose(_on(host, "active"), "Difference", "Active Λ − Sensitive S")
    matrix = _chart(host, "active").matrix
    assert matrix is not None
    np.testing.assert_allclose(matrix.values, active.values - sensitive.values)
    assert matrix.ramp == "diverging"
    assert "Active $Λ$ − Sensitive $S$: both unit diagonal." in host.footer_text().replace("$", "$")
    _choose(_on(host, "active"), "Difference", "None")
    assert host.charts.settings == {}


def test_the_overlaps_of_two_layers_are_subtracted(
    make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host("overlap")
    host.set_choice("part", "0")
    _choose(_on(host, "active"), "Difference", "Active τ_1 − Active τ_2")
    reading = host.drawn.view.readings["overlap"].arrays
    matrix = _chart(host, "active").matrix
    assert matrix is not None
    np.testing.assert_allclose(matrix.values, reading["active_0"] - reading["active_1"])


def _popup(host: PanelDock) -> RangePopup:
    return next(one for one in host.window().findChildren(RangePopup) if one.isVisible())


def test_a_fixed_range_is_typed_and_checked(make_host: MakeHost) -> None:
    host = make_host("training")
    _choose(_on(host, "loss"), "Range", "Set y range…")
    popup = _popup(host)
    assert host.isEnabled()  # nothing waits for it
    popup.low.setText("2")
    popup.high.setText("1")
    QTest.keyClick(popup.high, Qt.Key.Key_Return)
    assert popup.isVisible()
    assert popup.refusal.text().endswith(" 2.")
    assert host.window().rect().contains(popup.geometry())
    popup.high.selectAll()
    QTest.keyClicks(popup.high, "3.5")
    assert popup.refusal.text() == ""
    QTest.keyClick(popup.high, Qt.Key.Key_Return)
    assert not popup.isVisible()
    assert visible_range(host.charts.view, "loss")[1] == (2.0, 3.5)
    _choose(_on(host, "loss"), "Range", "Set y range…")
    again = _popup(host)
    assert (again.low.text(), again.high.text()) == ("2", "3.5")
    QTest.keyClick(again.low, Qt.Key.Key_Escape)
    assert not again.isVisible()
    assert host.charts.settings["loss"].y_range == (2.0, 3.5)


def test_one_range_is_asked_for_at_a_time(make_host: MakeHost) -> None:
    host = make_host("training")
    for key in ("loss", "accuracy"):
        _choose(_on(host, key), "Range", "Set y range…")
    open_ = [one for one in host.window().findChildren(RangePopup) if one.isVisible()]
    assert [one.accessibleName() for one in open_] == ["Accuracy, %, y"]
    open_[0].close()


def test_the_picture_that_is_copied_is_the_chart(make_host: MakeHost) -> None:
    host = make_host("overlap")
    view = host.charts.view
    _choose(_on(host, "active"), "Copy image")
    image = QGuiApplication.clipboard().image()
    area = view.charts.data_rect("active")
    assert area.width() < image.width() / image.devicePixelRatio() < area.width() + 200
    assert len(colours_in(image, 2)) > 20


def test_entries_ask_the_window_for_more(make_host: MakeHost, qtbot: QtBot) -> None:
    host = make_host("overlap")
    with qtbot.waitSignal(host.about_requested) as about:
        _choose(_on(host, "active"), "About this panel")
    with qtbot.waitSignal(host.export_requested) as export:
        _choose(_on(host, "active"), "Save as…")
    assert about.args == export.args == ["overlap"]


def test_the_keyboard_reaches_every_chart(make_host: MakeHost) -> None:
    host = make_host("overlap")
    key = QContextMenuEvent.Reason.Keyboard
    QApplication.sendEvent(host, QContextMenuEvent(key, QPoint(5, 5), QPoint(5, 5)))
    assert _menu().accessibleName() == "Chart Active Λ"
    assert _texts(_menu())[0] == "Active Λ"
    _choose(_menu(), "Other charts", "Sensitive S")
    host.charts.open_menu("sensitive")
    assert _menu().accessibleName() == "Chart Sensitive S"


def test_a_chart_behind_a_tab_comes_in_front_with_its_menu(make_host: MakeHost) -> None:
    host = make_host("training")
    host.resize(260, 220)
    view = host.charts.view
    assert view.charts.shown_keys() == ("loss",)
    host.charts.open_menu()
    _choose(_menu(), "Other charts", "Accuracy, %")
    assert view.charts.shown_keys() == ("accuracy",)
    host.charts.open_menu("accuracy")
    _choose(_menu(), "Copy image")
    image = QGuiApplication.clipboard().image()
    assert image.width() > view.charts.data_rect("accuracy").width()


def test_small_pictures_can_be_copied(make_host: MakeHost, make_view: MakeView) -> None:
    host = make_host("gate_maps")
    shown = host.shown_content()
    assert isinstance(shown, Scene)
    small = next(chart.key for chart in shown.charts if chart.small)
    row = host.charts.view.charts.thumbnails
    QTest.mouseClick(
        row, Qt.MouseButton.RightButton, pos=row.picture_rect(small).center().toPoint()
    )
    assert not {"Colours", "Difference"} & set(_texts(_menu()))
    _choose(_menu(), "Copy values")
    assert QGuiApplication.clipboard().text().startswith("example \\ unit\t")


def test_charts_of_results_have_the_menu_without_a_panel(qtbot: QtBot) -> None:
    view = SceneView(LIGHT)
    view.resize(500, 300)
    qtbot.addWidget(view)
    view.show()
    line = PlottedLine("a", (1.0, 2.0, 4.0), (1.0, 2.0, 3.0))
    controls = ChartControls(view, lambda: view)
    controls.show_adjusted_scene(scene_of((Figure("nu", "ν", "epoch", "ν", (line,)),)))
    menu = _right_click(view, view.charts.data_rect("nu").center().toPoint())
    assert _texts(menu) == ["Copy image", "Copy values", "Range"]
    _close_menu()


def test_settings_that_no_longer_fit_are_said_and_harmless(
    make_host: MakeHost, make_view: MakeView
) -> None:
    host = make_host("overlap")
    host.charts.apply_settings({"active": ChartSettings(minus=Subtrahend("gone"))})
    assert "Cannot subtract from" in host.footer_text()
    host.show_view(replace(make_view("absent"), regime="ReLU"))
    host.show_view(make_view("hard"))
    assert host.charts.settings == {"active": replace(PLAIN, minus=Subtrahend("gone"))}


def test_a_and_b_are_subtracted_under_comparison(
    make_host: MakeHost, make_view: MakeView, compared: Callable[[View], View]
) -> None:
    host = make_host("overlap")
    view = compared(make_view("hard"))
    host.show_view(view)
    _choose(_on(host, "active_0"), "Difference", "A − B · other.safetensors")
    matrix = _chart(host, "active_0").matrix
    assert matrix is not None
    assert view.compared is not None
    mine, theirs = view.readings["overlap"], view.compared.readings["overlap"]
    np.testing.assert_allclose(matrix.values, mine.arrays["active"] - theirs.arrays["active"])
