"""What the reading process can no longer do once it holds untrusted bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from dgn_engine.confinement.child_process import confined_environment, usable_cores

BEGIN = """
import json, os, resource, socket, subprocess, sys, types
from dgn_engine.confinement import process
codes = [compile(act, "act", "exec") for act in json.loads(sys.argv[1])]
acts = [types.FunctionType(code, globals()) for code in codes]
process.unshare_network()
{before}
process.confine_process(5, 512 << 20)
for act in acts:
    try:
        act()
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("done", flush=True)
"""
NO_HOOK = "process.sys.addaudithook = lambda hook: None"
NO_FILTER = "process.filter_system_calls = process.lock_paths = lambda: None"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")


def said(*acts: str, before: str = "") -> list[str]:
    """What a confined process says after it tried each of these, and the signal that ended it."""
    code = BEGIN.format(before=before)
    done = subprocess.run(
        [sys.executable, "-s", "-P", "-c", code, json.dumps(acts)],
        env=confined_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    ended = [f"signal {-done.returncode}"] if done.returncode < 0 else []
    return [*done.stdout.splitlines(), *ended]


OPENING = ("open('/etc/hosts')", "socket.socket()", "os.pipe()")


@POSIX
def test_reaching_out_or_running_code_ends_the_reading() -> None:
    acts = (
        *("open('/etc/hosts')", "open('made', 'w')", "os.mkdir('made')", "socket.socket()"),
        *("subprocess.Popen(['true'])", "os.system('true')", "exec('1')", "eval('1')"),
        *("__import__('this')", "os.listdir('.')"),
    )
    lines = said(*acts)
    assert len(lines) == len(acts)
    assert [line for line in lines if not line.startswith("Forbidden ")] == []


@POSIX
def test_nothing_can_be_opened_even_where_python_would_let_it() -> None:
    lines = said(*OPENING, before=NO_HOOK)
    assert len(lines) == len(OPENING)
    refusal = re.compile(r"(PermissionError \[Errno 1\]|OSError \[Errno 24\])")
    assert [line for line in lines if not refusal.match(line)] == []


@POSIX
def test_nothing_can_be_opened_on_a_kernel_without_a_filter() -> None:
    lines = said(*OPENING, before=f"{NO_HOOK}; {NO_FILTER}")
    assert len(lines) == len(OPENING)
    assert [line for line in lines if not line.startswith("OSError [Errno 24]")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits that Linux keeps")
def test_memory_beyond_what_a_file_may_need_is_not_given() -> None:
    assert said("bytearray(8 << 30)") == ["MemoryError "]


@POSIX
def test_time_beyond_the_limit_ends_the_process() -> None:
    begin = "resource.setrlimit(resource.RLIMIT_CPU, (1, 2)); resource.setrlimit = print"
    assert said("while True: pass", before=begin)[-1].startswith("signal ")


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces of Linux")
def test_where_the_kernel_allows_it_only_the_loopback_is_left() -> None:
    code = (
        "from pathlib import Path\n"
        "from dgn_engine.confinement.process import unshare_network\n"
        "print(unshare_network(), Path('/proc/self/net/dev').read_text().count(':'))"
    )
    allowed, devices = printed_by(code).split()
    assert allowed == "False" or devices == "1"


def printed_by(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=confined_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_torch_is_not_imported_to_read_a_file_of_torch() -> None:
    child = "import sys, dgn_engine.storage.checkpoints.reader_child"
    assert printed_by(f"{child}; print('torch' in sys.modules)").strip() == "False"


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
