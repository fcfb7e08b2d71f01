"""What was opened last: checkpoints, sessions, configurations and runs, at most ten of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from dgn_engine.protocol.files import FileListed, OpenFile
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.runs import OpenSession, RunContinued, RunShown, SessionSaved, ShowRun
from dgn_engine.text.printable import printable
from dgn_viewer.settings import RecentItem
from dgn_viewer.shell.window_context import WindowContext

MOST = 10
TOUR = "dgn-tour-"  # beginning of a folder that goes with the tour: not to be opened again
_COMMANDS: dict[str, Callable[[str], Command]] = {
    "checkpoint": OpenFile,
    "session": OpenSession,
    "run": ShowRun,
}
_LONGEST = 60  # characters of a path in a menu


class RecentFiles(QObject):
    """Follows commands and events: what was opened without being refused is remembered.

    `changed`: something was added, or found to be missing.
    """

    changed = Signal()

    def __init__(
        self,
        context: WindowContext,
        configure: Callable[[Path], None],
        send: Callable[[Command], None],
    ) -> None:
        """`configure`: begins a run with a configuration; `send`: as the engine gets commands."""
        super().__init__(context.window)
        self._settings = context.settings
        self._configure = configure
        self._send = send
        self._asked: dict[str, str] = {}  # the path that was asked for last, of each kind
        self.items: tuple[RecentItem, ...] = context.settings.recent[:MOST]
        self._missing: frozenset[str] = frozenset()

    def on_command(self, command: Command) -> None:
        match command:
            case OpenFile(path=path):
                self._asked["checkpoint"] = self._asked["session"] = path
            case OpenSession(path=path):
                self._asked["session"] = path
            case ShowRun(folder=folder):
                self._asked["run"] = folder

    def on_event(self, event: Event, _state: object = None) -> None:
        match event:
            case FileListed(path=path) if not Path(path).parent.name.startswith(TOUR):
                self.add("checkpoint", path)
            case RunShown(file_name=name):
                kind = "session" if name else "run"
                if path := self._asked.pop(kind, ""):
                    self.add(kind, path)
            case RunContinued(folder=folder) if folder:
                self.add("run", folder)
            case SessionSaved(path=path):
                self.add("session", path)

    def add(self, kind: str, path: str) -> None:
        """Put this first; it stands there once."""
        item = RecentItem(kind, str(Path(path).absolute()))
        others = tuple(one for one in self.items if one != item)
        self.items = (item, *others)[:MOST]
        self._settings.recent = self.items
        self._missing -= {item.path}
        self.changed.emit()

    def look(self) -> None:
        """See which are missing: the disk is asked only when somebody is about to choose."""
        self._missing = frozenset(one.path for one in self.items if not Path(one.path).exists())
        self.changed.emit()

    def text(self, place: int) -> str:
        """'weights.pt · /home/me/models'; a missing one says so."""
        if place >= len(self.items):
            return ""
        item = self.items[place]
        path = Path(item.path)
        folder = str(path.parent)
        if len(folder) > _LONGEST:
            folder = f"{folder[: _LONGEST // 2]}…{folder[-_LONGEST // 2 :]}"
        gone = " (missing)" if item.path in self._missing else ""
        said = printable(f"{path.name}{gone} · {item.kind} in {folder}")
        return said.replace("&", "&&")

    def is_there(self, place: int) -> bool:
        return place < len(self.items) and self.items[place].path not in self._missing

    def open(self, place: int) -> None:
        """Open it again, in the way it was opened then."""
        if place >= len(self.items):
            return
        item = self.items[place]
        if item.kind == "configuration":
            self._configure(Path(item.path))
            return
        command = _COMMANDS[item.kind](item.path)
        self.on_command(command)
        self._send(command)
