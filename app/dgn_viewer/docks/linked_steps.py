"""Steps that all charts over steps share: delta cursor, double clicks, one zoom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


Steps = tuple[float, float] | None  # that a chart shows; None: all of them
_OfCharts = tuple[dict[str, Steps], ...]  # a view each; of charts by their keys


@dataclass(frozen=True)
class StepZoom:
    """Whether the zoom of one time axis is that of all, and the steps that they then show; None:
    each its own, as they were when the zooms were linked or parted; a chart not in `own`: all."""

    linked: bool = False
    steps: Steps = None
    own: _OfCharts | None = None  # None: nobody has linked anything yet


class LinkedSteps(QObject):
    """The marks of the delta cursor (none, one or two steps) and the zoom that charts share.

    `changed`: other marks, or linked now; `zoomed`: other steps are shown by all; `wanted(step)`: a
    chart was double-clicked there.
    """

    changed = Signal()
    zoomed = Signal()
    wanted = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: tuple[int, ...] = ()
        self.zoom = StepZoom()
        self._views: list[SceneView] = []
        self._first: _OfCharts = ()  # what was shown when zooms were linked for the first time

    def join(self, view: SceneView) -> None:
        self._views.append(view)
        view.step_wanted.connect(lambda step: self.wanted.emit(round(step)))
        view.step_marked.connect(lambda step: self.mark(round(step)))
        view.steps_zoomed.connect(lambda low, high: self._go((low, high)))
        view.steps_followed.connect(self.follow)

    def mark(self, step: int) -> None:
        """Mark this step; of two marks both go and this is the first of the next."""
        kept = self.marks if len(self.marks) == 1 else ()
        self.marks = (*kept, max(step, 0))
        self.changed.emit()

    def clear(self) -> None:
        if self.marks:
            self.marks = ()
            self.changed.emit()

    @property
    def linked(self) -> bool:
        return self.zoom.linked

    def toggle(self) -> None:
        """Let a zoom of one time axis be that of all, or of that chart alone."""
        shown = tuple(view.steps.shown() for view in self._views)
        if self.zoom.own is None:
            self._first = shown
        self.zoom = StepZoom(not self.linked, own=shown)
        self.changed.emit()

    def follow(self) -> None:
        """Show all steps in all charts, where they are linked."""
        self._go(None)

    def put(self, zoom: StepZoom) -> None:
        """Link or part the zooms and show these steps, as it was once."""
        before, self.zoom = self.zoom, zoom
        followed = zoom.linked and before.linked and zoom.own != before.own
        if zoom.steps != before.steps or followed:
            self._show()
        if zoom != before:
            self.changed.emit()

    def _go(self, steps: Steps) -> None:
        """One chart was zoomed by hand."""
        if self.linked:
            self.zoom = StepZoom(True, steps, ())
            self._show()
            self.zoomed.emit()

    def _show(self) -> None:
        own = self._first if self.zoom.own is None else self.zoom.own
        for place, view in enumerate(self._views):
            if self.zoom.steps is not None:
                view.steps.zoom(*self.zoom.steps)
            else:
                view.steps.put(own[place] if place < len(own) else {})
