"""Files dropped on the window: the overlay while dragging, then the command of the zone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import Purpose
from dgn_engine.scene.file_use_text import USES
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.shell.drop_zones import PROMISE, DropZones
from dgn_viewer.shell.opened_paths import PathKind, path_kind, run_folder
from dgn_viewer.shell.window_context import WindowContext

HEADLINES: dict[PathKind, str] = {  # over the whole window
    "configuration": "Drop to start a new run with this configuration",
    "session": "Drop to open this session",
    "result": "Drop to show this result",
    "images": "Drop to train on these images",
}
ALONE = "Drop to open this network on its own"  # while nothing is shown that could use it
SHOWN = "Drop to show this recorded run"
_WHOLE = (*HEADLINES.values(), ALONE, SHOWN)
RUN_DROPPED = "Drop to show this recorded run, or on 'Compare' to compare with it."
_CURRENT = "If your current run is recorded, it stays in Recorded runs."
_GRACE_MS = 120  # time for the drag to pass from the window to the overlay
_DRAGS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
_EVERY: tuple[Purpose, ...] = tuple(zone.purpose for zone in USES)
_OF_RUNS: tuple[Purpose, ...] = ("compare",)


class DropTarget(QObject):
    """Accepts files dragged onto a window, and explains what cannot be opened.

    `other_dropped`: something other than a checkpoint was dropped, so the page of an earlier
    checkpoint is out of date.
    """

    other_dropped = Signal()

    def __init__(self, context: WindowContext, open_path: Callable[[Path, Purpose], None]) -> None:
        """`open_path` opens a file or folder; a checkpoint for this purpose."""
        super().__init__(context.window)
        window = context.window
        self._context = context
        self._open_path = open_path
        self.overlay = DropZones(window)
        self._leaving = QTimer(self, singleShot=True, interval=_GRACE_MS)
        self._leaving.timeout.connect(self.overlay.hide)
        context.theme.changed.connect(self.overlay.set_theme)
        window.setAcceptDrops(True)
        EventFilter(self, {QEvent.Type.Resize: lambda _event: self._resize_overlay()}, window)
        drags = dict.fromkeys(_DRAGS, self._on_drag) | {QEvent.Type.DragLeave: self._on_leave}
        EventFilter(self, drags, window, self.overlay)

    def _resize_overlay(self) -> None:
        self.overlay.setGeometry(self._context.window.rect())

    def _on_leave(self, _event: QEvent) -> bool:
        """Hide the overlay after a delay: the drag may only have moved onto it."""
        if self.overlay.isVisible():
            self._leaving.start()
            return True
        return False

    def _on_drag(self, event: QDropEvent) -> bool:
        """Handle a drag; overlay and window have the same coordinates."""
        if not event.mimeData().hasUrls():
            return False
        kind = event.type()
        self._leaving.stop()
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        at = event.position().toPoint()
        if kind == QEvent.Type.DragEnter:
            texts = _overlay_texts(event.mimeData(), self._context.run_state().shows_nothing)
            self.overlay.show_zones(*texts, whole=texts[0] in _WHOLE)
            self.overlay.highlight_at(at)
        elif kind == QEvent.Type.DragMove:
            self.overlay.highlight_at(at)
        else:
            purpose = self.overlay.purpose_at(at)
            self.overlay.hide()
            self._handle_drop(event.mimeData(), purpose)
        return True

    def _handle_drop(self, data: QMimeData, purpose: Purpose) -> None:
        try:
            path = dropped_path(data)
            kind = path_kind(path)
        except UserError as refusal:
            self.other_dropped.emit()
            self._context.notify_refusal(str(refusal), refusal.kind)
            return
        if kind != "checkpoint":
            self.other_dropped.emit()
        if kind == "run" and purpose == "compare":
            self._context.send(CompareRun(str(run_folder(path))))
        else:
            self._open_path(path, purpose)


def dropped_path(data: QMimeData) -> Path:
    """Return the local file or folder of a drag.

    Raises:
        UserError: It is not exactly one, or not on this machine.
    """
    urls = data.urls()
    if len(urls) != 1:
        message = f"{len(urls)} files at once; drop one at a time."
        raise UserError(message, kind="several", value=len(urls))
    if not urls[0].isLocalFile():
        url = urls[0].toDisplayString()
        message = f"{url} is not a local file; save it first, then drop it."
        raise UserError(message, kind="no-file", value=url)
    return Path(urls[0].toLocalFile())


def _overlay_texts(data: QMimeData, alone: bool) -> tuple[str, str, tuple[Purpose, ...]]:
    """Return headline and sentence of the overlay, and the zones that accept the file.

    `alone`: no run or network is shown that a file could be used for.
    """
    try:
        path = dropped_path(data)
        kind = path_kind(path)
    except UserError as refusal:
        return "Cannot open this", str(refusal), ()
    if kind == "checkpoint":
        return (ALONE, path.name, ()) if alone else (path.name, PROMISE, _EVERY)
    if kind == "run" and alone:
        return SHOWN, path.name, ()
    if kind == "run":
        return f"{path.name} (recorded run)", RUN_DROPPED, _OF_RUNS
    return HEADLINES[kind], path.name if kind == "result" else f"{path.name}. {_CURRENT}", ()
