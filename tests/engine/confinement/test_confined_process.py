"""What the reading process can no longer do once it holds untrusted bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from dgn_engine.confinement.child_process import confined_environment, usable_cores

BEGIN = """
import os, resource, socket, subprocess, sys
from dgn_engine.confinement import process
process.cut_off()
{before}
process.confine(5, 512 << 20)
try:
    {act}
except BaseException as error:
    print(type(error).__name__, error)
else:
    print("done")
"""
NO_HOOK = "process.sys.addaudithook = lambda hook: None"
NO_FILTER = "process.filter_system_calls = process.lock_paths = lambda: None"


def said(act: str, before: str = "") -> str:
    """What a confined process says after it tried something."""
    code = BEGIN.format(act=act, before=before)
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-c", code],
        env=confined_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + (f" signal {-done.returncode}" if done.returncode < 0 else "")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize(
    "act",
    [
        "open('/etc/hosts')",
        "open('made', 'w')",
        "os.mkdir('made')",
        "socket.socket()",
        "subprocess.Popen(['true'])",
        "os.system('true')",
        "exec('1')",
        "eval('1')",
        "__import__('this')",
        "os.listdir('.')",
    ],
)
def test_reaching_out_or_running_code_ends_the_reading(act: str) -> None:
    assert said(act).startswith("Forbidden made its reader do what reading needs not")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("act", ["open('/etc/hosts')", "socket.socket()", "os.pipe()"])
def test_nothing_can_be_opened_even_where_python_would_let_it(act: str) -> None:
    assert re.match(r"(PermissionError \[Errno 1\]|OSError \[Errno 24\])", said(act, NO_HOOK))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("act", ["open('/etc/hosts')", "socket.socket()", "os.pipe()"])
def test_nothing_can_be_opened_on_a_kernel_without_a_filter(act: str) -> None:
    assert said(act, f"{NO_HOOK}; {NO_FILTER}").startswith("OSError [Errno 24]")


@pytest.mark.skipif(sys.platform != "linux", reason="limits that Linux keeps")
def test_memory_beyond_what_a_file_may_need_is_not_given() -> None:
    assert said("bytearray(8 << 30)").startswith("MemoryError")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_time_beyond_the_limit_ends_the_process() -> None:
    loop = "while True: pass"
    begin = "resource.setrlimit(resource.RLIMIT_CPU, (1, 2)); resource.setrlimit = print"
    assert "signal" in said(loop, begin)


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces of Linux")
def test_where_the_kernel_allows_it_only_the_loopback_is_left() -> None:
    code = (
        "from pathlib import Path\n"
        "from dgn_engine.confinement.process import cut_off\n"
        "print(cut_off(), Path('/proc/self/net/dev').read_text().count(':'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=confined_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    allowed, devices = done.stdout.split()
    assert allowed == "False" or devices == "1"


def test_torch_is_not_imported_to_read_a_file_of_torch() -> None:
    code = "import sys, dgn_engine.storage.checkpoints.reader_child; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=confined_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 6}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert usable_cores() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(), raising=False)
    assert usable_cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
