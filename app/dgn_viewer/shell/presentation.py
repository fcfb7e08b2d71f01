"""Presentation: three large panels, type and controls at 150 %, nothing that the audience need not
read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QEvent, QObject, QSize, QTimer
from PySide6.QtWidgets import QAbstractButton, QApplication, QToolBar
from shiboken6 import isValid

from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.layout_presets import LayoutPreset, preset_tree
from dgn_viewer.docks.panel_docks import PanelDocks, SavedArrangement
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.rail.rail_bar import RailBar
from dgn_viewer.shell.run_views import RunViews
from dgn_viewer.shell.window_context import WindowContext

SCALE = 1.5
LAYOUT = LayoutPreset(
    "Presentation",
    "Gates, overlap and training, large",
    ((52, (("gate_maps",),)), (48, (("training",), ("overlap",)))),
)


class Presentation(QObject):
    """Shows the window to an audience, and restores it afterwards.

    `views`: returns the bars of the window, once they exist.
    """

    def __init__(
        self,
        context: WindowContext,
        docks: PanelDocks,
        panels: Mapping[str, PanelSpec],
        views: Callable[[], RunViews],
        runs: RailBar,
        results: ResultsDock,
    ) -> None:
        super().__init__(context.window)
        self._theme, self._window = context.theme, context.window
        self._docks, self._panels, self._views = docks, panels, views
        self._runs, self._results = runs, results
        self._had_results = False
        self._before: SavedArrangement | None = None
        self._icons: dict[QAbstractButton | QToolBar, QSize] = {}  # sizes before

    @property
    def is_on(self) -> bool:
        return self._before is not None

    def toggle(self) -> None:
        if self.is_on:
            self.leave()
        else:
            self._enter()

    def leave(self) -> None:
        """Restore layout, type and bars; do nothing if nothing is presented."""
        if self._before is None:
            return
        before, self._before = self._before, None
        self._docks.arrangement.restore_panels()
        self._show_bars(brief=False)
        for part, size in self._icons.items():
            if isValid(part):  # a page may have been closed meanwhile
                part.setIconSize(size)
        self._icons.clear()
        self._theme.set_scale(1.0)
        self._runs.come_back()
        if self._had_results:
            self._results.show()
        self._settle_bars()
        self._docks.arrangement.restore_saved(before)
        # Again once the bars have their height: docks that were squeezed by them would stay so.
        QTimer.singleShot(0, self, lambda: self._restore_sizes(before))

    def _settle_bars(self) -> None:
        """Give the bars their new height now: it is the docks that have the rest."""
        for _ in range(2):  # inner layouts first, then the window's
            QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        self._docks.arrangement.sizes.activate_layout()

    def _restore_sizes(self, before: SavedArrangement) -> None:
        if not self.is_on and self._window.isVisible():
            self._docks.arrangement.restore_saved(before)

    def _enter(self) -> None:
        arrangement = self._docks.arrangement
        arrangement.restore_panels()
        self._before = arrangement.saved()
        self._had_results = not (self._results.isHidden() or self._results.isFloating())
        self._runs.give_way(self._window.width())
        if self._had_results:
            self._results.hide()
        self._show_bars(brief=True)
        self._theme.set_scale(SCALE)
        buttons = self._window.findChildren(QAbstractButton)
        parts: list[QAbstractButton | QToolBar] = [*buttons, *self._window.findChildren(QToolBar)]
        for part in parts:
            self._icons[part] = part.iconSize()
            part.setIconSize(part.iconSize() * SCALE)
        self._settle_bars()
        height = arrangement.docks_height() / SCALE
        names = [name for _, groups in LAYOUT.columns for group in groups for name in group]
        tree = preset_tree(LAYOUT, self._panels, names, height)
        arrangement.restore_layout({"tree": tree, "floating": {}})

    def _show_bars(self, brief: bool) -> None:
        views = self._views()
        views.status.set_quiet(brief)
        views.toolbar.set_brief(brief)
