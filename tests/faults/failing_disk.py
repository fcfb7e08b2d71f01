"""A file system below the program that fails: a shim of the C library, compiled by `cc`.

`LD_PRELOAD` puts it before the C library; it counts what is written below one folder and lets the
n-th of these calls fail, once or from then on. Nothing of the program knows of it. Removing is
counted as writing where the error is another than ENOSPC: from a full disk one may remove.
"""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def compiled(place: Path) -> Path | None:
    """The shim, in this folder; None where it cannot be made."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    shim = place / "shim.so"
    made = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", shim, SOURCE, "-ldl"],
        capture_output=True,
        check=False,
    )
    return shim if made.returncode == 0 else None


class Shim:
    """The shim that this process and its forked children were started with."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._shared = mmap.mmap(-1, ctypes.sizeof(ctypes.c_long))  # with forked children
        self._count = ctypes.c_long.from_buffer(self._shared)

    def arm(self, below: Path, number: int, error: int, forever: bool = False) -> None:
        """Let the n-th call that writes below a folder fail, or all from then on; -1: none."""
        self._library.shim_arm(
            *(str(below).encode(), ctypes.c_long(number), error, ctypes.c_int(forever)),
            ctypes.byref(self._count),
        )

    @property
    def seen(self) -> int:
        """How many such calls there were since it was armed, here or in a child."""
        return self._count.value
