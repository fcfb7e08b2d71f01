"""Where this program keeps what is the user's, as the platform has it: data, settings, a cache.

`DGN_HOME` names one folder for all three, which then can be carried on a stick.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOME = "DGN_HOME"  # the variable that names the one folder
CARRIED = "dgn-viewer-data"  # its name where `--portable` makes it
_PROGRAM = "dgn-viewer"


def user_data() -> Path:
    """The user's data folder for this program (it need not exist)."""
    if carried := os.environ.get(HOME):
        return Path(carried).absolute()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = _xdg("XDG_DATA_HOME", ".local/share")
    return base / _PROGRAM


def user_config() -> Path:
    """The user's configuration folder for this program (it need not exist)."""
    if os.environ.get(HOME) or sys.platform == "win32":
        return user_data()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Preferences" / _PROGRAM
    return _xdg("XDG_CONFIG_HOME", ".config") / _PROGRAM


def user_cache() -> Path:
    """The user's cache folder for this program (it need not exist); it may go at any time."""
    if os.environ.get(HOME) or sys.platform == "win32":
        return user_data() / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / _PROGRAM
    return _xdg("XDG_CACHE_HOME", ".cache") / _PROGRAM


def carry_everything() -> Path:
    """Keep everything beside the program, from now on and in children: beside that of a bundle,
    else in the current folder; where `DGN_HOME` names a folder, there."""
    bundled = getattr(sys, "frozen", False)
    place = Path(sys.executable).parent if bundled else Path.cwd()
    os.environ.setdefault(HOME, str(place / CARRIED))
    return user_data()


def _xdg(variable: str, otherwise: str) -> Path:
    """A folder of the XDG Base Directory Specification, which ignores paths that are relative."""
    named = os.environ.get(variable, "")
    return Path(named) if named.startswith("/") else Path.home() / otherwise
