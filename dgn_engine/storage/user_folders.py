"""Where this program keeps what is the user's: data, and a cache that may go at any time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PROGRAM = "dgn-viewer"


def user_data() -> Path:
    """The user's data folder for this program (it need not exist)."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / _PROGRAM


def user_config() -> Path:
    """The user's configuration folder for this program, as Qt has it (it need not exist)."""
    if sys.platform == "win32":
        return user_data()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Preferences" / _PROGRAM
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / _PROGRAM


def user_cache() -> Path:
    """The user's cache folder for this program (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / _PROGRAM
