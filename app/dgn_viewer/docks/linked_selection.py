"""The selection under the cursor, outlined in all panels; a click pins it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from dgn_engine.scene.selection import NOTHING, Selection, make_selection

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


class LinkedSelection(QObject):
    """The selection that all linked views outline.

    It consists of the pinned selection plus, for other kinds of subjects, the one under the cursor.
    Signals: `changed` after pinning or unpinning, `lighted(Selection)` when the outlines change.
    """

    changed = Signal()
    lighted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lit = NOTHING
        self.pinned = NOTHING
        self._views: list[SceneView] = []

    def join(self, view: SceneView) -> None:
        self._views.append(view)
        view.links.pointed.connect(self._point)
        view.links.pinned.connect(lambda selection: self._pin(view, selection))
        view.links.light(self.lit)

    def show(self, examples: tuple[int, ...]) -> None:
        """Outline these probe examples until the cursor moves to others."""
        self._point(make_selection(example=examples))

    def unpin(self) -> bool:
        """Clear the pin; return whether anything was pinned."""
        if self.pinned == NOTHING:
            return False
        self._pin(None, NOTHING)
        return True

    def _point(self, selection: Selection) -> None:
        self._light(self.pinned.merged_over(selection))

    def _pin(self, source: SceneView | None, selection: Selection) -> None:
        """Pin the selection that was clicked in `source`; `NOTHING` unpins."""
        changed, self.pinned = self.pinned != selection, selection
        self._light(selection)
        for view in self._views:
            if view is not source or selection == NOTHING:
                view.pointer.let_go()
        if changed:
            self.changed.emit()

    def _light(self, selection: Selection) -> None:
        if selection == self.lit:
            return
        self.lit = selection
        for view in self._views:
            view.links.light(selection)
        self.lighted.emit(selection)
