"""Hands at a real X display: mouse and keys by xdotool, files dragged in from another program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from tests.viewer.display import drag_source

SCRIPT = Path(drag_source.__file__)
MARGIN = 20  # pixels between the screen's edge and the square that is dragged


class XUser:
    """Acts on the display from outside; the window sees the events that a person would make."""

    def __init__(self, qtbot: QtBot) -> None:
        self._qtbot = qtbot

    def move(self, place: QPoint) -> None:
        self._do("mousemove", str(place.x()), str(place.y()))

    def click(self, widget: QWidget, at: QPoint | None = None, button: int = 1) -> None:
        self.move(_on_screen(widget, at))
        self._do("click", str(button))

    def double_click(self, widget: QWidget, at: QPoint | None = None) -> None:
        self.move(_on_screen(widget, at))
        self._do("click", "--repeat", "2", "--delay", "60", "1")

    def drag(self, widget: QWidget, *places: QPoint) -> None:
        """Press the left button at the first of these places, let it go at the last."""
        self.move(_on_screen(widget, places[0]))
        self._do("mousedown", "1")
        for place in places[1:]:
            self.move(_on_screen(widget, place))
        self._do("mouseup", "1")

    def key(self, *keys: str) -> None:
        """Press these combinations, written as 'ctrl+e'."""
        self._do("key", *keys)

    def type(self, text: str) -> None:
        """Letter by letter, to whatever has the keyboard."""
        self._do("type", "--delay", "4", text)

    def press(self, button: QWidget) -> None:
        """Click a button that is in sight and can be pressed, once it stands still."""
        self._qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled())
        self._qtbot.waitUntil(lambda: self._stands_still(button))
        assert not button.visibleRegion().isEmpty(), f"{button} is covered or scrolled away"
        if not isinstance(button, QAbstractButton):
            self.click(button)
            return
        taken: list[bool] = []
        button.pressed.connect(lambda: taken.append(True))
        self.click(button)
        self._qtbot.waitUntil(lambda: bool(taken))  # else what follows would be waited for in vain

    def _stands_still(self, widget: QWidget) -> bool:
        """A text above it that has just grown moves a button away from under the pointer."""
        before = _on_screen(widget, None)
        self._qtbot.wait(100)
        return _on_screen(widget, None) == before

    def window_under_pointer(self) -> int:
        """The display's number of the top window there."""
        told = self._do("getmouselocation", "--shell").splitlines()
        return int(next(line for line in told if line.startswith("WINDOW=")).split("=")[1])

    def focus(self, window: QWidget) -> None:
        """As a window manager would when the window is clicked; here there may be none."""
        self._do("windowfocus", "--sync", str(int(window.winId())))
        self._qtbot.waitUntil(window.isActiveWindow)

    def drag_file(self, file: Path, onto: QWidget, at: QPoint | None = None) -> None:
        """Drag the file from another program onto the widget and let it go."""
        with _drag_source(file, self._qtbot) as square:
            self.move(square)
            self._do("mousedown", "1")
            end = _on_screen(onto, at)
            for share in (0.02, 0.3, 0.6, 0.9, 1.0, 1.0):
                self.move(square + (end - square) * share)
                self._qtbot.wait(60)  # the other program answers between two moves
            self._do("mouseup", "1")
            self._qtbot.wait(200)

    def _do(self, *arguments: str) -> str:
        ended = subprocess.run(
            ["xdotool", *arguments], check=True, timeout=30, capture_output=True, text=True
        )
        self._qtbot.wait(30)
        return ended.stdout


def _on_screen(widget: QWidget, at: QPoint | None) -> QPoint:
    return widget.mapToGlobal(at if at is not None else widget.rect().center())


@contextmanager
def _drag_source(file: Path, qtbot: QtBot) -> Iterator[QPoint]:
    """The other program with the file; yields where to take hold of it."""
    command = [sys.executable, str(SCRIPT), str(file), str(MARGIN), str(MARGIN)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == "shown"
        qtbot.wait(300)
        middle = MARGIN + drag_source.SIZE // 2
        yield QPoint(middle, middle)
    finally:
        program.kill()
        program.wait()
        if program.stdout is not None:
            program.stdout.close()
