"""A file dropped anywhere on the window: a full-window target while dragging, then `OpenFile`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QDropEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from dgn_engine.protocol.commands import Command, OpenFile
from dgn_engine.refusal import Refusal
from dgn_viewer.style import font, icon
from dgn_viewer.theme import LIGHT, Theme

MEANING = "Drop to copy its gates into the feature network"
PROMISE = "Nothing changes before you confirm."
_GRACE_MS = 120  # between the window losing the drag and the overlay receiving it
_DRAGS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)


class DropTarget(QObject):
    """Accepts drags of files on a window; `refuse` is told, in a sentence, what cannot be taken."""

    def __init__(
        self,
        window: QWidget,
        send: Callable[[Command], None],
        refuse: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(window)
        self._send = send
        self._refuse = refuse or (lambda _text: None)
        self._window = window
        self.overlay = _Overlay(window)
        self._leaving = QTimer(self)
        self._leaving.setSingleShot(True)
        self._leaving.setInterval(_GRACE_MS)
        self._leaving.timeout.connect(self.overlay.hide)
        window.setAcceptDrops(True)
        window.installEventFilter(self)
        self.overlay.installEventFilter(self)

    def set_theme(self, theme: Theme) -> None:
        """Draw the overlay in this theme."""
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
        self._leaving.stop()
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        if kind == QEvent.Type.DragEnter:
            self.overlay.appear(*_words(event.mimeData()))
        elif kind == QEvent.Type.Drop:
            self.overlay.hide()
            self._drop(event.mimeData())

    def _drop(self, data: QMimeData) -> None:
        try:
            path = dropped_file(data)
        except Refusal as refusal:
            self._refuse(str(refusal))
        else:
            self._send(OpenFile(str(path)))


def dropped_file(data: QMimeData) -> Path:
    """The one local file of a drag; raises `Refusal` where it is not one."""
    urls = data.urls()
    if len(urls) != 1:
        raise Refusal(f"{len(urls)} files at once: drop one checkpoint at a time.")
    if not urls[0].isLocalFile():
        place = urls[0].toDisplayString()
        raise Refusal(f"{place} is not a file on this computer: save it first, then drop it.")
    path = Path(urls[0].toLocalFile())
    if path.is_dir():
        raise Refusal(f"{path.name} is a folder: drop one checkpoint file.")
    return path


def _words(data: QMimeData) -> tuple[str, str, bool]:
    """What the overlay says, and whether the drop would be taken."""
    try:
        name = dropped_file(data).name
    except Refusal as refusal:
        return "This cannot be taken", str(refusal), False
    return MEANING, f"{name}. {PROMISE}", True


class _Overlay(QWidget):
    """Covers the window while something is dragged over it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._theme = LIGHT
        self._headline = self._sentence = ""
        self._welcome = True
        self.setAcceptDrops(True)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def appear(self, headline: str, sentence: str, welcome: bool) -> None:
        self._headline, self._sentence, self._welcome = headline, sentence, welcome
        self.setAccessibleName(f"{headline}. {sentence}")
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self._theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(theme.window)
        veil.setAlphaF(0.88)
        painter.fillRect(self.rect(), veil)
        tone = theme.accent if self._welcome else theme.refused
        pen = QPen(QColor(tone), 2, Qt.PenStyle.CustomDashLine)
        pen.setDashPattern([4, 3])
        painter.setPen(pen)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(16, 16, -16, -16), 8, 8)
        self._paint_words(painter, tone)
        painter.end()

    def _paint_words(self, painter: QPainter, tone: str) -> None:
        theme, middle = self._theme, self.rect().center()
        room = QRectF(48, middle.y() - 20, self.width() - 96, 32)
        symbol = icon("drop" if self._welcome else "close", theme, 48, tone)
        pixmap = symbol.pixmap(48, 48)
        painter.drawPixmap(middle.x() - 24, middle.y() - 84, pixmap)
        centre = Qt.AlignmentFlag.AlignCenter
        painter.setPen(QColor(theme.text))
        painter.setFont(font(self, 20, bold=True))
        painter.drawText(room, centre, self._headline)
        painter.setPen(QColor(theme.muted))
        painter.setFont(font(self, 14))
        metrics = painter.fontMetrics()
        text = metrics.elidedText(self._sentence, Qt.TextElideMode.ElideMiddle, int(room.width()))
        painter.drawText(room.translated(0, 32), centre, text)
