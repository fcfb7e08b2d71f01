"""Last line of defence: uncaught exceptions and Qt errors become notices."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from dgn_engine.text.printable import print_error

_CHATTER = (
    "This plugin does not support propagateSizeHints()",
)  # emitted for every window, offscreen


class Faults(QObject):
    """Exception hooks and Qt message handler; `caught` carries (what, traceback).

    The hooks may be called from any thread; the signal is delivered in the GUI thread. The previous
    hooks are called too, so that errors are printed even if the window is lost.
    """

    caught = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._installed = False
        self.install_hooks()

    def install_hooks(self) -> None:
        """Install the hooks in front of the existing ones."""
        self._installed = True
        self._excepthook = sys.excepthook
        self._thread_hook = threading.excepthook
        self._unraisable_hook = sys.unraisablehook
        self._message_handler = qInstallMessageHandler(self._on_message)
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        sys.unraisablehook = self._on_unraisable

    def remove_hooks(self) -> None:
        if not self._installed:
            return
        self._installed = False
        sys.excepthook = self._excepthook
        threading.excepthook = self._thread_hook
        sys.unraisablehook = self._unraisable_hook
        qInstallMessageHandler(self._message_handler)

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._excepthook(kind, error, trace)
        if not issubclass(kind, KeyboardInterrupt):
            self._emit_fault("Internal error in the window", kind, error, trace)

    def _on_thread_exception(self, arguments: threading.ExceptHookArgs) -> None:
        self._thread_hook(arguments)
        if arguments.exc_type is not SystemExit:
            name = arguments.thread.name if arguments.thread else "a thread"
            trace = arguments.exc_traceback
            self._emit_fault(
                f"Internal error in {name}", arguments.exc_type, arguments.exc_value, trace
            )

    def _on_unraisable(self, arguments: sys.UnraisableHookArgs) -> None:
        self._unraisable_hook(arguments)
        trace = arguments.exc_traceback
        self._emit_fault(
            "Internal error during cleanup", arguments.exc_type, arguments.exc_value, trace
        )

    def _on_message(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if message in _CHATTER:
            return
        if callable(self._message_handler):
            self._message_handler(kind, context, message)
        else:
            print_error(f"Qt: {message}")
        if kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
            self.caught.emit(f"Qt: {message}", f"{context.file}:{context.line}\n{message}\n")

    def _emit_fault(
        self,
        where: str,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        self.caught.emit(f"{where}: {kind.__name__}: {error}", text)
