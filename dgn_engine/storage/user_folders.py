"""The user's folders for this program, following the platform: data, settings, cache, log.

`DGN_HOME` sets one folder for all of them, for example on a USB stick.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

HOME = "DGN_HOME"  # environment variable for the one folder
CARRIED = "dgn-viewer-data"  # its name with `--portable`
_PROGRAM = "dgn-viewer"


def user_data() -> Path:
    """Return the user's data folder for this program (it need not exist)."""
    return _home_override() or _platform_dirs().user_data_path


def user_config() -> Path:
    """Return the user's configuration folder for this program (it need not exist)."""
    return _home_override() or _platform_dirs().user_preference_path


def user_cache() -> Path:
    """Return the user's cache folder for this program (it need not exist); it may vanish."""
    carried = _home_override()
    return carried / "cache" if carried else _platform_dirs().user_cache_path


def user_log() -> Path:
    """Return the folder of the program's log, in the user's state folder (it need not exist)."""
    carried = _home_override()
    return carried / "log" if carried else _platform_dirs().user_log_path


def use_portable_folders() -> Path:
    """Keep all files beside the program from now on, in child processes, too.

    They go beside a bundled program, otherwise into the current folder, or to `DGN_HOME` if set.
    """
    bundled = getattr(sys, "frozen", False)
    folder = Path(sys.executable).parent if bundled else Path.cwd()
    os.environ.setdefault(HOME, str(folder / CARRIED))
    return user_data()


def _home_override() -> Path | None:
    named = os.environ.get(HOME)
    return Path(named).absolute() if named else None


def _platform_dirs() -> PlatformDirs:
    from platformdirs import PlatformDirs  # not needed where DGN_HOME is set

    return PlatformDirs(_PROGRAM, appauthor=False)
