"""What is under the cursor of one panel, lit in all of them; a click pins it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from dgn_engine.scene.selection import NOTHING, Selection, selected

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


class LinkedSelection(QObject):
    """The selection that every joined view outlines: what is pinned and, of other kinds, what is
    under the cursor. `unpin`, or another pin, changes what is pinned; `changed`: it has.
    `lighted(Selection)`: that is outlined now.
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

    def show(self, places: tuple[int, ...]) -> None:
        """Outline these probe examples until a cursor is on others."""
        self._point(selected(example=places))

    def unpin(self) -> bool:
        """Let the cursor choose again; whether anything was pinned."""
        if self.pinned == NOTHING:
            return False
        self._pin(None, NOTHING)
        return True

    def _point(self, selection: Selection) -> None:
        self._light(self.pinned.over(selection))

    def _pin(self, source: SceneView | None, selection: Selection) -> None:
        """What `source` has pinned; nothing where it has let go."""
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
