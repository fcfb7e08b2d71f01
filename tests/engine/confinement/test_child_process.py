"""One way to start, read, bound and end a child: nothing of it is left behind."""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import spawn
from pathlib import Path
from typing import NoReturn

import pytest

from dgn_engine.cli import _attached
from dgn_engine.confinement import child_process
from dgn_engine.confinement.child_process import (
    DEVNULL,
    NO_SENSE,
    PIPE,
    ChildEnded,
    ChildProcess,
    confined_command,
    describe_end,
    module_command,
    own_folder,
    python_command,
    start_confined,
)
from dgn_engine.confinement.spawn_context import SPAWN, end_spawned, start_resource_tracker
from dgn_engine.confinement.start_folder import PARENT
from tests.engine.confinement.living import is_running, open_files

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
SLEEPS = "import time; print('here', flush=True); time.sleep(600)"


def python(code: str) -> list[str]:
    return python_command("-c", code)


@LINUX
def test_a_context_leaves_neither_process_nor_pipe_behind() -> None:
    before = open_files()
    child = ChildProcess(python(SLEEPS), stdin=PIPE, keep_errors=True)
    with pytest.raises(ZeroDivisionError), child:
        1 // int(child.stdout.readline() != b"here\n")
    assert child.exit_code == -9
    assert open_files() == before
    assert not Path(f"/proc/{child.pid}").exists()  # nor as a zombie
    child.kill()  # from another thread, a moment too late
    child.close()


@LINUX
def test_a_program_that_is_not_there_leaves_no_file_open() -> None:
    before = open_files()
    with pytest.raises(OSError, match="No such file"):
        ChildProcess(["/no/such/program"], stdin=PIPE, keep_errors=True)
    assert open_files() == before


@LINUX
def test_what_a_child_has_started_in_its_group_ends_with_it() -> None:
    starts = "import subprocess, sys; made = subprocess.Popen([sys.executable, '-c', "
    starts += "'import time; time.sleep(600)']); print(made.pid, flush=True); made.wait()"
    with ChildProcess(python(starts)) as child:
        started = int(child.stdout.readline())
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        assert is_running(started)
    while is_running(started):  # the test's own limit of time ends this
        time.sleep(0.02)


@pytest.mark.skipif(os.name != "posix", reason="groups of processes are of POSIX")
def test_a_child_without_a_group_of_its_own_is_killed_alone() -> None:
    with ChildProcess(python(SLEEPS), own_group=False) as child:
        assert os.getpgid(child.pid) == os.getpgid(0)
    assert child.exit_code == -9


def test_a_reason_to_kill_ends_the_reading_and_is_kept() -> None:
    threads = threading.active_count()
    late = time.monotonic() + 0.1

    def over() -> str:
        return "late" if time.monotonic() > late else ""

    child = ChildProcess(python(SLEEPS))
    with child, child.killed_when(over), pytest.raises(ChildEnded, match=r"^late$"):
        child.read(100)
    assert child.killed == "late"
    assert threading.active_count() == threads


def test_a_child_is_asked_and_watched_again_and_again() -> None:
    echo = "import sys\nfor line in sys.stdin.buffer:\n"
    echo += "    sys.stdout.buffer.write(line.upper())\n    sys.stdout.flush()"
    threads = threading.active_count()
    with ChildProcess(python(echo), stdin=PIPE) as child:
        for word in (b"one\n", b"another\n"):
            with child.killed_when(lambda: ""):
                child.write(word)
                assert child.read(len(word)) == word.upper()
            assert child.seconds_blocked == 0.0
            assert threading.active_count() == threads
        with child.killed_when(lambda: "late"), pytest.raises(ChildEnded, match="late"):
            child.read(1)
        with pytest.raises(ChildEnded, match="late"):
            child.write(b"more\n")
        assert child.seconds_blocked == 0.0


