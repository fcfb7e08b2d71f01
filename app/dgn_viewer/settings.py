"""The user's settings file: theme, layout, folders; a broken file keeps its good keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

from dgn_engine.scene.number_style import NUMBERS
from dgn_engine.storage.user_folders import user_config

THEMES = ("light", "dark", "system")
STARTS = ("default", "last", "none")  # which run the window begins with
DEFAULT_BUDGET = 5  # as the engine has it
BUDGETS = (1, 50)  # per cent of the step rate: the viewer overhead that is allowed
_KINDS = ("checkpoint", "session", "configuration", "run")
_REMEMBERED = 200
LAYOUT_VERSION = 1  # raised when the docks change so much that an old layout is of no use


def default_path() -> Path:
    """The settings file in the user's configuration folder."""
    return user_config() / "settings.ini"


@dataclass(frozen=True)
class RecentItem:
    """Something that was opened. `kind`: 'checkpoint', 'session', 'configuration', 'run'."""

    kind: str
    path: str


class Settings:
    """Typed access to an INI file; what cannot be read is as if it had never been set."""

    def __init__(self, path: Path) -> None:
        self._store = QSettings(str(path), QSettings.Format.IniFormat)
        self._store.setFallbacksEnabled(False)

    @property
    def theme(self) -> str:
        """'light', 'dark' or 'system'."""
        name = self._text("window/theme")
        return name if name in THEMES else "system"

    @theme.setter
    def theme(self, name: str) -> None:
        self._store.setValue("window/theme", name)

    @property
    def geometry(self) -> QByteArray | None:
        """As `QWidget.saveGeometry` gave it, or None."""
        return self._bytes("window/geometry")

    @geometry.setter
    def geometry(self, state: QByteArray) -> None:
        self._store.setValue("window/geometry", state)

    @property
    def layout(self) -> QByteArray | None:
        """As `QMainWindow.saveState` gave it, or None."""
        return self._bytes("window/layout")

    @layout.setter
    def layout(self, state: QByteArray) -> None:
        self._store.setValue("window/layout", state)

    @property
    def charts(self) -> Any:
        """What was set for single charts, by panel and chart, as it was read: to be checked."""
        return self._json("window/charts")

    @charts.setter
    def charts(self, panels: Mapping[str, Any]) -> None:
        self._store.setValue("window/charts", json.dumps(panels))

    @property
    def layout_preset(self) -> str:
        """The name of the layout, where the window was left as a preset has it; else empty."""
        return self._text("window/layout_preset")

    @layout_preset.setter
    def layout_preset(self, name: str) -> None:
        self._store.setValue("window/layout_preset", name)

    @property
    def export_folder(self) -> str:
        """Where the last export went, if that folder still exists; else empty."""
        folder = self._text("export/folder")
        return folder if folder and Path(folder).is_dir() else ""

    @export_folder.setter
    def export_folder(self, folder: str) -> None:
        self._store.setValue("export/folder", folder)

    @property
    def export_choices(self) -> dict[str, Any]:
        """What the export dialog was left with; who reads it checks each value."""
        found = self._json("export/choices")
        return found if isinstance(found, dict) else {}

    @export_choices.setter
    def export_choices(self, choices: Mapping[str, Any]) -> None:
        self._store.setValue("export/choices", json.dumps(dict(choices)))

    @property
    def dismissed(self) -> tuple[str, ...]:
        """Names of interrupted runs that are not offered any more."""
        return tuple(name for name in self._text("runs/dismissed").split("/") if name)

    @dismissed.setter
    def dismissed(self, names: tuple[str, ...]) -> None:
        self._store.setValue("runs/dismissed", "/".join(names[-_REMEMBERED:]))

    @property
    def start(self) -> str:
        """The run at start: 'default', 'last' (go on where you left) or 'none'."""
        name = self._text("start/run")
        return name if name in STARTS else STARTS[0]

    @start.setter
    def start(self, name: str) -> None:
        self._store.setValue("start/run", name)

    @property
    def budget(self) -> int:
        """The viewer overhead that is allowed, in per cent; 0: as the engine has it."""
        text = self._text("watching/budget")
        low, high = BUDGETS
        return int(text) if text.isdecimal() and low <= int(text) <= high else 0

    @budget.setter
    def budget(self, share: int) -> None:
        self._store.setValue("watching/budget", str(share))

    @property
    def numbers(self) -> str:
        """How numbers are written: one of `NUMBERS`."""
        name = self._text("window/numbers")
        return name if name in NUMBERS else NUMBERS[0]

    @numbers.setter
    def numbers(self, example: str) -> None:
        self._store.setValue("window/numbers", example)

    @property
    def shortcuts(self) -> dict[str, str]:
        """Keys by the id of their action, of those that the user has changed; '' for none."""
        tree = self._json("window/shortcuts")
        if not isinstance(tree, dict):
            return {}
        return {name: keys for name, keys in tree.items() if isinstance(keys, str)}

    @shortcuts.setter
    def shortcuts(self, keys: Mapping[str, str]) -> None:
        self._store.setValue("window/shortcuts", json.dumps(dict(keys)))

    @property
    def tour_seen(self) -> bool:
        return self._text("start/tour") == "seen"

    @tour_seen.setter
    def tour_seen(self, seen: bool) -> None:
        self._store.setValue("start/tour", "seen" if seen else "")

    @property
    def recent(self) -> tuple[RecentItem, ...]:
        """What was opened last, the newest first."""
        tree = self._json("files/recent")
        pairs = tree if isinstance(tree, list) else []
        return tuple(
            RecentItem(*pair)
            for pair in pairs
            if isinstance(pair, list) and len(pair) == 2 and pair[0] in _KINDS
            if isinstance(pair[1], str) and pair[1]
        )

    @recent.setter
    def recent(self, items: tuple[RecentItem, ...]) -> None:
        self._store.setValue("files/recent", json.dumps([[one.kind, one.path] for one in items]))

    def save(self) -> bool:
        """Write to disk; whether that was possible."""
        self._store.sync()
        return self._store.status() != QSettings.Status.AccessError

    def _text(self, key: str) -> str:
        value = self._store.value(key)
        return value if isinstance(value, str) else ""

    def _json(self, key: str) -> Any:
        try:
            return json.loads(self._text(key) or "null")
        except (ValueError, RecursionError):
            return None

    def _bytes(self, key: str) -> QByteArray | None:
        value = self._store.value(key)
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None
