"""No child outlives the program that started it for long, whatever it is at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from dgn_engine.confinement.child_process import start_confined
from tests.engine.confinement.living import is_running

PARENT = """
import subprocess, sys, time
from dgn_engine.confinement import child_process
busy = "from dgn_engine.confinement.process import *; from dgn_engine.confinement.parent_watch " \\
    "import end_with_parent; cut_off(); end_with_parent(); " \\
    "confine(600, 1 << 28); print('busy', flush=True)\\nwhile True: pass"
made = child_process.start_confined([sys.executable, "-s", "-P", "-c", busy], subprocess.DEVNULL)
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(600)
"""


# The child does not return from a call of C, and nothing in it asks for its parent.
OF_A_WATCHED_ONE = """
import subprocess, sys, time
from dgn_engine.confinement import child_process
stuck = "import ctypes; from dgn_engine.confinement import parent_watch; " \
    "parent_watch.LEAVE = 0.1; parent_watch.end_after_parent(); print('stuck', flush=True); " \
    "ctypes.CDLL(None).sleep(600)"
made = subprocess.Popen(child_process.python_command("-c", stuck), stdout=subprocess.PIPE)
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(600)
"""
# It is alone before it asks for its parent.
OF_A_LATE_ONE = """
import subprocess, sys, time
from dgn_engine.confinement import child_process
late = "import os; from dgn_engine.confinement import parent_watch; " \\
    "parent_watch.LEAVE = 0.1; parent = os.getppid(); print('late', flush=True)\\n" \\
    "while os.getppid() == parent: pass\\n" \\
    "parent_watch.ASK()\\nwhile True: pass"
made = subprocess.Popen(
    child_process.python_command("-c", late),
    env=child_process.python_environment(), stdout=subprocess.PIPE)
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(600)
"""
OF_A_TIED_ONE = """
import subprocess, sys, time
from dgn_engine.confinement import child_process
from dgn_engine.confinement.tied_program import tied_command
made = subprocess.Popen(
    tied_command(["sh", "-c", "echo here; exec sleep 600"]), stdout=subprocess.PIPE)
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends it")
@pytest.mark.parametrize(
    "script",
    [
        PARENT,
        OF_A_WATCHED_ONE,
        OF_A_TIED_ONE,
        OF_A_LATE_ONE.replace("ASK", "end_with_parent"),
        OF_A_LATE_ONE.replace("ASK", "end_after_parent"),
    ],
    ids=["confined", "watched", "tied", "late", "late and watched"],
)
def test_a_child_that_computes_ends_with_a_parent_that_is_killed(script: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    while is_running(pid):  # the test's own limit of time ends this
        time.sleep(0.02)


def test_ctrl_c_of_a_terminal_does_not_reach_a_child() -> None:
    if os.name != "posix":
        pytest.skip("groups of processes are of POSIX")
    with start_confined([sys.executable, "-c", "input()"], subprocess.PIPE) as made:
        assert os.getpgid(made.pid) == made.pid != os.getpgid(0)
