"""Where this program keeps what is the user's, as the platform has it: data, settings, cache, log.

`DGN_HOME` names one folder for all of them, which then can be carried on a stick.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

HOME = "DGN_HOME"  # the variable that names the one folder
CARRIED = "dgn-viewer-data"  # its name where `--portable` makes it
_PROGRAM = "dgn-viewer"


def user_data() -> Path:
    """The user's data folder for this program (it need not exist)."""
    return _carried() or _platform().user_data_path


def user_config() -> Path:
    """The user's configuration folder for this program (it need not exist)."""
    return _carried() or _platform().user_preference_path


def user_cache() -> Path:
    """The user's cache folder for this program (it need not exist); it may go at any time."""
    carried = _carried()
    return carried / "cache" if carried else _platform().user_cache_path


def user_log() -> Path:
    """The folder of the program's log, in the user's state folder (it need not exist)."""
    carried = _carried()
    return carried / "log" if carried else _platform().user_log_path


def carry_everything() -> Path:
    """Keep everything beside the program, from now on and in children: beside that of a bundle,
    else in the current folder; where `DGN_HOME` names a folder, there."""
    bundled = getattr(sys, "frozen", False)
    place = Path(sys.executable).parent if bundled else Path.cwd()
    os.environ.setdefault(HOME, str(place / CARRIED))
    return user_data()


def _carried() -> Path | None:
    named = os.environ.get(HOME)
    return Path(named).absolute() if named else None


def _platform() -> PlatformDirs:
    from platformdirs import PlatformDirs  # not needed where DGN_HOME is set

    return PlatformDirs(_PROGRAM, appauthor=False)
