"""What a confined process can no longer do below Python: raw system calls, by their numbers."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.confinement import landlock, process, seccomp
from dgn_engine.confinement.child_process import confined_environment
from dgn_engine.confinement.trial import confinement_here

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp of Linux")

MACHINE = os.uname().machine if sys.platform == "linux" else ""
KNOWN = MACHINE in ("x86_64", "aarch64")
NO_NUMBERS = pytest.mark.skipif(not KNOWN, reason="the numbers of this architecture are not known")
# Name → number on x86_64 and on aarch64, and arguments that would do something, or fail otherwise
# than with EPERM; written down here a second time, so that a wrong number in the filter is seen.
CALLS: dict[str, tuple[tuple[int | None, int | None], str]] = {
    "open for writing": ((2, None), "b'/dev/null', 1, 0"),
    "openat for writing": ((257, 56), "-100, b'/dev/null', 1, 0"),
    "openat for reading": ((257, 56), "-100, b'/dev/null', 0, 0"),
    "openat2": ((437, 437), "-100, b'/dev/null', bytes(24), 24"),
    "creat": ((85, None), "b'/dev/null', 0"),
    "open by handle": ((304, 265), "-100, bytes(64), 0"),
    "mkdirat": ((258, 34), "-100, b'/', 0"),
    "unlinkat": ((263, 35), "-100, b'/nowhere', 0"),
    "renameat2": ((316, 276), "-100, b'/nowhere', -100, b'/none', 0"),
    "symlinkat": ((266, 36), "b'x', -100, b'/'"),
    "mknodat": ((259, 33), "-100, b'/', 0, 0"),
    "fchmodat": ((268, 53), "-100, b'/nowhere', 0"),
    "truncate": ((76, 45), "b'/nowhere', 0"),
    "ftruncate": ((77, 46), "1, 0"),
    "stat of a path": ((262, 79), "-100, b'/', bytes(256), 0"),
    "stat of what is open, and more": ((262, 79), "0, b'', bytes(256), 0x1100"),
    "socket": ((41, 198), "2, 1, 0"),
    "a socket of the file system": ((41, 198), "1, 1, 0"),
    "connect": ((42, 203), "0, bytes(16), 16"),
    "execve": ((59, 221), "b'/nowhere', None, None"),
    "execveat": ((322, 281), "-100, b'/nowhere', None, None, 0"),
    "fork": ((57, None), ""),
    "vfork": ((58, None), ""),
    "clone without a thread": ((56, 220), "17, None, None, None, None"),
    # The kernel itself refuses these with EINVAL, so that none begins where the filter lets it by.
    "clone of a thread with its own memory": ((56, 220), "0x10800, None, None, None, None"),
    "clone of a thread with its own signals": ((56, 220), "0x10100, None, None, None, None"),
    "clone of a process in this memory": ((56, 220), "0x20b00, None, None, None, None"),
    "kill": ((62, 129), "os.getppid(), 0"),
    "kill of oneself": ((62, 129), "os.getpid(), 0"),
    "tgkill of another": ((234, 131), "os.getppid(), os.getppid(), 0"),
    "tkill": ((200, 130), "os.getppid(), 0"),
    "a queued signal": ((129, 138), "os.getppid(), 10, bytes(128)"),
    "ptrace": ((101, 117), "16, 1 << 30, None, None"),
    "memory of another": ((311, 271), "os.getppid(), None, 0, None, 0, 0"),
    "mount": ((165, 40), "None, b'/nowhere', None, 0, None"),
    "unshare": ((272, 97), "0"),
    "setns": ((308, 268), "0, 0"),
    "chroot": ((161, 51), "b'/nowhere'"),
    "prlimit of its own": ((302, 261), "0, 7, (ctypes.c_ulong * 2)(64, 64), None"),
    "prlimit of another": ((302, 261), "os.getppid(), 7, None, bytes(16)"),
    "prlimit from memory above 4 GiB": ((302, 261), "0, 7, 1 << 32, None"),
    "setrlimit": ((160, 164), "7, (ctypes.c_ulong * 2)(64, 64)"),
    "memory that is run": ((9, 222), "None, 4096, 5, 0x22, -1, 0"),
    "memory that becomes code": ((10, 226), "page, 4096, 5"),
    "memory with a key": ((329, 288), "page, 4096, 5, -1"),
    "a file in memory": ((319, 279), "b'x', 0"),
    "a ring of requests": ((425, 425), "1, bytes(120)"),
    "bpf": ((321, 280), "0, bytes(64), 64"),
    "userfaultfd": ((323, 282), "1"),
    "a counter of events": ((298, 241), "bytes(128), 0, -1, -1, 0"),
    "keys": ((250, 219), "0, -3, 0"),
    "prctl": ((157, 167), "3, 0, 0, 0, 0"),
    "ioctl": ((16, 29), "0, 0x5412, b'x'"),
    "fcntl": ((72, 25), "0, 0, 0"),
    "dup": ((32, 23), "0"),
    "shared memory": ((29, 194), "0, 4096, 0o1600"),
    "personality": ((135, 92), "0xffffffff"),
    "reboot": ((169, 142), "0, 0, 0, None"),
    "a call of the future": ((5000, 5000), "0"),
}
BEGIN = """
import ctypes, errno, json, os, sys, threading
import numpy as np
from dgn_engine.confinement import landlock, process, seccomp
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
kept = []
def call(number, *arguments):
    typed = []
    for one in arguments:
        if isinstance(one, bytes):
            one = ctypes.create_string_buffer(one)
            kept.append(one)
        typed.append(one if isinstance(one, ctypes.Array) else ctypes.c_void_p(one))
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *typed)
    return result, errno.errorcode.get(ctypes.get_errno(), '')
