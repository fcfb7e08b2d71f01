"""Confines the reading process before it parses untrusted bytes.

After `confine` it has little time and memory and can open no file, connection or process; whatever
would run code ends the reading.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import sys
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of unshare(2)
CODINGS = ("cp437", "latin-1", "raw_unicode_escape", "unicode_escape", "utf-8")
# Prefixes of Python's audit events, which are raised before the thing itself happens.
_RUNS = ("exec", "import", "marshal.", "pickle.", "code.", "function.", "cpython.run_")
_REACHES = ("open", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "tempfile.", "mmap.")


def cut_off() -> bool:
    """Take the network away where the kernel lets anyone do so; returns whether it did.

    The kernel wants this done before any thread starts.
    """
    if sys.platform != "linux":
        return False
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
        return any(unshare(flags) == 0 for flags in (_NEW_USER | _NEW_NETWORK, _NEW_NETWORK))
    except (OSError, AttributeError):
        return False


class Forbidden(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """The file made its reader do what reading needs not; the end of a sentence."""


def confine(seconds: int, memory: int) -> None:
    """Bound seconds and further bytes of memory; nothing can be opened any more."""
    for coding in CODINGS:
        codecs.lookup(coding)  # imports the codec now, because later nothing may be imported
    if sys.platform != "win32":
        import resource

        _limit_memory(memory)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    sys.addaudithook(_forbid)


def _limit_memory(more: int) -> None:
    """Bound the address space to what is mapped now and `more` bytes."""
    if sys.platform != "linux":  # macOS does not honour the limit
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    soft = pages * os.sysconf("SC_PAGE_SIZE") + more
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _forbid(event: str, _arguments: object) -> None:
    if event.startswith(_RUNS) or event.startswith(_REACHES):
        raise Forbidden("made its reader do what reading needs not, and was refused")
