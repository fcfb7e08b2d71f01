"""Hands memory that nobody uses any more back to the system.

glibc keeps what was freed in the middle of its heaps, of each thread: after a dozen large networks
that is more than everything in use.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Have free pages taken out of the process; nothing happens where the C library is another."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    trim(0)
