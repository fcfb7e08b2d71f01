"""The user's settings file: theme, layout, folders. Invalid entries are ignored one by one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from PySide6.QtCore import QByteArray, QSettings

from dgn_engine.scene.number_style import NUMBERS
from dgn_engine.storage.user_folders import user_config

THEMES = ("light", "dark", "system")
STARTS = ("card", "last", "digits")  # at startup; anything else in the file is the first
DEFAULT_BUDGET = 5  # the engine's default
BUDGETS = (1, 50)  # allowed viewer overhead, per cent of the step rate
RAILS = ("", "open", "folded")
_KINDS = ("checkpoint", "session", "configuration", "run", "result", "images")
_REMEMBERED = 200
_WIDEST = 10_000  # pixels
LAYOUT_VERSION = 1  # increased when the docks change so much that old layouts are useless

_T = TypeVar("_T")


def default_path() -> Path:
    return user_config() / "settings.ini"


@dataclass(frozen=True)
class RecentItem:
    """Recently opened item. `kind`: one of `_KINDS`."""

    kind: str
    path: str


class StoredSetting(Generic[_T]):
    """Descriptor: an attribute of `Settings` that is stored in the file.

    Args:
        key: Key in the file.
        read: Converts the stored value, whatever it is, to the attribute.
        write: Converts the attribute to the stored value.
    """

    def __init__(
        self,
        key: str,
        read: Callable[[Any], _T],
        write: Callable[[_T], object] = lambda value: value,
    ) -> None:
        self.key, self._read, self._write = key, read, write

    @overload
    def __get__(self, settings: None, owner: type[Settings]) -> Self: ...
    @overload
    def __get__(self, settings: Settings, owner: type[Settings]) -> _T: ...
    def __get__(self, settings: Settings | None, owner: type[Settings]) -> Self | _T:
        return self if settings is None else self._read(settings.store.value(self.key))

    def __set__(self, settings: Settings, value: _T) -> None:
        settings.store.setValue(self.key, self._write(value))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_bytes(value: Any) -> QByteArray | None:
    return value if isinstance(value, QByteArray) and not value.isEmpty() else None


def _parse_json(value: Any) -> Any:
    """Return the parsed JSON, or None if it is invalid."""
    try:
        return json.loads(_as_text(value) or "null")
    except (ValueError, RecursionError):
        return None


def _as_mapping(value: Any) -> dict[str, Any]:
    tree = _parse_json(value)
    return tree if isinstance(tree, dict) else {}


def _one_of(choices: tuple[str, ...], usual: str) -> Callable[[Any], str]:
    return lambda value: value if value in choices else usual


def _existing_folder(value: Any) -> str:
    folder = _as_text(value)
    return folder if folder and os.path.isdir(folder) else ""  # noqa: PTH112 (never raises)


def _split_names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in _as_text(value).split("/") if name)


def _parse_budget(value: Any) -> int:
    text = _as_text(value)
    low, high = BUDGETS
    return int(text) if text.isdecimal() and low <= int(text) <= high else 0


def _parse_pixels(value: Any) -> int:
    text = _as_text(value)
    return min(int(text), _WIDEST) if text.isdecimal() and len(text) <= 6 else 0


def _as_key_map(value: Any) -> dict[str, str]:
    return {name: keys for name, keys in _as_mapping(value).items() if isinstance(keys, str)}


def _as_recent_items(value: Any) -> tuple[RecentItem, ...]:
    tree = _parse_json(value)
    pairs = tree if isinstance(tree, list) else []
    return tuple(
        RecentItem(*pair)
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and pair[0] in _KINDS
        if isinstance(pair[1], str) and pair[1]
    )


class Settings:
    """Typed access to an INI file; invalid values count as not set."""

    theme = StoredSetting("window/theme", _one_of(THEMES, "system"))
    geometry = StoredSetting("window/geometry", _as_bytes)  # from `QWidget.saveGeometry`
    layout = StoredSetting("window/layout", _as_bytes)  # from `QMainWindow.saveState`
    # Chart settings by panel and chart, unvalidated.
    charts: StoredSetting[Any] = StoredSetting("window/charts", _parse_json, json.dumps)
    layout_preset = StoredSetting("window/layout_preset", _as_text)  # empty: none
    # The list of recorded runs: 'open', 'folded', or '' for as there is room; pixels, 0 for usual.
    runs_rail = StoredSetting("window/runs", _one_of(RAILS, RAILS[0]))
    runs_width = StoredSetting("window/runs_width", _parse_pixels, str)
    export_folder = StoredSetting("export/folder", _existing_folder)  # folder of the last export
    # Last choices in the export dialog, unvalidated.
    export_choices = StoredSetting("export/choices", _as_mapping, json.dumps)
    # Names of interrupted runs that the user has dismissed.
    dismissed = StoredSetting(
        "runs/dismissed", _split_names, lambda names: "/".join(names[-_REMEMBERED:])
    )
    start = StoredSetting("start/run", _one_of(STARTS, STARTS[0]))
    budget = StoredSetting(
        "watching/budget", _parse_budget, str
    )  # per cent; 0: the engine's default
    numbers = StoredSetting("window/numbers", _one_of(NUMBERS, NUMBERS[0]))  # number style
    # Reassigned shortcuts by action id; '' for none.
    shortcuts = StoredSetting("window/shortcuts", _as_key_map, json.dumps)
    tour_seen = StoredSetting(
        "start/tour", lambda value: value == "seen", lambda seen: "seen" if seen else ""
    )
    recent = StoredSetting(  # newest first
        "files/recent",
        _as_recent_items,
        lambda items: json.dumps([[item.kind, item.path] for item in items]),
    )

    def __init__(self, path: Path) -> None:
        self.store = QSettings(str(path), QSettings.Format.IniFormat)
        self.store.setFallbacksEnabled(False)

    def save(self) -> bool:
        """Write to disk; return whether that succeeded."""
        self.store.sync()
        return self.store.status() != QSettings.Status.AccessError
