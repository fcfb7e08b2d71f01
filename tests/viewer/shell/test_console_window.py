"""The Python console: it sees frozen copies of what the panels show, and changes nothing."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from dgn_viewer.application import Viewer
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
