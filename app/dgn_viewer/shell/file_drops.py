"""A file dropped on the window: its zones while dragging, then the command of the one it met."""

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

CONFIGURATION = "Drop to begin a new run with this configuration"
CONFIGURED = ".toml"
SESSION = "Drop to open this session"
_GRACE_MS = 120  # between the window losing the drag and the overlay receiving it
_DRAGS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
_EVERY: tuple[Purpose, ...] = tuple(zone.purpose for zone in USES)
_OF_RUNS: tuple[Purpose, ...] = ("compare",)


class DropTarget(QObject):
    """Accepts drags of files on a window, and says what cannot be taken.

    `configure(path)` begins a new run with a configuration. `other_dropped`: something else than a
    checkpoint was dropped; the page of one that was dropped before is out of date.
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
        EventFilter(self, {QEvent.Type.Resize: lambda _event: self._cover()}, window)
        drags = dict.fromkeys(_DRAGS, self._on_drag) | {QEvent.Type.DragLeave: self._on_leave}
        EventFilter(self, drags, window, self.overlay)

    def _cover(self) -> None:
        self.overlay.setGeometry(self._context.window.rect())

    def _on_leave(self, _event: QEvent) -> bool:
        """The drag leaves the window, or only goes over to the overlay that covers it."""
        if self.overlay.isVisible():
            self._leaving.start()
            return True
        return False

    def _on_drag(self, event: QDropEvent) -> bool:
        """The overlay lies exactly over the window, so that both have the same coordinates."""
        if not event.mimeData().hasUrls():
            return False
        kind = event.type()
        self._leaving.stop()
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        at = event.position().toPoint()
        if kind == QEvent.Type.DragEnter:
            words = _words(event.mimeData())
            self.overlay.appear(*words, whole=words[0] in (SESSION, CONFIGURATION))
            self.overlay.light(at)
        elif kind == QEvent.Type.DragMove:
            self.overlay.light(at)
        else:
            purpose = self.overlay.purpose_at(at)
            self.overlay.hide()
            self._drop(event.mimeData(), purpose)
        return True

    def _drop(self, data: QMimeData, purpose: Purpose) -> None:
        try:
            path = dropped_file(data)
        except UserError as refusal:
            self.other_dropped.emit()
            self._context.refuse(str(refusal), refusal.kind)
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
            words = f"{path.name} is a recorded run: drop it on 'Compare'."
            self._context.refuse(words, "wrong-zone")


def dropped_file(data: QMimeData) -> Path:
    """The one local file, or run folder, of a drag; raises `UserError` where it is not one."""
    urls = data.urls()
    if len(urls) != 1:
        words = f"{len(urls)} files at once: drop one checkpoint at a time."
        raise UserError(words, kind="several", value=len(urls))
    if not urls[0].isLocalFile():
        place = urls[0].toDisplayString()
        words = f"{place} is not a file on this computer: save it first, then drop it."
        raise UserError(words, kind="no-file", value=place)
    path = Path(urls[0].toLocalFile())
    if path.is_dir() and not (path / "run.json").is_file():
        words = f"{path.name} is a folder: drop one checkpoint file, or a recorded run."
        raise UserError(words, kind="wrong-type", value=path.name)
    return path


def _words(data: QMimeData) -> tuple[str, str, tuple[Purpose, ...]]:
    """What the overlay says, and which zones are open."""
    try:
        path = dropped_file(data)
    except UserError as refusal:
        return "This cannot be taken", str(refusal), ()
    if path.is_dir():
        return f"{path.name} (recorded run)", "A recorded run can be compared with.", _OF_RUNS
    if path.suffix == CONFIGURED:
        return CONFIGURATION, f"{path.name}. A run that is recorded is not lost by it.", ()
    if path.suffix == ENDING:
        return SESSION, f"{path.name}. A run that is recorded is not lost by it.", ()
    return path.name, PROMISE, _EVERY
