"""A kernel filter that leaves a process only the few system calls that reading needs.

Unlisted calls fail with EPERM, whoever makes them: Python, NumPy's C code, or code injected through
a bug in it. Source: seccomp(2), `linux/filter.h`, `asm/unistd_64.h`, `asm-generic/unistd.h`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator

from dgn_engine.confinement import Layer

# Calls needed to read, compute and exit, by their numbers on x86_64 and on aarch64; None: not
# there. The most frequent ones come first.
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "futex": (202, 98),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "readv": (19, 65),
    "writev": (20, 66),
    "close": (3, 57),
    "fstat": (5, 80),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "membarrier": (324, 283),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "getrandom": (318, 278),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "rseq": (334, 293),
    "set_robust_list": (273, 99),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
# These are allowed with some arguments only; see `_build_filter`.
_CLONE, _CLONE3, _MMAP, _MPROTECT = (56, 220), (435, 435), (9, 222), (10, 226)
_TGKILL, _PRLIMIT, _STAT_AT = (234, 131), (302, 261), (262, 79)
_SECCOMP = (317, 277)
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_…, both 64-bit

_THREAD = 0x10000 | 0x800 | 0x100  # CLONE_THREAD, CLONE_SIGHAND, CLONE_VM: not a new process
_EXECUTABLE = 4  # PROT_EXEC
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: for open files, as fstat of newer C libraries
_X32 = 0x40000000  # bit of an alternative numbering that an x86_64 kernel may accept

_LOAD, _IF_EQUAL, _IF_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_system_calls() -> Layer:
    """Restrict this process to the listed calls for good; otherwise return the reason."""
    if sys.platform != "linux":
        return Layer(False, "only on Linux")
    machine = os.uname().machine
    if machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        return Layer(False, f"no list of system calls for {machine}")
    column = list(_ARCHITECTURES).index(machine)
    steps = list(_build_filter(_ARCHITECTURES[machine], column, os.getpid()))
    code = b"".join(struct.pack("<HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, otherwise only root may
    call = ctypes.c_long(_SECCOMP[column] or 0)
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
    if libc.syscall(call, ctypes.c_long(1), ctypes.c_long(1), ctypes.byref(program)) == 0:
        return Layer(
            True, f"{_count_instructions(column)} system calls are allowed, in every thread"
        )
    if libc.prctl(22, 2, ctypes.addressof(program), 0, 0) == 0:  # PR_SET_SECCOMP
        return Layer(
            True, f"{_count_instructions(column)} system calls are allowed, in new threads"
        )
    return Layer(False, f"refused by the kernel ({os.strerror(ctypes.get_errno())})")


def _count_instructions(column: int) -> int:
    return sum(numbers[column] is not None for numbers in _ALLOWED.values()) + 6


def _build_filter(architecture: int, column: int, process: int) -> Iterator[Instruction]:
    """Yield the filter; another architecture ends the process, as its numbers mean other calls."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _IF_EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    if column == 0:
        yield _IF_LEAST, 0, 1, _X32
        yield _RETURN, 0, 0, _KILL
    for numbers in _ALLOWED.values():
        if (number := numbers[column]) is not None:
            yield _IF_EQUAL, 0, 1, number
            yield _RETURN, 0, 0, _ALLOW
    yield from _allow_if(_MMAP[column], _test_masked(2, _EXECUTABLE, 0))
    yield from _allow_if(_MPROTECT[column], _test_masked(2, _EXECUTABLE, 0))
    yield from _allow_if(_CLONE[column], _test_masked(0, _THREAD, _THREAD))
    yield from _allow_if(_TGKILL[column], _test_equal(0, process))
    # To read one of its limits, not to set one.
    nothing = [*_test_equal(0, 0), *_test_equal(2, 0), *_test_equal(2, 0, high=True)]
    yield from _allow_if(_PRLIMIT[column], nothing)
    yield from _allow_if(_STAT_AT[column], _test_equal(3, _EMPTY_PATH))
    # Its flags are in memory, where filters cannot look: the C library falls back to clone.
    yield _IF_EQUAL, 0, 1, _CLONE3[column]
    yield _RETURN, 0, 0, _ERROR | errno.ENOSYS
    yield _RETURN, 0, 0, _ERROR | errno.EPERM


def _allow_if(number: int, conditions: list[Instruction]) -> Iterator[Instruction]:
    """Yield a rule that allows a call if its arguments pass every condition, and else refuses."""
    length = len(conditions) + 2
    yield _IF_EQUAL, 0, length, number
    for index, (code, true, false, operand) in enumerate(conditions):
        if code == _IF_EQUAL:
            true, false = 0, length - 2 - index  # to the last step, which refuses
        yield code, true, false, operand
    yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _ERROR | errno.EPERM


def _test_masked(argument: int, mask: int, wanted: int) -> list[Instruction]:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_AND, 0, 0, mask),
        (_IF_EQUAL, 0, 0, wanted),
    ]


def _test_equal(argument: int, wanted: int, *, high: bool = False) -> list[Instruction]:
    """Compare the lower or upper half of an argument; both architectures are little-endian."""
    offset = _ARGUMENTS + 8 * argument + 4 * high
    return [(_LOAD, 0, 0, offset), (_IF_EQUAL, 0, 0, wanted)]
