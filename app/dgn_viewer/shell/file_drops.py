"""A file dropped on the window: its zones while dragging, then the command of the one it met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import OpenFile, Purpose
from dgn_engine.protocol.messages import Command
from dgn_engine.scene.file_use_text import USES
from dgn_engine.scene.theme import Theme
from dgn_engine.storage.session_file.archive_format import ENDING
from dgn_viewer.shell.drop_zones import PROMISE, DropZones

CONFIGURATION = "Drop to begin a new run with this configuration"
CONFIGURED = ".toml"
SESSION = "Drop to open this session"
_GRACE_MS = 120  # between the window losing the drag and the overlay receiving it
_DRAGS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)
_EVERY: tuple[Purpose, ...] = tuple(zone.purpose for zone in USES)
_OF_RUNS: tuple[Purpose, ...] = ("compare",)


class DropTarget(QObject):
    """Accepts drags of files on a window; `refuse` is told, in a sentence, what cannot be taken.

    `configure(path)` begins a new run with a configuration. `other_dropped`: something else than a
    checkpoint was dropped; the page of one that was dropped before is out of date.
    """

    other_dropped = Signal()

    def __init__(
        self,
        window: QWidget,
        send: Callable[[Command], None],
        refuse: Callable[[str], None] | None = None,
        configure: Callable[[Path], None] | None = None,
    ) -> None:
        super().__init__(window)
        self._send = send
        self._refuse = refuse or (lambda _text: None)
        self._configure = configure or (lambda _path: None)
        self._window = window
        self.overlay = DropZones(window)
        self._leaving = QTimer(self)
        self._leaving.setSingleShot(True)
        self._leaving.setInterval(_GRACE_MS)
        self._leaving.timeout.connect(self.overlay.hide)
        window.setAcceptDrops(True)
        window.installEventFilter(self)
        self.overlay.installEventFilter(self)

    def set_theme(self, theme: Theme) -> None:
        self.overlay.set_theme(theme)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Drags on the window, and on the overlay that then covers it."""
        kind = event.type()
        if kind == QEvent.Type.Resize and watched is self._window:
            self.overlay.setGeometry(self._window.rect())
        elif kind == QEvent.Type.DragLeave and self.overlay.isVisible():
            self._leaving.start()
            return True
        elif kind in _DRAGS and isinstance(event, QDropEvent) and event.mimeData().hasUrls():
            self._take(kind, event)
            return True
        return False

    def _take(self, kind: QEvent.Type, event: QDropEvent) -> None:
        """The overlay lies exactly over the window, so that both have the same coordinates."""
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

    def _drop(self, data: QMimeData, purpose: Purpose) -> None:
        try:
            path = dropped_file(data)
        except UserError as refusal:
            self.other_dropped.emit()
            self._refuse(str(refusal))
            return
        if path.is_dir() or path.suffix in (CONFIGURED, ENDING):
            self.other_dropped.emit()
        if path.suffix == CONFIGURED and not path.is_dir():
            self._configure(path)
        elif not path.is_dir():
            self._send(OpenFile(str(path), purpose))
        elif purpose in _OF_RUNS:
            self._send(CompareRun(str(path)))
        else:
            self._refuse(f"{path.name} is a recorded run: drop it on 'Compare'.")


def dropped_file(data: QMimeData) -> Path:
    """The one local file, or run folder, of a drag; raises `UserError` where it is not one."""
    urls = data.urls()
    if len(urls) != 1:
        raise UserError(f"{len(urls)} files at once: drop one checkpoint at a time.")
    if not urls[0].isLocalFile():
        place = urls[0].toDisplayString()
        raise UserError(f"{place} is not a file on this computer: save it first, then drop it.")
    path = Path(urls[0].toLocalFile())
    if path.is_dir() and not (path / "run.json").is_file():
        raise UserError(f"{path.name} is a folder: drop one checkpoint file, or a recorded run.")
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
