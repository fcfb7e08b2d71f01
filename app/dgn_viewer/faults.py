"""The last line of defence: every exception and Qt warning that nobody caught becomes a notice."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler


class Faults(QObject):
    """Installs the exception hooks and Qt's message handler; `caught` carries (what, traceback).

    The hooks may be called in any thread: the signal is delivered in the GUI thread. Everything
    is also printed, so that a fault before or after the window is not lost.
    """

    caught = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._excepthook = sys.excepthook
        self._thread_hook = threading.excepthook
        self._unraisable_hook = sys.unraisablehook
        self._message_handler = qInstallMessageHandler(self._on_message)
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        sys.unraisablehook = self._on_unraisable

    def remove(self) -> None:
        """Put back what was there before."""
        sys.excepthook = self._excepthook
        threading.excepthook = self._thread_hook
        sys.unraisablehook = self._unraisable_hook
        qInstallMessageHandler(self._message_handler)

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            self._excepthook(kind, error, trace)
            return
        self._tell(f"A fault in the window: {_short(error)}", _format(kind, error, trace))

    def _on_thread_exception(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_type is SystemExit:
            return
        name = arguments.thread.name if arguments.thread else "a thread"
        error = arguments.exc_value
        text = _format(arguments.exc_type, error, arguments.exc_traceback)
        self._tell(f"A fault in {name}: {_short(error)}", text)

    def _on_unraisable(self, arguments: sys.UnraisableHookArgs) -> None:
        error = arguments.exc_value
        text = _format(arguments.exc_type, error, arguments.exc_traceback)
        where = arguments.err_msg or "while cleaning up"
        self._tell(f"A fault {where}: {_short(error)}", f"{text}{arguments.object!r}\n")

    def _on_message(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        print(f"Qt: {message}", file=sys.stderr)
        if kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
            self.caught.emit(f"Qt: {message}", f"{context.file}:{context.line}\n{message}\n")

    def _tell(self, what: str, text: str) -> None:
        print(text, file=sys.stderr, end="")
        self.caught.emit(what, text)


def _short(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else "unknown"


def _format(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> str:
    return "".join(traceback.format_exception(kind, error, trace))
