"""Files dropped on the window: the overlay while dragging, then the command of the zone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import OpenFile, Purpose
from dgn_engine.scene.file_use_text import USES
from dgn_engine.storage.session_file.archive_format import ENDING
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.shell.drop_zones import PROMISE, DropZones
from dgn_viewer.shell.window_context import WindowContext

CONFIGURATION = "Drop to start a new run with this configuration"
CONFIGURED = ".toml"
SESSION = "Drop to open this session"
_CURRENT = "If your current run is recorded, it stays in Recorded runs."
_GRACE_MS = 120  # time for the drag to pass from the window to the overlay
_DRAGS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
_EVERY: tuple[Purpose, ...] = tuple(zone.purpose for zone in USES)
_OF_RUNS: tuple[Purpose, ...] = ("compare",)


class DropTarget(QObject):
    """Accepts files dragged onto a window, and explains what cannot be opened.

    `configure(path)` starts a run from a configuration. `other_dropped`: something other than a
    checkpoint was dropped, so the page of an earlier checkpoint is out of date.
    """

    other_dropped = Signal()

    def __init__(self, context: WindowContext, configure: Callable[[Path], None]) -> None:
        super().__init__(context.window)
        window = context.window
        self._context = context
        self._configure = configure
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
            texts = _overlay_texts(event.mimeData())
            self.overlay.show_zones(*texts, whole=texts[0] in (SESSION, CONFIGURATION))
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
            path = dropped_file(data)
        except UserError as refusal:
            self.other_dropped.emit()
            self._context.notify_refusal(str(refusal), refusal.kind)
            return
        if path.is_dir() or path.suffix in (CONFIGURED, ENDING):
            self.other_dropped.emit()
        if path.suffix == CONFIGURED and not path.is_dir():
            self._configure(path)
        elif not path.is_dir():
            self._context.send(OpenFile(str(path), purpose))
        elif purpose in _OF_RUNS:
            self._context.send(CompareRun(str(path)))
        else:
            message = f"{path.name} is a recorded run; drop it on 'Compare'."
            self._context.notify_refusal(message, "wrong-zone")


def dropped_file(data: QMimeData) -> Path:
    """Return the local file, or run folder, of a drag.

    Raises:
        UserError: It is not exactly one local checkpoint, configuration, session or run folder.
    """
    urls = data.urls()
    if len(urls) != 1:
        message = f"{len(urls)} files at once; drop one at a time."
        raise UserError(message, kind="several", value=len(urls))
    if not urls[0].isLocalFile():
        url = urls[0].toDisplayString()
        message = f"{url} is not a local file; save it first, then drop it."
        raise UserError(message, kind="no-file", value=url)
    path = Path(urls[0].toLocalFile())
    if path.is_dir() and not (path / "run.json").is_file():
        message = f"{path.name} is a folder; drop a checkpoint file or a recorded run."
        raise UserError(message, kind="wrong-type", value=path.name)
    return path


def _overlay_texts(data: QMimeData) -> tuple[str, str, tuple[Purpose, ...]]:
    """Return headline and sentence of the overlay, and the zones that accept the file."""
    try:
        path = dropped_file(data)
    except UserError as refusal:
        return "Cannot open this", str(refusal), ()
    if path.is_dir():
        return f"{path.name} (recorded run)", "Drop to compare with this recorded run.", _OF_RUNS
    if path.suffix == CONFIGURED:
        return CONFIGURATION, f"{path.name}. {_CURRENT}", ()
    if path.suffix == ENDING:
        return SESSION, f"{path.name}. {_CURRENT}", ()
    return path.name, PROMISE, _EVERY
