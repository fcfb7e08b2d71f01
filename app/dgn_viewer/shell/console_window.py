"""A Python console on frozen copies of what the window shows."""

from __future__ import annotations

import code
import contextlib
import io
import sys
import traceback
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFontDatabase, QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from dgn_engine.scene.panel_spec import View
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, resize_to_fit

_SIZE = (760, 480)
_MOST_LINES = 10_000
_ABOUT = (
    "frame, readings and run are frozen copies of what the panels show, np is NumPy: try "
    "frame.step or readings['ntk'].arrays. The run cannot be changed from here. While a line "
    "computes, the window waits and training continues."
)


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
        }
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                incomplete = self._console.push(text)
            except SystemExit:  # exit() would close the window, and with it the run
                incomplete = False
                self.hide()
        self.prompt.setText("..." if incomplete else ">>>")
        if output := printed.getvalue().rstrip("\n"):
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
