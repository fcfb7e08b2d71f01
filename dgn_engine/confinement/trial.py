"""Report what confines a reading process here, and try from C what must be refused.

`python -m dgn_engine.confinement.trial` is the child: it confines itself as a reader does, tries
everything, and answers with one line of JSON. Nothing that it tries is harmful if not refused.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dgn_engine.confinement import Layer, process
from dgn_engine.confinement.child_process import DEVNULL, confined_command, start_confined
from dgn_engine.confinement.parent_watch import end_with_parent
from dgn_engine.errors import UserError

_SECONDS = 30
_MEMORY = 512 << 20
_NOBODY = 1 << 30  # no process has this number
_NOWHERE = b"/nowhere/at/all"
_REFUSED = (errno.EPERM, errno.EACCES, errno.EMFILE, errno.ENOSYS)


def confinement_here() -> dict[str, Any]:
    """Return a confined child's report on itself, as plain data.

    `layers`: by name, whether each `holds` and what it is `about`; `attempts`: by name, whether
    each was `refused`, with the `error`.

    Raises:
        UserError: No child answers.
    """
    command = confined_command("dgn_engine.confinement.trial", _SECONDS)
    try:
        with start_confined(command, DEVNULL) as child:
            answer: dict[str, Any] = json.loads(child.read_all(2 * _SECONDS))
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot run a confined process here: {error}") from None
    return answer


def _run_trial() -> None:
    alone = process.unshare_network()
    end_with_parent()
    layers = {
        "network": Layer(alone, "a separate namespace" if alone else "no separate namespace"),
        **process.confine_c_code(_SECONDS, _MEMORY),
    }
    attempts = _try_calls() if sys.platform != "win32" else {}
    process.forbid_in_python()
    try:
        next(Path().iterdir())
        audit = Layer(False, "not called")
    except process.Forbidden:
        audit = Layer(True, "nothing is opened, imported, run or started from Python")
    answer = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "layers": {name: asdict(layer) for name, layer in layers.items()}
        | {"audit hook": asdict(audit)},
        "attempts": attempts,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


def _try_calls() -> dict[str, dict[str, Any]]:
    libc = ctypes.CDLL(None, use_errno=True)
    results: dict[str, dict[str, Any]] = {}
    for name, attempt in _ATTEMPTS.items():
        try:
            ctypes.set_errno(0)
            result, code = attempt(libc), ctypes.get_errno()
        except AttributeError:  # this C library lacks the call
            continue
        refused = result == -1 and code in _REFUSED
        results[name] = {
            "refused": refused,
            "error": errno.errorcode.get(code, "") if refused else "",
        }
    return results


def _try_fork(libc: ctypes.CDLL) -> int:
    pid = int(libc.fork())
    if pid == 0:
        os._exit(0)
    return pid


def _try_executable_map(libc: ctypes.CDLL) -> int:
    libc.mmap.restype = ctypes.c_long
    nothing, size = ctypes.c_void_p(None), ctypes.c_size_t(4096)
    anonymous = 0x1000 if sys.platform == "darwin" else 0x20
    return int(libc.mmap(nothing, size, 1 | 4, 2 | anonymous, -1, ctypes.c_long(0)))


_ATTEMPTS: dict[str, Callable[[ctypes.CDLL], int]] = {
    "open a file for writing": lambda libc: libc.open(b"/dev/null", os.O_WRONLY),
    "open a file for reading": lambda libc: libc.open(os.fsencode(sys.executable), os.O_RDONLY),
    "make a folder": lambda libc: libc.mkdir(b"/", 0o700),
    "remove a file": lambda libc: libc.unlink(_NOWHERE),
    "open a connection": lambda libc: libc.socket(2, 1, 0),
    "start a process": _try_fork,
    "start a program": lambda libc: libc.execve(_NOWHERE, None, None),
    "signal another process": lambda libc: libc.kill(os.getppid(), 0),
    "trace another process": lambda libc: libc.ptrace(16, _NOBODY, None, None),
    "mount a file system": lambda libc: libc.mount(None, _NOWHERE, None, 0, None),
    "make memory executable": _try_executable_map,
    "raise a limit": lambda libc: libc.setrlimit(7, (ctypes.c_ulong * 2)(64, 64)),
}


if __name__ == "__main__":
    _run_trial()
