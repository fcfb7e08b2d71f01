"""Starts Python: the one command and environment of every child, and the pipes of confined ones."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from dgn_engine.confinement.start_folder import PARENT, import_folders, safe_environment

_PIPE = 1 << 20  # bytes that wait between both processes, where the system lets one choose
_BUFFER = 1 << 18


def python_command(*words: str) -> list[str]:
    """Return the command of a Python that imports nothing from the current folder (`-P`) and runs
    nothing of the user site (`-s`); what is installed there it finds by `python_environment`."""
    return [sys.executable, "-s", "-P", *words]


def module_command(module: str) -> list[str]:
    """Return the command that runs a module of ours in the folder where the user stands.

    In a bundle (packaging/) `sys.executable` is our own program, which looks at no user site and
    no folder; its launcher understands `-m MODULE` and nothing else of Python's options.
    """
    words = ("-m", "dgn_engine.confinement.run_module", module)
    return [sys.executable, *words] if _is_bundle() else python_command(*words)


def child_command(seconds: float, module: str) -> list[str]:
    """Return the command of a confined process, which stands in a folder of ours."""
    words = ("-m", module, str(max(1, math.ceil(seconds))))
    return [sys.executable, *words] if _is_bundle() else python_command(*words)


def _is_bundle() -> bool:
    return bool(getattr(sys, "frozen", False))


def start_child(command: list[str], stdin: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start a child that reads `stdin` and answers on a pipe; what it complains of is dropped.

    Ctrl-C does not reach it: its parent ends it, in the order that it needs. It ends by itself with
    the thread that starts it (`parent_watch.end_with_parent`). Raises `OSError`.
    """
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=_BUFFER,
        pipesize=_PIPE,
        env=child_environment(),
        cwd=own_folder(),
        process_group=0 if os.name == "posix" else None,
    )


def own_folder() -> Path:
    """Return a folder for a child that reads no file: Python's own, not where the user stands."""
    return Path(sys.executable).parent


def child_environment() -> dict[str, str]:
    """A small environment: where modules lie, one thread, no GPU."""
    kept = (
        "PATH",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "HOME",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        PARENT,
        *one_thread(),
    )
    environment = python_environment() | one_thread()
    return {
        **{key: environment[key] for key in kept if key in environment},
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def python_environment() -> dict[str, str]:
    """Return the environment of a child: this process's, without the folder where it stands.

    The child is told whose it is, for `parent_watch`.
    """
    folders = os.pathsep.join(import_folders())
    return {**safe_environment(), "PYTHONPATH": folders, PARENT: str(os.getpid())}


def one_thread() -> dict[str, str]:
    """The CPU alone, one thread."""
    return {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def usable_cores() -> int:
    """Cores that this process may run on: so many children work side by side."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
