"""Deny a thread all paths, TCP ports and signals to others, if the kernel has Landlock.

Source: landlock(7), `linux/landlock.h`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

from dgn_engine.confinement import Layer

_CREATE, _RESTRICT = 444, 446  # system calls, with the same numbers on all architectures
_PATHS = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 5: 1 << 16}  # from version: rights below this bit
_PORTS = {4: 1 << 2}  # bind, connect
_SCOPES = {6: 1 << 2}  # abstract sockets and signals to unconfined processes


def lock_paths() -> Layer:
    """Deny all paths to this thread and those it will start; otherwise return the reason.

    It needs a free file descriptor, so call it before limiting open files.
    """
    if sys.platform != "linux":
        return Layer(False, "only on Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    version = _call_kernel(libc, _CREATE, None, 0, 1)
    if version < 1:
        missing = ctypes.get_errno() in (errno.ENOSYS, errno.EOPNOTSUPP)
        reason = "not in this kernel" if missing else os.strerror(ctypes.get_errno())
        return Layer(False, reason)
    rights = struct.pack(
        "=QQQ", *(_all_rights(kind, version) for kind in (_PATHS, _PORTS, _SCOPES))
    )
    rules = _call_kernel(libc, _CREATE, rights, len(rights), 0)
    if rules < 0:
        return Layer(False, f"refused by the kernel ({os.strerror(ctypes.get_errno())})")
    try:
        libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, otherwise only root may
        if _call_kernel(libc, _RESTRICT, rules, 0) != 0:
            return Layer(False, f"refused by the kernel ({os.strerror(ctypes.get_errno())})")
    finally:
        os.close(rules)
    denied = [
        "all paths",
        *["TCP"] * (version >= 4),
        *["signals to other processes"] * (version >= 6),
    ]
    return Layer(True, f"version {version} denies {', '.join(denied)}")


def _all_rights(kind: dict[int, int], version: int) -> int:
    """Return all rights of a kind that this version knows; it refuses unknown bits."""
    return max((bit - 1 for since, bit in kind.items() if since <= version), default=0)


def _call_kernel(libc: ctypes.CDLL, number: int, *arguments: bytes | int | None) -> int:
    typed = [a if isinstance(a, bytes) else ctypes.c_void_p(a) for a in arguments]
    return int(libc.syscall(ctypes.c_long(number), *typed))
