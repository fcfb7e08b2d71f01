"""The Python console: it sees frozen copies of what the panels show, and changes nothing."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from dgn_viewer.application import Viewer
from dgn_viewer.shell import console_window
from dgn_viewer.shell.console_window import ConsoleWindow


def _open_console(viewer: Viewer) -> ConsoleWindow:
    viewer.window.registry["help.console"].trigger()
    (console,) = viewer.window.findChildren(ConsoleWindow)
    console.output.clear()
    return console


def _enter(console: ConsoleWindow, text: str) -> str:
    """What a typed line prints."""
    console.output.clear()
    QTest.keyClicks(console.line, text)
    QTest.keyClick(console.line, Qt.Key.Key_Return)
    return console.output.toPlainText().partition("\n")[2]


def test_it_does_not_exist_before_it_is_opened(shared_viewer: Viewer) -> None:
    window = shared_viewer.window
    opened_by_others = window.findChildren(ConsoleWindow)
    assert all(console.isHidden() for console in opened_by_others)


def test_names_are_what_the_panels_show(shared_viewer: Viewer) -> None:
    console, view = _open_console(shared_viewer), shared_viewer.window.context.view()
    assert _enter(console, "frame.step") == str(view.step)
    assert _enter(console, "run.config.seed") == str(view.run.config.seed if view.run else None)
    assert _enter(console, "np.float64(2)") == repr(np.float64(2))
    assert _enter(console, "sorted(readings) == sorted(frame.readings)") == "True"
    console.close()


def test_copies_are_frozen(shared_viewer: Viewer) -> None:
    console = _open_console(shared_viewer)
    assert "TypeError" in _enter(console, "readings['ntk'] = 1")
    assert "FrozenInstanceError" in _enter(console, "frame.step = 7")
    _enter(console, "arrays = [a for r in readings.values() for a in r.arrays.values()]")
    assert _enter(console, "any(a.flags.writeable for a in arrays)") == "False"
    console.close()


def test_errors_and_exit_stay_in_the_console_and_blocks_are_completed(
    shared_viewer: Viewer,
) -> None:
    console = _open_console(shared_viewer)
    assert "ZeroDivisionError" in _enter(console, "1 / 0")
    assert _enter(console, "for i in range(2):") == ""
    assert console.prompt.text() == "..."
    _enter(console, "    print(i)")
    assert _enter(console, "") == "0\n1"
    assert console.prompt.text() == ">>>"
    QTest.keyClick(console.line, Qt.Key.Key_Up)
    QTest.keyClick(console.line, Qt.Key.Key_Up)
    assert console.line.text() == "for i in range(2):"
    console.line.clear()
    _enter(console, "exit()")
    assert console.isHidden()
    assert shared_viewer.window.isVisible()
    assert _enter(console, "1") == "1"  # nothing of the line that left is kept


@pytest.mark.parametrize(
    "line",
    ["while True: pass", "while True: print(1)", "while True: sys.stderr.write('x')"],
)
def test_a_line_without_end_is_stopped(
    shared_viewer: Viewer, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(console_window, "_MOST_SECONDS", 0.3)
    monkeypatch.setattr(console_window, "_MOST_PRINTED", 2000)
    console = _open_console(shared_viewer)
    _enter(console, "import sys")
    _enter(console, line)
    assert "stopped" in _enter(console, "")
    assert _enter(console, "len('x' * 5)") == "5"
    assert console.prompt.text() == ">>>"
    console.close()


def test_a_line_neither_waits_for_the_terminal_nor_breaks_the_next(shared_viewer: Viewer) -> None:
    console, terminal, output = _open_console(shared_viewer), sys.stdin, sys.stdout
    assert "EOFError" in _enter(console, "input()")
    _enter(console, "import sys; sys.stdout.close()")
    _enter(console, "__builtins__ = None")
    assert _enter(console, "print(1)") == "1"
    assert len(_enter(console, "'x' * 500_000")) < 10_000  # Qt would lay it out for a minute
    assert (sys.stdin, sys.stdout) == (terminal, output)
    console.close()


def test_a_profiler_works_after_a_line(shared_viewer: Viewer) -> None:
    """A flag that the deadline left in the interpreter made Python 3.11 hang under one."""
    console = _open_console(shared_viewer)
    assert _enter(console, "1 + 1") == "2"
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: calls.append(event))
    try:
        (lambda: None)()
    finally:
        sys.setprofile(None)
    assert "call" in calls
    console.close()