def say(thing):
    sys.stdout.write(json.dumps(thing) + '\\n')
    sys.stdout.flush()
"""


def child(code: str, **environment: str) -> tuple[Any, int, str]:
    """What a process says that runs this code, its exit code and its errors."""
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-c", BEGIN + code],
        env=confined_environment() | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout or "null"), done.returncode, done.stderr


@pytest.fixture(scope="module")
def raw() -> dict[str, tuple[int, str]]:
    """What every call of the table gave in a process that is confined in C alone."""
    column = ("x86_64", "aarch64").index(MACHINE)
    tried = {name: (numbers[column], how) for name, (numbers, how) in CALLS.items()}
    lines = [
        f"found[{name!r}] = call({number}, {how})"
        for name, (number, how) in tried.items()
        if number is not None
    ]
    held = "process.confine_c_code(20, 512 << 20)\nfound = {}\n"
    answer, code, errors = child(held + "\n".join(lines) + "\nsay(found)")
    assert code == 0, errors
    return dict(answer)


@NO_NUMBERS
@pytest.mark.parametrize("name", CALLS)
def test_a_raw_call_is_refused(name: str, raw: dict[str, tuple[int, str]]) -> None:
    if name not in raw:
        pytest.skip(f"{MACHINE} has no such call")
    assert raw[name] == [-1, "EPERM"]


@NO_NUMBERS
def test_the_same_calls_do_something_without_the_filter() -> None:
    column = ("x86_64", "aarch64").index(MACHINE)
    names = ("openat for writing", "socket", "kill", "execve", "memory that is run", "prctl")
    lines = [f"found[{n!r}] = call({CALLS[n][0][column]}, {CALLS[n][1]})" for n in names]
    answer, _, errors = child("found = {}\n" + "\n".join(lines) + "\nsay(found)")
    assert {error for _, error in answer.values()} <= {"", "ENOENT"}, errors


@NO_NUMBERS
def test_threads_that_were_there_before_are_held_too() -> None:
    number = (257, 56)[MACHINE == "aarch64"]
    code = f"""
go, found = threading.Event(), []
def late():
    go.wait()
    found.append(call({number}, -100, b'/dev/null', 1, 0))
thread = threading.Thread(target=late)
thread.start()
seccomp.filter_system_calls()
go.set()
thread.join()
say(found)
"""
    answer, _, errors = child(code)
    assert answer == [[-1, "EPERM"]], errors


def test_numpy_computes_in_threads_of_its_own_after_confinement() -> None:
    code = """
