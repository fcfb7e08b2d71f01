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
from dgn_engine.confinement.tied_program import tied_command
made = {start}
made.stdout.readline()
print(made.pid, flush=True)
time.sleep(600)
"""
WATCHED = "from dgn_engine.confinement import parent_watch; parent_watch.LEAVE = 0.1; "


def started(command: str, told: bool = False) -> str:
    """A parent that starts a child; `told`: the child has its number in its environment."""
    more = "env=child_process.python_environment(), " if told else ""
    return PARENT.format(start=f"subprocess.Popen({command}, {more}stdout=subprocess.PIPE)")


def python(code: str) -> str:
    return f"child_process.python_command('-c', {code!r})"


BUSY = """
from dgn_engine.confinement.parent_watch import end_with_parent
from dgn_engine.confinement.process import confine, cut_off
cut_off()
end_with_parent()
confine(600, 1 << 28)
print('busy', flush=True)
while True: pass
"""
STUCK = f"{WATCHED}parent_watch.end_after_parent()\n"  # nothing in it asks for its parent
STUCK += "import ctypes; print('stuck', flush=True); ctypes.CDLL(None).sleep(600)"
LATE = f"{WATCHED}import os; parent = os.getppid(); print('late', flush=True)\n"
LATE += "while os.getppid() == parent: pass\n"  # it is alone before it asks for its parent
CHILDREN = {
    "confined": PARENT.format(
        start=f"child_process.start_confined({python(BUSY)}, subprocess.DEVNULL)"
    ),
    "watched": started(python(STUCK)),
    "tied": started("tied_command(['sh', '-c', 'echo here; exec sleep 600'])"),
    "late": started(python(f"{LATE}parent_watch.end_with_parent()\nwhile True: pass"), told=True),
    "late and watched": started(
        python(f"{LATE}parent_watch.end_after_parent()\nwhile True: pass"), told=True
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends it")
@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_that_computes_ends_with_a_parent_that_is_killed(kind: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILDREN[kind]],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
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
