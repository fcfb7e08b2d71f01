"""Keeps the folder where a program is started from supplying modules, programs and settings.

A researcher stands in a folder that somebody else has filled: an unpacked archive, a shared disk.
What lies there is read as data where a command names it, and never run or obeyed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import dgn_engine

# Lists of folders in which an empty or relative entry means the current folder.
_PATH_LISTS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# Read from the current folder before any other place: by matplotlib when it is imported, by numba
# then and before each compilation. Neither can be told otherwise.
FOREIGN_SETTINGS = frozenset({"matplotlibrc", ".numba_config.yaml"})
_exists = os.path.exists


def distrust_start_folder() -> None:
    """Shut the current folder out of this process and of those that it starts.

    For our own programs, before they import anything large: it changes `os.environ` and `sys.path`
    for good. `python -m dgn_engine.cli` has imported some modules by then; `dgn` has not looked
    into the folder at all.
    """
    os.environ.update(safe_environment())
    for name in _PATH_LISTS:
        if not os.environ.get(name, "-"):
            del os.environ[name]
    sys.path[:] = _safe(sys.path)
    os.path.exists = _exists_elsewhere


def safe_environment() -> dict[str, str]:
    """Return the variables of this process for a child: its lists of folders name no relative
    folder, and Python and Windows look for nothing in the current one."""
    cleaned = {name: _cleaned(os.environ[name]) for name in _PATH_LISTS if name in os.environ}
    # As `-P`, for the Pythons that a child of a child starts; the other is Windows' own.
    switches = {"PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}
    if cleaned.get("PYTHONPATH"):
        cleaned["PYTHONPATH"] = os.pathsep.join(_safe(cleaned["PYTHONPATH"].split(os.pathsep)))
    return {**os.environ, **cleaned, **switches}


def import_folders() -> list[str]:
    """Return where modules are imported from, for a child: in the order of `sys.path`, without
    relative folders and the current one, and with the folder of our own package."""
    engine = str(_engine_folder())
    folders = _safe(sys.path)
    return list(dict.fromkeys(folders if engine in folders else [engine, *folders]))


def find_program(name: str) -> str | None:
    """Return the absolute path of a program, None where no absolute folder of PATH has it.

    `shutil.which` takes one from the current folder: on Windows always, elsewhere for an empty or
    relative entry of PATH.
    """
    file = f"{name}.exe" if sys.platform == "win32" else name
    for folder in _cleaned(os.environ.get("PATH", os.defpath)).split(os.pathsep):
        path = Path(folder) / file
        if folder and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def _exists_elsewhere(path: int | str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
    return not (isinstance(path, str) and path in FOREIGN_SETTINGS) and _exists(path)


def _cleaned(folders: str) -> str:
    return os.pathsep.join(one for one in folders.split(os.pathsep) if Path(one).is_absolute())


def _safe(folders: Iterable[str]) -> list[str]:
    """Absolute folders other than the current one; that too where our own packages lie in it.

    One with the separator in its name would be two in PYTHONPATH, the second of them relative.
    """
    engine = _engine_folder()
    ours = {str(folder.resolve()) for folder in (engine, engine / "app", engine / "resources")}
    try:
        here = str(Path.cwd().resolve())
    except OSError:  # it was removed
        here = ""
    return [
        one
        for one in folders
        if Path(one).is_absolute()
        and os.pathsep not in one
        and ((real := os.path.realpath(one)) != here or real in ours)
    ]


def _engine_folder() -> Path:
    return Path(dgn_engine.__file__).resolve().parents[1]
