"""The user's settings for the charts of one view, and the context menu of a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from dgn_engine.figures.export_values import can_copy_code, csv_text, numpy_code
from dgn_engine.figures.provenance import Provenance
from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_choices import (
    ChartChoice,
    DrawnScene,
    list_choices,
    settings_with_range,
)
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Chart, Scene
from dgn_engine.scene.matrix_difference import DrawnWith, no_other_choices
from dgn_engine.scene.typeset import strip_markup
from dgn_viewer.docks.range_popup import RangePopup
from dgn_viewer.style.chosen_numbers import with_chosen_numbers

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView

_MENUS = ("Range", "Smoothing", "Colours", "Difference")


@dataclass(frozen=True)
class _MenuEntry:
    """A menu entry that runs a command. `group`: its position among the separators."""

    group: int
    text: str
    do: Callable[[str], object]
    applies: Callable[[str], bool]


class ChartControls(QObject):
    """Scenes in a view, with the user's settings per chart, which outlive each scene.

    The view is created on first use, because importing pyqtgraph is slow. `changed` asks for a
    redraw with new settings. `save`, `animate` and `about` are the callbacks of the menu entries
    'Save as…', 'Save animation…' and 'About this panel', `describe` returns the origin of a scene
    for 'Copy as NumPy'; an entry without its callback is omitted.
    """

    changed = Signal()

    def __init__(
        self,
        parent: QWidget,
        make_view: Callable[[], SceneView],
        save: Callable[[], object] | None = None,
        about: Callable[[], object] | None = None,
        animate: Callable[[], object] | None = None,
        describe: Callable[[Scene], Provenance] | None = None,
    ) -> None:
        super().__init__(parent)
        self._make_view = make_view
        self._describe = describe
        self._made: SceneView | None = None
        # Keyed by chart, so that a chart that disappears and returns keeps its settings.
        self.settings: Mapping[str, ChartSettings] = {}
        self._scene = self._shown = Scene(())
        self._drawn_with: DrawnWith = no_other_choices
        self._find_others: Callable[[], Sequence[tuple[str, str]]] = tuple
        self._rows = (
            _MenuEntry(0, "Copy image", self._copy_image, lambda _: True),
            _MenuEntry(0, "Copy values", self._copy_values, lambda _: True),
            _MenuEntry(0, "Copy as NumPy", self._copy_code, self._can_copy_code),
            _MenuEntry(0, "Save as…", lambda _: save and save(), lambda _: save is not None),
            _MenuEntry(
                0, "Save animation…", lambda _: animate and animate(), lambda _: animate is not None
            ),
            _MenuEntry(
                2, "Reset zoom", lambda key: self.view.charts.follow_chart(key), self._is_zoomed
            ),
            _MenuEntry(
                2, "Reset to defaults", self._reset_settings, lambda key: key in self.settings
            ),
            _MenuEntry(
                3, "About this panel", lambda _: about and about(), lambda _: about is not None
            ),
        )

    @property
    def view(self) -> SceneView:
        """The view that shows the charts, created on first access."""
        if self._made is None:
            self._made = self._make_view()
            self._made.menu_wanted.connect(self.open_menu)
        return self._made

    @property
    def existing_view(self) -> SceneView | None:
        """The view if it was created already, else None."""
        return self._made

    def show_adjusted_scene(
        self,
        scene: Scene,
        drawn_with: DrawnWith = no_other_choices,
        find_others: Callable[[], Sequence[tuple[str, str]]] = tuple,
    ) -> Scene:
        """Apply the user's settings to a scene, show it, and return the result.

        Args:
            scene: The scene that the panel has drawn.
            drawn_with: Draws the panel with another value of one of its options.
            find_others: Returns the other values that the panel offers.
        """
        self._scene, self._drawn_with, self._find_others = scene, drawn_with, find_others
        self._shown = apply_chart_settings(scene, self.settings, drawn_with)
        self.view.show_scene(self._shown)
        return self._shown

    def painting_seconds(self) -> float:
        """Return the CPU time spent painting the charts so far, in seconds."""
        return self._made.painting_seconds() if self._made is not None else 0.0

    def replace_settings(self, settings: Mapping[str, ChartSettings]) -> None:
        """Apply these settings and reset every other chart to its defaults."""
        self.apply_settings(dict.fromkeys(self.settings, PLAIN) | dict(settings))

    def apply_settings(self, settings: Mapping[str, ChartSettings]) -> None:
        """Apply settings by chart key; other charts keep theirs."""
        if not settings:
            return
        merged = {**self.settings, **settings}
        self.settings = {
            key: settings_of_chart
            for key, settings_of_chart in merged.items()
            if settings_of_chart != PLAIN
        }
        for key in settings:
            if self._made is not None:
                self._made.charts.follow_chart(key)
        self.changed.emit()

    def open_menu(self, key: str = "", place: QPoint | None = None) -> None:
        """Open the menu of a chart, by default (from the keyboard) of the visible one."""
        by_keys = place is None
        if self._made is None:
            return
        key = key or self._made.visible_chart_key()
        chart = self._find_chart(key)
        if chart is None or not self._made.isVisible():
            return
        if by_keys:
            self.view.charts.choose_chart(key)  # it may be behind a tab
        position = place or self.view.mapToGlobal(
            self.view.charts.data_rect(key).center().toPoint()
        )
        menu = QMenu(self.view)
        menu.setObjectName("chart_menu")
        menu.setAccessibleName(f"Chart {strip_markup(chart.title)}")
        menu.aboutToHide.connect(menu.deleteLater)
        if by_keys:  # with the mouse it is clear which chart the menu belongs to
            menu.addAction(strip_markup(chart.title) or "Chart").setEnabled(False)
        self._fill_chart_menu(menu, key, position)
        if by_keys:
            self._offer_charts(menu, key)
        menu.popup(position)

    # Private

    def _find_chart(self, key: str) -> Chart | None:
        return next((chart for chart in self._shown.charts if chart.key == key), None)

    def _fill_chart_menu(self, menu: QMenu, key: str, at: QPoint) -> None:
        rows = [row for row in self._rows if row.applies(key)]
        drawn = DrawnScene(self._scene, self.settings, self._drawn_with, self._find_others())
        offered = list_choices(drawn, key)
        for group in range(4):
            if group == 1:
                for title in _MENUS:
                    inner_choices = [choice for choice in offered if choice.menu == title]
                    if inner_choices:
                        self._add_submenu(menu, title, inner_choices, key, at)
            for row in rows:
                if row.group == group:
                    menu.addAction(row.text, partial(row.do, key))
            menu.addSeparator()

    def _add_submenu(
        self, menu: QMenu, title: str, found: Sequence[ChartChoice], key: str, at: QPoint
    ) -> None:
        submenu = menu.addMenu(title)
        for _, group in groupby(found, key=lambda choice: choice.group):
            submenu.addSeparator()
            for choice in group:
                text = with_chosen_numbers(strip_markup(choice.text))
                action = QAction(text.replace("&", "&&"), submenu)
                action.setCheckable(True)
                action.setChecked(choice.chosen)
                action.triggered.connect(partial(self._apply_choice, choice, key, at))
                submenu.addAction(action)

    def _offer_charts(self, menu: QMenu, key: str) -> None:
        """List the panel's other charts, which the keyboard could not reach otherwise."""
        others = [chart for chart in self._shown.charts if chart.key != key and not chart.small]
        if others:
            submenu = menu.addMenu("Other charts")
            for chart in others:
                submenu.addAction(strip_markup(chart.title), partial(self.open_menu, chart.key))

    def _apply_choice(
        self, choice: ChartChoice, key: str, at: QPoint, _checked: bool = True
    ) -> None:
        if not choice.asks:
            self.apply_settings(choice.after)
            return
        chart = self._find_chart(key)
        if chart is None:
            return

        def apply_typed_range(limits: Range) -> None:
            self.apply_settings(settings_with_range(choice, limits))

        name = strip_markup(chart.title)
        if chart.matrix is not None:
            limits, log, title = (chart.matrix.low, chart.matrix.high), False, f"Colours of {name}"
        else:
            limits, log, title = chart_range(chart)[1], chart.y.log, f"{name}, y"
        window = self.view.window()
        for open_popup in window.findChildren(RangePopup):
            open_popup.close()
        RangePopup(title, limits, log, apply_typed_range, window).open_at(at)

    def _is_zoomed(self, key: str) -> bool:
        charts = self.view.charts
        return key in charts.shown_keys() and not charts.items[key].following

    def _reset_settings(self, key: str) -> None:
        self.apply_settings({key: PLAIN})

    def _copy_image(self, key: str) -> None:
        QGuiApplication.clipboard().setImage(self.view.grab_chart(key))

    def _copy_values(self, key: str) -> None:
        chart = self._find_chart(key)
        if chart is not None:
            QGuiApplication.clipboard().setText(csv_text(chart, between="\t"))

    def _can_copy_code(self, key: str) -> bool:
        chart = self._find_chart(key)
        return self._describe is not None and chart is not None and can_copy_code(chart)

    def _copy_code(self, key: str) -> None:
        """Copy Python code that makes the chart's arrays, with their origin as a comment."""
        if self._describe is not None:
            code = numpy_code(self._shown, key, self._describe(self._shown))
            QGuiApplication.clipboard().setText(code)
