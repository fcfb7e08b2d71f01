"""The probe examples under the cursor of one panel, lit in all of them; a click pins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView


class LinkedExamples(QObject):
    """One or two places in the probe set that every joined view outlines.

    While they are `pinned` the cursor changes nothing; `unpin`, or another pin, does.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lit: tuple[int, ...] = ()
        self.pinned = False
        self._views: list[SceneView] = []

    def join(self, view: SceneView) -> None:
        self._views.append(view)
        view.examples.pointed.connect(self._point)
        view.examples.pinned.connect(lambda places: self._pin(view, places))
        view.examples.light(self.lit)

    def show(self, places: tuple[int, ...]) -> None:
        """Outline these until a cursor is on others."""
        self._point(places)

    def unpin(self) -> bool:
        """Let the cursor choose again; whether anything was pinned."""
        if not self.pinned:
            return False
        self._pin(None, ())
        return True

    def _point(self, places: tuple[int, ...]) -> None:
        if not self.pinned and places != self.lit:
            self._light(places)

    def _pin(self, source: SceneView | None, places: tuple[int, ...]) -> None:
        """The places that `source` has pinned; () where it has let them go."""
        self.pinned = bool(places)
        self._light(places)
        for view in self._views:
            if view is not source or not places:
                view.let_go()

    def _light(self, places: tuple[int, ...]) -> None:
        self.lit = places
        for view in self._views:
            view.examples.light(places)
