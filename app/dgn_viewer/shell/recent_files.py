"""Recently opened files and folders, at most ten."""

from __future__ import annotations

import os
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
TOUR = "dgn-tour-"  # prefix of temporary folders of the tour, which are not remembered
_LONGEST = 60  # characters of a path in a menu


class RecentFiles(QObject):
    """Remembers what was opened successfully, from commands and events.

    `changed`: an item was added, or found to be missing.
    """

    changed = Signal()

    def __init__(
        self,
        context: WindowContext,
        open_path: Callable[[Path], None],
    ) -> None:
        """`open_path` opens an item again."""
        super().__init__(context.window)
        self._settings = context.settings
        self._open_path = open_path
        self._asked: dict[str, str] = {}  # last requested path of each kind
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
                self.add_item("checkpoint", path)
            case RunShown(file_name=name):
                kind = "session" if name else "run"
                if path := self._asked.pop(kind, ""):
                    self.add_item(kind, path)
            case RunContinued(folder=folder) if folder:
                self.add_item("run", folder)
            case SessionSaved(path=path):
                self.add_item("session", path)

    def add_item(self, kind: str, path: str) -> None:
        """Move this item to the front."""
        item = RecentItem(kind, str(Path(path).absolute()))
        others = tuple(other for other in self.items if other != item)
        self.items = (item, *others)[:MOST]
        self._settings.recent = self.items
        self._missing -= {item.path}
        self.changed.emit()

    def check_missing(self) -> None:
        """Check which items are missing; called only when the menu opens."""
        paths = [item.path for item in self.items]
        self._missing = frozenset(path for path in paths if not os.path.exists(path))  # noqa: PTH110
        self.changed.emit()

    def menu_text(self, place: int) -> str:
        """Return a text such as 'weights.pt · checkpoint in /home/me/models'."""
        if place >= len(self.items):
            return ""
        item = self.items[place]
        path = Path(item.path)
        folder = str(path.parent)
        if len(folder) > _LONGEST:
            folder = f"{folder[: _LONGEST // 2]}…{folder[-_LONGEST // 2 :]}"
        suffix = " (missing)" if item.path in self._missing else ""
        shown = printable(f"{path.name}{suffix} · {item.kind} in {folder}")
        return shown.replace("&", "&&")

    def is_on_disk(self, place: int) -> bool:
        return place < len(self.items) and self.items[place].path not in self._missing

    def open_item(self, place: int) -> None:
        """Open an item again."""
        if place < len(self.items):
            self._open_path(Path(self.items[place].path))

    def last_folder(self) -> str:
        """Return the folder of the newest item; '' if there is none."""
        return str(Path(self.items[0].path).parent) if self.items else ""
