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
        self._run: object = None
        self._pictures: object = None
        self._views: list[SceneView] = []

    def link_view(self, view: SceneView) -> None:
        self._views.append(view)
        view.links.pointed.connect(self._on_pointed)
        view.links.pinned.connect(lambda selection: self._set_pinned(view, selection))
        view.links.outline_selection(self.lit)

    def outline_examples(self, examples: tuple[int, ...]) -> None:
        """Outline these probe examples until the cursor moves to others."""
        self._on_pointed(make_selection(example=examples))

    def track_run(self, run: object, pictures: object) -> None:
        """Unpin if this is another run or there are other examples: indices mean others now."""
        if run is not self._run or pictures is not self._pictures:
            self._run, self._pictures = run, pictures
            self.unpin()

    def unpin(self) -> bool:
        """Clear the pin; return whether anything was pinned."""
        if self.pinned == NOTHING:
            return False
        self._set_pinned(None, NOTHING)
        return True

    def _on_pointed(self, selection: Selection) -> None:
        self._outline_selection(self.pinned.merged_over(selection))

    def _set_pinned(self, source: SceneView | None, selection: Selection) -> None:
        """Pin the selection that was clicked in `source`; `NOTHING` unpins."""
        changed, self.pinned = self.pinned != selection, selection
        self._outline_selection(selection)
        for view in self._views:
            if view is not source or selection == NOTHING:
                view.pointer.clear_pin()
        if changed:
            self.changed.emit()

    def _outline_selection(self, selection: Selection) -> None:
        if selection == self.lit:
            return
        self.lit = selection
        for view in self._views:
            view.links.outline_selection(selection)
        self.lighted.emit(selection)