process.confine_process(60, 2 << 30)
matrix = np.ones((700, 700))
product = matrix @ matrix
found = []
threads = [threading.Thread(target=lambda: found.append(1)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
large = np.zeros(30_000_000)
large[::512] = 1
grown = bytearray()
for _ in range(200):
    grown += bytes(1 << 18)
say([float(product[0, 0]), len(found), float(large.sum()), len(grown)])
"""
    answer, _, errors = child(code, OPENBLAS_NUM_THREADS="4", OMP_NUM_THREADS="4")
    assert answer == [700.0, 8, 58594.0, 200 << 18], errors


def test_what_is_open_is_read_and_sought_after_confinement() -> None:
    code = (
        "file = open(sys.executable, 'rb', 0)\n"
        "process.confine_process(20, 512 << 20)\n"
        "first = file.read(4)\n"
        "file.seek(0, 2)\n"
        "end = file.tell()\n"
        "file.seek(1)\n"
        "say([list(first), end, list(file.read(3)), list(os.pread(file.fileno(), 4, 0))])"
    )
    size = Path(sys.executable).stat().st_size
    elf = [127, 69, 76, 70]
    answer, _, errors = child(code)
    assert answer == [elf, size, elf[1:], elf], errors


@NO_NUMBERS
@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is a second set of numbers of x86_64")
def test_numbers_of_another_architecture_end_the_process() -> None:
    _, code, _ = child("process.confine_c_code(20, 512 << 20)\ncall(0x40000000 + 39)\nsay('on')")
    assert code == -31  # SIGSYS


def test_a_confined_process_can_still_end_itself_by_a_signal() -> None:
    _, code, _ = child("process.confine_c_code(20, 512 << 20)\nlibc.abort()")
    assert code == -6


def test_landlock_alone_takes_paths_and_signals() -> None:
    held = landlock_version()
    if held < 1:
        pytest.skip("this kernel has no Landlock")
    code = (
        "before = libc.open(b'/dev/null', os.O_RDONLY)\n"
        "landlock.lock_paths()\n"
        "ctypes.set_errno(0)\n"
        "after = libc.open(b'/dev/null', os.O_RDONLY), ctypes.get_errno()\n"
        "sent = libc.kill(os.getppid(), 0)\n"
        "say([before >= 0, after, sent])"
    )
    answer, _, errors = child(code)
    assert answer[:2] == [True, [-1, errno.EACCES]], errors
    assert held < 6 or answer[2] == -1


def landlock_version() -> int:
    answer, _, _ = child("say(call(444, None, 0, 1)[0])")
    return int(answer)


def test_an_architecture_without_a_list_goes_on_and_says_so() -> None:
    code = (
        "class Old: machine = 'riscv64'\n"
        "os.uname = Old\n"
        "held = process.confine_c_code(20, 512 << 20)['seccomp']\n"
        "say([held.holds, held.about, float(np.ones(3).sum())])"
    )
    (holds, about, computed), _, errors = child(code)
    assert (holds, computed) == (False, 3.0), errors
    assert "riscv64" in about


def test_a_kernel_without_landlock_goes_on_and_says_so() -> None:
    code = (
        "def old(libc, number, *_):\n"
        "    ctypes.set_errno(errno.ENOSYS)\n"
        "    return -1\n"
        "landlock._call_kernel = old\n"
        "held = process.confine_c_code(20, 512 << 20)\n"
        "say([held['Landlock'].holds, held['Landlock'].about != '', held['limits'].holds])"
    )
    answer, _, errors = child(code)
    assert answer == [False, True, True], errors


def test_another_system_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (landlock, seccomp):
        monkeypatch.setattr(module.sys, "platform", "darwin")
    assert not landlock.lock_paths().holds
    assert not seccomp.filter_system_calls().holds
    monkeypatch.setattr(process.sys, "platform", "win32")
    assert not any(layer.holds for layer in process.confine_c_code(1, 1).values())


def test_a_trial_says_what_holds_here() -> None:
    found = confinement_here()
    assert found["layers"]["audit hook"]["holds"]
    assert found["layers"]["limits"]["holds"]
    assert found["layers"]["seccomp"]["holds"] or not KNOWN
    refused = {name for name, attempt in found["attempts"].items() if attempt["refused"]}
    assert refused == set(found["attempts"]) or not found["layers"]["seccomp"]["holds"]
    assert {"start a process", "open a connection", "trace another process"} <= set(
        found["attempts"]
    )
