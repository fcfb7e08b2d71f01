"""A Python console on frozen copies of what the window shows."""

from __future__ import annotations

import builtins
import code
import contextlib
import ctypes
import io
import sys
import threading
import traceback
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFontDatabase, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from dgn_engine.scene.panel_spec import View
from dgn_engine.text.written_numbers import format_number
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, resize_to_fit

_SIZE = (760, 480)
_MOST_LINES = 10_000
_MOST_PRINTED = 1_000_000  # characters that a line may print
_MOST_SHOWN = 2_000  # characters of a line of output; Qt lays out longer ones in seconds
_MOST_SECONDS = 20.0  # that a line may compute, for the window waits
_ABOUT = (
    "frame, readings and run are frozen copies of what the panels show, np is NumPy: try "
    "frame.step or readings['ntk'].arrays. Nothing typed here is sent to the run. While a line "
    "computes, the window waits and training continues; after 20 s it is stopped."
)


class StoppedError(BaseException):
    """A line has printed or computed too much; no `Exception`, which its own code may catch."""

    def __str__(self) -> str:
        return (
            f"stopped: a line may compute for {format_number(_MOST_SECONDS)} s "
            f"and print {_MOST_PRINTED:,} characters"
        )


class _LineOutput(io.StringIO):
    """The printed output of a line, up to a limit."""

    def write(self, text: str) -> int:
        room = _MOST_PRINTED - self.tell()
        super().write(text[: max(room, 0)])
        if len(text) > room:
            raise StoppedError
        return len(text)

    def close(self) -> None:
        """Stay open: the line may close its standard output."""

    @property
    def shown(self) -> str:
        lines = self.getvalue().rstrip("\n").split("\n")[-_MOST_LINES:]
        return "\n".join(
            line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…" for line in lines
        )


class _Deadline:
    """Raises `StoppedError` in this thread if its body takes too long."""

    def __init__(self, seconds: float) -> None:
        self._thread = ctypes.c_ulong(threading.get_ident())
        self._lock, self._over, self._raised = threading.Lock(), False, False
        self._timer = threading.Timer(seconds, self._stop)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        with self._lock:  # afterwards nothing is raised any more
            self._over = True
        if self._raised and kind is not StoppedError:
            # It is still to come: let it, for a raised error cannot be taken back. Setting NULL
            # would leave the interpreter's flag set, and under a profiler Python 3.11 would hang.
            for _turn in range(1000):
                pass

    def _stop(self) -> None:
        with self._lock:
            if not self._over:
                self._raised = True
                error = ctypes.py_object(StoppedError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(self._thread, error)


class _Console(code.InteractiveConsole):
    """A console whose errors are its output; the program's own hook would report them as faults."""

    def showtraceback(self) -> None:
        error = sys.exception()
        if error is not None:
            trace = error.__traceback__
            self.write(
                "".join(traceback.format_exception(type(error), error, trace and trace.tb_next))
            )

    def showsyntaxerror(self, filename: str | None = None, **_: Any) -> None:
        if (error := sys.exception()) is not None:
            self.write("".join(traceback.format_exception_only(error)))


class ConsoleWindow(QWidget):
    """Non-modal window with a console; nothing is copied or run until a line is entered.

    Before each line these names are set to what the window shows, live or at a past step: `frame`,
    the `View` that the panels draw from, and its `readings` and `run`.
    """

    def __init__(self, window: QWidget, view: Callable[[], View]) -> None:
        super().__init__(window, Qt.WindowType.Window)
        self._view = view
        self._names: dict[str, Any] = {"np": np}
        self._console = _Console(self._names, filename="<console>")
        self._entered: list[str] = []
        self._recalled = 0
        self.setWindowTitle("Python console")
        resize_to_fit(self, *_SIZE)
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self.output = QPlainTextEdit()
        self.output.setReadOnly(True)
        self.output.setFont(fixed)
        self.output.setMaximumBlockCount(_MOST_LINES)
        self.output.setAccessibleName("Output of the console")
        self.prompt = plain_label(">>>", "muted")
        self.prompt.setFont(fixed)
        self.line = QLineEdit()
        self.line.setFont(fixed)
        self.line.setAccessibleName("Python")
        self.line.returnPressed.connect(self._enter_line)
        EventFilter(self, {QEvent.Type.KeyPress: self._on_key}, self.line)
        about = plain_label(_ABOUT, "muted")
        about.setWordWrap(True)
        entry = make_row(self.prompt, (self.line, 1), spacing=8)
        make_column(about, (self.output, 1), entry, into=self, margins=(12, 12, 12, 12), spacing=8)

    def open(self) -> None:
        self.show()
        self.raise_()
        self.activateWindow()
        self.line.setFocus()

    def run_line(self, text: str) -> None:
        """Run a line, or keep it if a block is not complete, and show what it prints."""
        self.output.appendPlainText(f"{self.prompt.text()} {text}")
        view = self._view()
        self._names |= {
            "frame": view,
            "readings": MappingProxyType(dict(view.readings)),
            "run": view.run,
            "__builtins__": builtins,
        }
        printed, terminal = _LineOutput(), sys.stdin
        sys.stdin = io.StringIO()  # input() would wait for the terminal, and the window with it
        incomplete, refusal = False, ""
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                _Deadline(_MOST_SECONDS),
            ):
                incomplete = self._console.push(text)
        except SystemExit:  # exit() would close the window, and with it the run
            self._console.resetbuffer()
            self.hide()
        except StoppedError as stopped:  # with no room for its traceback
            self._console.resetbuffer()
            refusal = f"{stopped}."
        finally:
            sys.stdin = terminal
        self.prompt.setText("..." if incomplete else ">>>")
        for output in filter(None, (printed.shown, refusal)):
            self.output.appendPlainText(output)

    def _enter_line(self) -> None:
        text = self.line.text()
        self.line.clear()
        if text:
            self._entered.append(text)
        self._recalled = len(self._entered)
        self.run_line(text)

    def _on_key(self, event: QKeyEvent) -> bool:
        """Recall earlier lines with the arrow keys."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        if not step:
            return False
        self._recalled = max(0, min(self._recalled + step, len(self._entered)))
        lines = [*self._entered, ""]
        self.line.setText(lines[self._recalled])
        return True
