"""State shared by all time axes: the delta cursor, double clicks, and the linked zoom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


Steps = tuple[float, float] | None  # range shown by a chart; None: all steps
_OfCharts = tuple[dict[str, Steps], ...]  # one dict per view, by chart key


@dataclass(frozen=True)
class StepZoom:
    """The zoom of the time axes.

    If `linked`, all of them show `steps`. While `steps` is None, each shows its range from `own`,
    taken when the axes were last linked or unlinked; a chart missing in `own` shows all steps.
    """

    linked: bool = False
    steps: Steps = None
    own: _OfCharts | None = None  # None: the axes were never linked


class LinkedSteps(QObject):
    """The marks of the delta cursor (zero, one or two steps) and the linked zoom.

    Signals: `changed` for the marks and the link, `zoomed` for the linked range, and `wanted(step)`
    when a chart is double-clicked.
    """

    changed = Signal()
    zoomed = Signal()
    wanted = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: tuple[int, ...] = ()
        self.zoom = StepZoom()
        self._views: list[SceneView] = []
        self._run: object = None
        self._first: _OfCharts = ()  # the ranges before the axes were first linked

    def link_view(self, view: SceneView) -> None:
        self._views.append(view)
        view.steps.linked_range = lambda: self.zoom.steps
        view.step_wanted.connect(lambda step: self.wanted.emit(round(step)))
        view.step_marked.connect(lambda step: self.mark_step(round(step)))
        view.steps_zoomed.connect(lambda low, high: self._share_zoom((low, high)))
        view.steps_followed.connect(self.show_all_steps)

    def track_run(self, run: object) -> None:
        """Show all steps if this is another run: a zoom makes no sense for its steps."""
        if run is not self._run:
            self._run = run
            self.show_all_steps()

    def mark_step(self, step: int) -> None:
        """Add a mark; if there are two already, start over with this one."""
        first_mark = self.marks if len(self.marks) == 1 else ()
        self.marks = (*first_mark, max(step, 0))
        self.changed.emit()

    def clear_marks(self) -> None:
        if self.marks:
            self.marks = ()
            self.changed.emit()

    @property
    def is_linked(self) -> bool:
        return self.zoom.linked

    def toggle_link(self) -> None:
        """Link or unlink the zoom of the time axes."""
        ranges = tuple(view.steps.shown_ranges() for view in self._views)
        if self.zoom.own is None:
            self._first = ranges
        self.zoom = StepZoom(not self.is_linked, own=ranges)
        self.changed.emit()

    def show_all_steps(self) -> None:
        """Show all steps in all charts, if the axes are linked."""
        self._share_zoom(None)

    def restore_zoom(self, zoom: StepZoom) -> None:
        """Restore an earlier `StepZoom`."""
        before, self.zoom = self.zoom, zoom
        followed = zoom.linked and before.linked and zoom.own != before.own
        if zoom.steps != before.steps or followed:
            self._apply_zoom()
        if zoom != before:
            self.changed.emit()

    def _share_zoom(self, steps: Steps) -> None:
        """Apply the zoom of one chart to all, if the axes are linked."""
        if self.is_linked:
            self.zoom = StepZoom(True, steps, ())
            self._apply_zoom()
            self.zoomed.emit()

    def _apply_zoom(self) -> None:
        own = self._first if self.zoom.own is None else self.zoom.own
        for index, view in enumerate(self._views):
            if self.zoom.steps is not None:
                view.steps.zoom_steps(*self.zoom.steps)
            else:
                view.steps.restore_ranges(own[index] if index < len(own) else {})
