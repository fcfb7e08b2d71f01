"""Keep a program's start folder from supplying modules, programs and settings.

A researcher may be in a folder filled by someone else: an unpacked archive, a shared disk. Its
contents are read as data when a command names them, and never run or obeyed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import dgn_engine

# Prefixes of variables that Python, the system's loader, our libraries and the programs that we
# start read; and variables without a common prefix.
_READ = (
    "CUDA", "DASK_", "DBUS_", "DYLD_", "FC_", "FFMPEG", "FFREPORT", "FONTCONFIG_", "FREI0R", "GBM_",
    "GDK_", "GIO_", "GSETTINGS_", "GTK", "INTEL_", "JOBLIB_", "KMP_", "LADSPA_", "LD_", "LIBGL_",
    "MATPLOTLIB", "MESA_", "MKL_", "MPL", "NCCL_", "NUMBA_", "OMP_", "OPENBLAS_", "OPENSSL_",
    "PMIX", "PYQTGRAPH_", "PYTHON", "PYTORCH_", "QML", "QSG_", "QT", "SBATCH_", "SCANCEL_",
    "SLURM_", "SQUEUE_", "SSL", "TORCH", "TRITON_", "VK_", "XCOMPOSE", "XCURSOR_", "XDG_", "XKB_",
    "XLOCALE", "__EGL_", "__GLX_",
)  # fmt: skip
_READ_TOO = frozenset({
    "BROWSER", "CC", "COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "CXX", "C_INCLUDE_PATH",
    "GCC_EXEC_PREFIX", "GCONV_PATH", "HOME", "HOSTALIASES", "LIBRARY_PATH", "LOCPATH", "NLSPATH",
    "PATH", "TEMP", "TMP", "TMPDIR", "TZDIR", "XAUTHORITY",
})  # fmt: skip
# Endings of those that are a list of folders, in which an empty entry is the current folder; and of
# a folder or file. A relative one is in the current folder, whether it exists yet or not.
_LISTS = ("DIRS", "PATH", "PATHS")
_PLACES = (
    "CONF",
    "CONFIG",
    "DIR",
    "DIRECTORY",
    "FILE",
    "HOME",
    "OPENSSL_MODULES",
    "PYCACHEPREFIX",
    "RC",
    "ROOT",
    "STARTUP",
    "TEMP",
    "TMP",
    "TZDIR",
    "USERBASE",
)
# Parts of names whose values are not paths although they look like it: 'gres/gpu',
# 'MIG-GPU-…/1/0', Dask's base64.
_NO_PATHS = (
    "ALLOC_CONF",
    "DEVICES",
    "INHERIT_CONFIG",
    "JOB_NAME",
    "PLATLIBDIR",
    "SAFEPATH",
    "TRES",
    "_GRES",
)
_BETWEEN = re.compile(rf"[\s,;=|'\"()\[\]{{}}{os.pathsep}]+")  # separators within a value
_URL = re.compile(r"[^\s,;]*://[^\s,;]*")
_AT_START = ("DYLD_", "LD_", "PYTHON")  # prefixes of variables that are read before our code runs
PARENT = "DGN_PARENT"  # in a child's environment: the id of the process that starts it
_RESTARTED = "DGN_RESTARTED"  # in the environment of a program that has restarted itself: why
# Read from the current folder before any other: by matplotlib on import, by numba on import and
# before each compilation. Neither can be configured otherwise.
FOREIGN_SETTINGS = frozenset({"matplotlibrc", ".numba_config.yaml"})
# In the name of every folder that Dask puts into `sys.path`: in the system's temporary folder,
# where anybody may have created it, unless configured otherwise.
_DASK_SCRATCH = "dask-scratch-space"
_exists = os.path.exists
_found_unsafe: set[str] = set()


def distrust_start_folder(restart: bool = False) -> None:
    """Exclude the current folder from this process and those that it starts.

    For our own programs, before they import anything large: it changes `os.environ` and `sys.path`
    for good. `python -m dgn_engine.cli` has imported some modules by then; `dgn` has not used the
    folder at all, unless it is named by a variable that Python or the system's loader reads at the
    start.

    Args:
        restart: Restart this program if there is such a variable. The loader never forgets its own;
            and modules that Python took from the folder are already in use.
    """
    _found_unsafe.update(filter(None, os.environ.pop(_RESTARTED, "").split(",")))
    again = restart and not _found_unsafe
    _found_unsafe.update(unsafe_variables())
    environment = safe_environment()
    if again and any(name.startswith(_AT_START) for name in _found_unsafe):
        _restart_program(environment)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    sys.path[:] = _safe_folders(sys.path)
    os.path.exists = _exists_elsewhere


def unsafe_variables() -> list[str]:
    """Return the variables that name something in the current folder by an empty or relative entry.

    Those of now and of when this program was started are included.
    """
    named = {name for name, value in os.environ.items() if _without_relative(name, value) != value}
    return sorted(_found_unsafe | named)


def safe_environment() -> dict[str, str]:
    """Return the environment for a child, with nothing in the current folder.

    Python and Windows do not search that folder either.
    """
    environment = {}
    for name, value in os.environ.items():
        left = _without_relative(name, value)
        if left or not (value or _is_path_variable(name)):
            environment[name] = left
    if "PYTHONPATH" in environment:
        folders = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(_safe_folders(folders))
        if not environment["PYTHONPATH"]:
            del environment["PYTHONPATH"]
    # Like `-P`, for Pythons started by a child's child; the other is for Windows.
    switches = {"PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}
    return {**environment, **switches}


def _restart_program(environment: dict[str, str]) -> None:
    """Replace this process by the same program in this environment; return if that fails."""
    if sys.platform == "win32" or not sys.executable:
        return
    if getattr(sys, "frozen", False):  # a bundle: `sys.executable` is the program itself
        command = list(sys.argv)
    else:
        command = [sys.executable, "-P", *sys.orig_argv[1:]]
    # Run from its sources, it may be in a folder that only such an entry names.
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    relative = [folder for folder in named if not Path(folder).is_absolute()]
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
    """Return the import folders for a child, in the order of `sys.path`.

    Without relative folders and the current one, and with the folder of our own package.
    """
    engine = str(_engine_folder())
    folders = _safe_folders(sys.path)
    return list(dict.fromkeys(folders if engine in folders else [engine, *folders]))


def find_program(name: str) -> str | None:
    """Return the absolute path of a program; None if no absolute folder of PATH has it.

    `shutil.which` may use the current folder: on Windows always, elsewhere for an empty or relative
    entry of PATH.
    """
    file = f"{name}.exe" if sys.platform == "win32" else name
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder) / file
        if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def _exists_elsewhere(path: int | str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
    return not (isinstance(path, str) and path in FOREIGN_SETTINGS) and _exists(path)


def _is_read(name: str) -> bool:
    ours = name.startswith(_READ) or name in _READ_TOO
    return ours and not any(part in name for part in _NO_PATHS)


def _is_path_variable(name: str) -> bool:
    # Dask also reads 'DASK_temporary_directory'.
    return _is_read(name) and name.upper().endswith((*_LISTS, *_PLACES))


def _without_relative(name: str, value: str) -> str:
    """Return a variable's value without entries in the current folder.

    A list keeps its other entries; any other value stays or goes as a whole.
    """
    if not _is_read(name):
        return value
    if _is_path_variable(name):
        entries = _split_path_list(name, value)
        absolute = [entry for entry in entries if Path(entry).is_absolute()]
        if not value or absolute == entries:
            return value
        return os.pathsep.join(absolute) if name.endswith(_LISTS) else ""
    return "" if any(map(_is_here, _BETWEEN.split(_URL.sub("", value)))) else value


def _split_path_list(name: str, value: str) -> list[str]:
    if name == "LD_LIBRARY_PATH":  # glibc accepts both separators
        value = value.replace(";", os.pathsep)
    return value.split(os.pathsep)


def _is_here(word: str) -> bool:
    """Return whether a word is a relative path, or the name of a file in the current folder.

    Names without a dot and numbers do not count: otherwise whoever fills the folder could make us
    drop any variable.
    """
    if not word or Path(word).is_absolute():
        return False
    if word in (os.curdir, os.pardir) or os.sep in word or (os.altsep and os.altsep in word):
        return True
    return "." in word and not word.replace(".", "").isdigit() and os.path.lexists(word)


def _safe_folders(folders: Iterable[str]) -> list[str]:
    """Return the absolute folders other than the current one, unless it contains our packages.

    Dask's scratch space contains nothing of ours. A folder with the path separator in its name
    would be two in PYTHONPATH, the second of them relative.
    """
    ours = _our_folders()
    try:
        here = str(Path.cwd().resolve())
    except OSError:  # it was removed
        here = ""
    return [
        folder
        for folder in folders
        if Path(folder).is_absolute()
        and os.pathsep not in folder
        and _DASK_SCRATCH not in folder
        and ((real := os.path.realpath(folder)) != here or real in ours)
    ]


def _our_folders() -> set[str]:
    engine = _engine_folder()
    return {str(folder.resolve()) for folder in (engine, engine / "app", engine / "resources")}


def _engine_folder() -> Path:
    return Path(dgn_engine.__file__).resolve().parents[1]
