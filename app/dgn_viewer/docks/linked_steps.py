"""Steps that all charts over steps share: delta cursor, clicks, one zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


class LinkedSteps(QObject):
    """The marks of the delta cursor (none, one or two steps) and whether zooms are linked.

    `changed`: other marks, or linked now; `wanted(step)`: a chart was clicked there.
    """

    changed = Signal()
    wanted = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: tuple[int, ...] = ()
        self.linked = False
        self._views: list[SceneView] = []

    def join(self, view: SceneView) -> None:
        self._views.append(view)
        view.step_clicked.connect(lambda step: self.wanted.emit(round(step)))
        view.step_marked.connect(lambda step: self.mark(round(step)))
        view.steps_zoomed.connect(self._zoom)
        view.steps_followed.connect(self._follow)

    def mark(self, step: int) -> None:
        """Mark this step; of two marks both go and this is the first of the next."""
        kept = self.marks if len(self.marks) == 1 else ()
        self.marks = (*kept, max(step, 0))
        self.changed.emit()

    def clear(self) -> None:
        if self.marks:
            self.marks = ()
            self.changed.emit()

    def toggle(self) -> None:
        """Let a zoom of one time axis be that of all, or of that chart alone."""
        self.linked = not self.linked
        self.changed.emit()

    def _zoom(self, low: float, high: float) -> None:
        for view in self._views if self.linked else ():
            view.zoom_steps(low, high)

    def _follow(self) -> None:
        for view in self._views if self.linked else ():
            view.follow_steps()
