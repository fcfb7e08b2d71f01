"""Keeps the folder where a program is started from supplying modules, programs and settings.

A researcher stands in a folder that somebody else has filled: an unpacked archive, a shared disk.
What lies there is read as data where a command names it, and never run or obeyed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import dgn_engine

# How the variables begin that Python, the loader of the system, the libraries that we load and the
# programs that we start read; and those that begin like no other.
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
# How those of them end that are a list of folders, in which an empty entry is the current folder;
# and a folder or a file. A relative one is in the current folder, whether it is there yet or not.
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
# Parts of names whose values are no paths, though they or their names look so: 'gres/gpu',
# 'MIG-GPU-…/1/0', base64 of Dask's own.
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
_BETWEEN = re.compile(rf"[\s,;=|'\"()\[\]{{}}{os.pathsep}]+")  # what parts the words of a value
_URL = re.compile(r"[^\s,;]*://[^\s,;]*")
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
    """Return the variables of the environment, now or when this program was started, that name
    something in the current folder by an empty or relative entry."""
    named = {name for name, value in os.environ.items() if _without_relative(name, value) != value}
    return sorted(_found_unsafe | named)


def safe_environment() -> dict[str, str]:
    """Return the variables of this process for a child: they name nothing in the current folder,
    and Python and Windows look for nothing there."""
    environment = {}
    for name, value in os.environ.items():
        left = _without_relative(name, value)
        if left or not (value or _is_place(name)):
            environment[name] = left
    if "PYTHONPATH" in environment:
        folders = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(_safe(folders))
        if not environment["PYTHONPATH"]:
            del environment["PYTHONPATH"]
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


def _is_read(name: str) -> bool:
    ours = name.startswith(_READ) or name in _READ_TOO
    return ours and not any(part in name for part in _NO_PATHS)


def _is_place(name: str) -> bool:
    # Dask takes 'DASK_temporary_directory', too.
    return _is_read(name) and name.upper().endswith((*_LISTS, *_PLACES))


def _without_relative(name: str, value: str) -> str:
    """Return a variable's value without what it names in the current folder: of a list the other
    entries, otherwise all of it or nothing."""
    if not _is_read(name):
        return value
    if _is_place(name):
        entries = _entries(name, value)
        absolute = [one for one in entries if Path(one).is_absolute()]
        if not value or absolute == entries:
            return value
        return os.pathsep.join(absolute) if name.endswith(_LISTS) else ""
    return "" if any(map(_is_here, _BETWEEN.split(_URL.sub("", value)))) else value


def _entries(name: str, value: str) -> list[str]:
    if name == "LD_LIBRARY_PATH":  # glibc takes both
        value = value.replace(";", os.pathsep)
    return value.split(os.pathsep)


def _is_here(word: str) -> bool:
    """Whether a word of a value is a relative path, or the name of a file in the current folder.

    A name without a dot does not count, nor does a number: who fills the folder could make us drop
    any variable.
    """
    if not word or Path(word).is_absolute():
        return False
    if word in (os.curdir, os.pardir) or os.sep in word or (os.altsep and os.altsep in word):
        return True
    return "." in word and not word.replace(".", "").isdigit() and os.path.lexists(word)


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
