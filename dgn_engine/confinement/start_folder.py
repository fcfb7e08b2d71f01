"""Keeps the folder where a program is started from supplying modules, programs and settings.

A researcher stands in a folder that somebody else has filled: an unpacked archive, a shared disk.
What lies there is read as data where a command names it, and never run or obeyed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import dgn_engine

# Lists of folders in which an empty or relative entry means the current folder.
_PATH_LISTS = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH",
    "DYLD_LIBRARY_PATH", "QT_PLUGIN_PATH", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
)  # fmt: skip
# A folder or a file each, with code or settings; a relative one is in the current folder.
_PLACES = (
    "CUDA_CACHE_PATH", "DASK_CONFIG", "DASK_ROOT_CONFIG", "FONTCONFIG_FILE", "FONTCONFIG_PATH",
    "HOME", "MATPLOTLIBRC", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "OPENSSL_CONF", "OPENSSL_MODULES",
    "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUSERBASE",
    "QT_QPA_PLATFORM_PLUGIN_PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR", "TORCH_HOME", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
)  # fmt: skip
_AT_START = ("DYLD_", "LD_", "PYTHON")  # how variables begin that are read before our code runs
PARENT = "DGN_PARENT"  # in the environment of a child: the number of the process that starts it
_RESTARTED = "DGN_RESTARTED"  # in the environment of a program that has started itself again: why
# Read from the current folder before any other place: by matplotlib when it is imported, by numba
# then and before each compilation. Neither can be told otherwise.
FOREIGN_SETTINGS = frozenset({"matplotlibrc", ".numba_config.yaml"})
# In the name of every folder that Dask puts into `sys.path`: in the system's temporary folder,
# where anybody may have made it, unless it is told another.
_DASK_SCRATCH = "dask-scratch-space"
_exists = os.path.exists
_found_unsafe: set[str] = set()


def distrust_start_folder(restart: bool = False) -> None:
    """Shut the current folder out of this process and of those that it starts.

    For our own programs, before they import anything large: it changes `os.environ` and `sys.path`
    for good. `python -m dgn_engine.cli` has imported some modules by then; `dgn` has not looked
    into the folder at all, unless a variable that Python or the loader of the system reads at the
    start names it.

    Args:
        restart: start this program again where there is such a variable. The loader never forgets
            its own; and modules that Python has taken from the folder are in use already.
    """
    _found_unsafe.update(filter(None, os.environ.pop(_RESTARTED, "").split(",")))
    again = restart and not _found_unsafe
    _found_unsafe.update(unsafe_variables())
    environment = safe_environment()
    if again and any(name.startswith(_AT_START) for name in _found_unsafe):
        _restart(environment)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    sys.path[:] = _safe(sys.path)
    os.path.exists = _exists_elsewhere


def unsafe_variables() -> list[str]:
    """Return the variables of the environment, now or when this program was started, that name the
    current folder by an empty or relative entry."""
    lists = {name for name in _PATH_LISTS if name in os.environ and _has_relative(name)}
    places = {name for name in _PLACES if name in os.environ and not _is_absolute(name)}
    return sorted(_found_unsafe | lists | places)


def safe_environment() -> dict[str, str]:
    """Return the variables of this process for a child: they name no relative folder, and Python
    and Windows look for nothing in the current one."""
    environment = dict(os.environ)
    for name in _PATH_LISTS:
        if name in environment:
            environment[name] = os.pathsep.join(filter(os.path.isabs, _entries(name)))
    if "PYTHONPATH" in environment:
        folders = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(_safe(folders))
    for name in (*_PATH_LISTS, *_PLACES):
        if not environment.get(name) or (name in _PLACES and not _is_absolute(name)):
            environment.pop(name, None)
    # As `-P`, for the Pythons that a child of a child starts; the other is Windows' own.
    switches = {"PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}
    return {**environment, **switches}


def _restart(environment: dict[str, str]) -> None:
    """Replace this process by the same program in this environment; return where that fails."""
    if sys.platform == "win32" or not sys.executable:
        return
    if getattr(sys, "frozen", False):  # a bundle: `sys.executable` is the program itself
        command = list(sys.argv)
    else:
        command = [sys.executable, "-P", *sys.orig_argv[1:]]
    # Run from its sources, it may lie in a folder that only such an entry names.
    relative = [folder for folder in _entries("PYTHONPATH") if not Path(folder).is_absolute()]
    relative += [] if sys.flags.safe_path else [""]
    ours = _our_folders()
    needed = [real for folder in relative if (real := os.path.realpath(folder or ".")) in ours]
    folders = [environment.get("PYTHONPATH", ""), *needed]
    why = {
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        _RESTARTED: ",".join(unsafe_variables()),
    }
    with suppress(OSError):
        os.execve(sys.executable, command, {**environment, **why})


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
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder) / file
        if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def _exists_elsewhere(path: int | str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
    return not (isinstance(path, str) and path in FOREIGN_SETTINGS) and _exists(path)


def _entries(name: str) -> list[str]:
    value = os.environ.get(name, "")
    if name == "LD_LIBRARY_PATH":  # glibc takes both
        value = value.replace(";", os.pathsep)
    return value.split(os.pathsep)


def _has_relative(name: str) -> bool:
    return bool(os.environ[name]) and not all(map(os.path.isabs, _entries(name)))


def _is_absolute(name: str) -> bool:
    return not os.environ[name] or Path(os.environ[name]).is_absolute()


def _safe(folders: Iterable[str]) -> list[str]:
    """Absolute folders other than the current one; that too where our own packages lie in it.

    Those of Dask's scratch space hold nothing of ours.
    One with the separator in its name would be two in PYTHONPATH, the second of them relative.
    """
    ours = _our_folders()
    try:
        here = str(Path.cwd().resolve())
    except OSError:  # it was removed
        here = ""
    return [
        one
        for one in folders
        if Path(one).is_absolute()
        and os.pathsep not in one
        and _DASK_SCRATCH not in one
        and ((real := os.path.realpath(one)) != here or real in ours)
    ]


def _our_folders() -> set[str]:
    engine = _engine_folder()
    return {str(folder.resolve()) for folder in (engine, engine / "app", engine / "resources")}


def _engine_folder() -> Path:
    return Path(dgn_engine.__file__).resolve().parents[1]
