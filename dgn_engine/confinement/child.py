"""Starts a confined child: its command, its small environment, its pipes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import dgn_engine

_PIPE = 1 << 20  # bytes that wait between both processes, where the system lets one choose
_BUFFER = 1 << 18


def module_command(module: str, *flags: str) -> list[str]:
    """The command that runs a module of ours as a program, with `flags` of Python's.

    In a bundle (packaging/) `sys.executable` is our own program, which looks at no user site and
    no folder; its launcher understands `-m MODULE` and nothing else of Python's options.
    """
    frozen = getattr(sys, "frozen", False)
    return [sys.executable, *(() if frozen else flags), "-m", module]


def child_command(seconds: float, module: str) -> list[str]:
    """The command of a reading process: no user site, no current folder on its path."""
    return [*module_command(module, "-s", "-P"), str(max(1, math.ceil(seconds)))]


def start_child(command: list[str], stdin: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start a child that reads `stdin` and answers on a pipe; what it complains of is dropped.

    Ctrl-C does not reach it: its parent ends it, in the order that it needs. It ends by itself with
    the thread that starts it (`process.end_with_parent`). Raises `OSError`.
    """
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=_BUFFER,
        pipesize=_PIPE,
        env=child_environment(),
        cwd=Path(sys.executable).parent,
        process_group=0 if os.name == "posix" else None,
    )


def child_environment() -> dict[str, str]:
    """A small environment: where modules lie, one thread, no GPU."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP", "HOME")
    return {
        **{key: os.environ[key] for key in kept if key in os.environ},
        **one_thread(),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def one_thread() -> dict[str, str]:
    """Modules from where ours are, the CPU alone, one thread."""
    engine = str(Path(dgn_engine.__file__).resolve().parents[1])
    places = [engine, *(place for place in sys.path if Path(place).is_absolute())]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
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
