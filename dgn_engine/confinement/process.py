"""Confine the reading process before it parses untrusted bytes.

After `confine_process` it has little time and memory and can open no file, connection or process;
any attempt to run code ends the reading. Python's audit events cover Python code; the limits,
Landlock and the system call filter also cover whatever a bug in C code lets in.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import sys
from pathlib import Path

from dgn_engine.confinement import Layer
from dgn_engine.confinement.landlock import lock_paths
from dgn_engine.confinement.seccomp import filter_system_calls

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of unshare(2)
CODINGS = ("cp437", "latin-1", "raw_unicode_escape", "unicode_escape", "utf-8")
# Prefixes of Python's audit events, which are raised before the action itself.
_RUNS = ("exec", "import", "marshal.", "pickle.", "code.", "function.", "cpython.run_")
_REACHES = ("open", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "tempfile.", "mmap.")


class Forbidden(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """The file made its reader do something forbidden; a clause that follows the file's name."""


def unshare_network() -> bool:
    """Take the network away if the kernel allows it to anyone; return whether it did.

    The kernel requires this before any thread starts.
    """
    if sys.platform != "linux":
        return False
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
        return any(unshare(flags) == 0 for flags in (_NEW_USER | _NEW_NETWORK, _NEW_NETWORK))
    except (OSError, AttributeError):
        return False


def confine_process(seconds: int, memory: int) -> None:
    """Limit seconds and additional bytes of memory; afterwards nothing can be opened."""
    for coding in CODINGS:
        codecs.lookup(coding)  # imports the codec now, as nothing may be imported later
    confine_c_code(seconds, memory)
    forbid_in_python()


def forbid_in_python() -> None:
    """Raise `Forbidden` for anything that would reach out or run code, before it happens."""
    sys.addaudithook(_forbid_event)


def confine_c_code(seconds: int, memory: int) -> dict[str, Layer]:
    """Apply the layers below Python and return them by name; each holds without the others."""
    if sys.platform == "win32":
        missing = Layer(False, "not on Windows")
        return dict.fromkeys(("limits", "memory", "Landlock", "seccomp"), missing)
    import resource

    within = _limit_memory(memory)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    locked = lock_paths()  # briefly opens a file
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    limits = Layer(True, f"{seconds} s of CPU time, no more open files, no bytes written to files")
    return {
        "limits": limits,
        "memory": within,
        "Landlock": locked,
        "seccomp": filter_system_calls(),
    }


def _limit_memory(more: int) -> Layer:
    """Limit the address space to what is mapped now plus `more` bytes."""
    if sys.platform != "linux":
        return Layer(False, "only Linux enforces this limit")
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    soft = pages * os.sysconf("SC_PAGE_SIZE") + more
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return Layer(True, f"{more >> 20:,} MB more than the program itself")


def _forbid_event(event: str, _arguments: object) -> None:
    if event.startswith(_RUNS) or event.startswith(_REACHES):
        raise Forbidden("tried to do something forbidden while being read, and was refused")