def test_other_processes_of_multiprocessing_are_started_as_ever() -> None:
    def how() -> tuple[object, ...]:
        made = multiprocessing.spawn.get_preparation_data("one")
        return made["sys_path"], made.get("init_main_from_path"), spawn.get_command_line()

    before = how()
    for _ in range(2):
        start_resource_tracker()
        process = SPAWN.Process(target=print)
        process.start()
        assert end_spawned(process, 60.0) == 0
        assert how() == before
    process = SPAWN.Process(target=time.sleep, args=(600,))
    process.start()
    assert end_spawned(process, 0.0) == -9


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('abc')", r" \(exit code 0\)$"),
        ("raise SystemExit(3)", r" \(exit code 3\)$"),
        ("import os; os.abort()", r" \(signal 6\)$"),
        ("import os, time; os.close(1); time.sleep(600)", f"^{NO_SENSE}$"),
    ],
)
def test_a_child_that_gives_no_sound_answer_is_described(
    code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words == f"^{NO_SENSE}$":  # it does not end
        monkeypatch.setattr(child_process, "_LAST", 0.05)
    with ChildProcess(python(code)) as child, pytest.raises(ChildEnded, match=words):
        child.read(100)


def test_writing_to_a_child_that_has_ended_is_described() -> None:
    with ChildProcess(python("raise SystemExit(4)"), stdin=PIPE) as child:
        child.wait()
        with pytest.raises(ChildEnded, match="exit code 4"):
            child.write(b"order")
        assert child.seconds_blocked == 0.0


def test_all_that_a_child_writes_is_read_or_it_takes_too_long() -> None:
    with ChildProcess(python("print('a' * 100000)")) as child:
        assert len(child.read_all(60.0)) == 100001
        assert child.exit_code == 0
    child = ChildProcess(python("import time; time.sleep(600)"))
    with child, pytest.raises(TimeoutError, match=r"0\.05"):
        child.read_all(0.05)
    assert child.exit_code is not None


def test_the_last_line_that_a_child_complained_is_kept() -> None:
    code = "import sys; sys.stderr.write('first\\nl\\xe4st\\n'); sys.exit(2)"
    with ChildProcess(python(code), stdout=DEVNULL, keep_errors=True) as child:
        assert child.wait() == 2
        assert child.last_error_line() == "läst"
    with ChildProcess(python("pass"), stdout=DEVNULL, keep_errors=True) as child:
        child.wait()
        assert child.last_error_line() == ""


def test_a_child_whose_input_is_closed_may_end_by_itself() -> None:
    child = ChildProcess(python("input_ = __import__('sys').stdin.read()"), stdin=PIPE)
    child.close(grace=60.0)
    assert child.exit_code == 0
    deaf = ChildProcess(python(SLEEPS), stdin=PIPE)
    deaf.close(grace=0.05)
    assert deaf.exit_code != 0


@pytest.mark.skipif(not hasattr(os, "setpriority"), reason="niceness is of POSIX")
@pytest.mark.parametrize(("lower_by", "more"), [(None, 0), (0, 0), (3, 3), (99, 99)])
def test_a_child_is_as_much_nicer_as_it_was_asked(lower_by: int | None, more: int) -> None:
    with ChildProcess(python("input()"), stdin=PIPE, lower_by=lower_by) as child:
        nice = os.getpriority(os.PRIO_PROCESS, child.pid)
    assert nice == min(os.getpriority(os.PRIO_PROCESS, 0) + more, 19)


def test_a_child_knows_its_parent_and_a_confined_one_little_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_SECRET", "x")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    shown = "import json, os, sys; sys.stdout.write(json.dumps([dict(os.environ), os.getcwd()]))"
    with ChildProcess(python(shown)) as child:
        environment, folder = json.loads(child.read_all(60.0))
    assert (environment["DGN_SECRET"], environment["OMP_NUM_THREADS"]) == ("x", "7")
    assert (environment[PARENT], folder) == (str(os.getpid()), str(Path.cwd()))
    with start_confined(python(shown), DEVNULL) as child:
        if hasattr(os, "getpgid"):  # Ctrl+C of a terminal does not reach it
            assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        environment, folder = json.loads(child.read_all(60.0))
    assert "DGN_SECRET" not in environment
    assert (environment["OMP_NUM_THREADS"], environment["CUDA_VISIBLE_DEVICES"]) == ("1", "")
    assert (environment[PARENT], folder) == (str(os.getpid()), os.path.realpath(own_folder()))


def test_every_command_of_python_has_the_safe_flags() -> None:
    commands = (
        python_command("-c", "pass"),
        module_command("dgn_engine.cli._attached"),
        confined_command("dgn_engine.confinement.trial", 0.2, "more"),
    )
    for command in commands:
        assert command[:3] == [sys.executable, "-s", "-P"]
    assert commands[1][3:5] == ["-m", "dgn_engine.confinement.run_module"]
    assert commands[2][3:] == ["-m", "dgn_engine.confinement.trial", "1", "more"]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has other signals")
def test_a_command_of_a_window_that_has_begun_nothing_ends_as_by_the_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the exit code by which a shell names a signal; nobody handles it yet."""

    def leave(code: int) -> NoReturn:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    with pytest.raises(SystemExit) as left:
        _attached._watch_parent(_attached.WindowPace(lambda: b""))
    assert left.value.code == 128 + signal.SIGUSR1


@pytest.mark.parametrize(
    ("code", "words"),
    [(-9, "gone"), (-11, "signal 11"), (0, "exit code 0"), (None, "exit code None")],
)
def test_the_end_of_a_process_has_one_set_of_words(code: int | None, words: str) -> None:
    assert describe_end(code, {-9: "gone"}) == words


# No child outlives the program that started it for long, whatever it is at.

PARENT_PROGRAM = """
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
    return PARENT_PROGRAM.format(start=f"subprocess.Popen({command}, {more}stdout=subprocess.PIPE)")


def python_of_ours(code: str) -> str:
    return f"child_process.python_command('-c', {code!r})"


BUSY = """
from dgn_engine.confinement.parent_watch import end_with_parent
from dgn_engine.confinement.process import confine_process, unshare_network
unshare_network()
end_with_parent()
confine_process(600, 1 << 28)
print('busy', flush=True)
while True: pass
"""
STUCK = f"{WATCHED}parent_watch.end_after_parent()\n"  # nothing in it asks for its parent
STUCK += "import ctypes; print('stuck', flush=True); ctypes.CDLL(None).sleep(600)"
LATE = f"{WATCHED}import os; parent = os.getppid(); print('late', flush=True)\n"
LATE += "while os.getppid() == parent: pass\n"  # it is alone before it asks for its parent
CHILDREN = {
    "confined": PARENT_PROGRAM.format(
        start=f"child_process.start_confined({python_of_ours(BUSY)}, subprocess.DEVNULL)"
    ),
    "watched": started(python_of_ours(STUCK)),
    "tied": started("tied_command(['sh', '-c', 'echo here; exec sleep 600'])"),
    "late": started(
        python_of_ours(f"{LATE}parent_watch.end_with_parent()\nwhile True: pass"), told=True
    ),
    "late and watched": started(
        python_of_ours(f"{LATE}parent_watch.end_after_parent()\nwhile True: pass"), told=True
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
