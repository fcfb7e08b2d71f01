"""Steps that all charts over steps share: delta cursor, clicks, one zoom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


@dataclass(frozen=True)
class StepZoom:
    """Whether the zoom of one time axis is that of all, and the steps that they then show; None:
    all of them."""

    linked: bool = False
    steps: tuple[float, float] | None = None


class LinkedSteps(QObject):
    """The marks of the delta cursor (none, one or two steps) and the zoom that charts share.

    `changed`: other marks, or linked now; `zoomed`: other steps are shown by all; `wanted(step)`: a
    chart was clicked there.
    """

    changed = Signal()
    zoomed = Signal()
    wanted = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: tuple[int, ...] = ()
        self.zoom = StepZoom()
        self._views: list[SceneView] = []

    def join(self, view: SceneView) -> None:
        self._views.append(view)
        view.step_clicked.connect(lambda step: self.wanted.emit(round(step)))
        view.step_marked.connect(lambda step: self.mark(round(step)))
        view.steps_zoomed.connect(self._zoom)
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
        self.zoom = StepZoom(not self.linked)
        self.changed.emit()

    def follow(self) -> None:
        """Show all steps in all charts, where they are linked."""
        self._go(None)

    def put(self, zoom: StepZoom) -> None:
        """Link or part the zooms and show these steps, as it was once."""
        before, self.zoom = self.zoom, zoom
        if zoom.steps != before.steps:
            self._show()
        if zoom != before:
            self.changed.emit()

    def _zoom(self, low: float, high: float) -> None:
        self._go((low, high))

    def _go(self, steps: tuple[float, float] | None) -> None:
        """One chart was zoomed by hand."""
        if self.linked:
            self.zoom = StepZoom(True, steps)
            self._show()
            self.zoomed.emit()

    def _show(self) -> None:
        for view in self._views:
            if self.zoom.steps is None:
                view.follow_steps()
            else:
                view.zoom_steps(*self.zoom.steps)
