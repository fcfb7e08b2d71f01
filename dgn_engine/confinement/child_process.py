"""Start, read, bound and end every child process of the program.

What each part guards against; trusted children are no exception.

- `-s` (`python_command`): modules of the user site, where any program may put some.
- `-P`, and `PYTHONPATH` of absolute folders (`python_environment`): modules in the current folder,
  which a stranger may have filled.
- `run_module` (`module_command`): settings, programs and libraries in the current folder that an
  environment variable names; the child runs there because its user does.
- `own_folder`, for a child that reads no file by its name: the same, without exception.
- `confined_environment`: anything that a variable would make a library load, print or start in a
  process that parses untrusted bytes; its threads, and its use of a GPU.
- `confined_command`: the child gives up network, files, memory and time before it reads
  (`child_entry.begin_child`, `process.confine_process`).
- Pipes: no other descriptor is inherited. A confined child sends numbers and text, never pickles;
  its reader bounds every length. Its error output is dropped.
- A separate process group: Ctrl-C in a terminal does not reach it, so that its parent ends it in
  the right order; and what it has started ends with it.
- The process id of its parent (`PARENT`): an orphaned child ends itself (`parent_watch`).
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from dgn_engine.confinement.start_folder import PARENT, import_folders, safe_environment

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
NO_SENSE = "its reader process gave an invalid answer"
TICK = 0.05  # seconds between checks whether to kill a child
_LAST = 1.0  # seconds for a reader to end after its answer was cut off
_PIPE_SIZE = 1 << 20  # bytes buffered between both processes, if the system allows it
_BUFFER = 1 << 18
_BELOW_NORMAL = 0x00004000  # Windows priority class
_NICEST = 19


class ChildEnded(Exception):  # noqa: N818 - a verdict on what it was reading
    """A child gives no more answers; how that happened, to end a sentence."""


class ChildProcess:
    """A process started by this one; as a context it leaves no process or pipe behind.

    One thread may write to it and one read from it; `kill` is thread-safe.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stdin: IO[bytes] | int = DEVNULL,
        stdout: IO[bytes] | int = PIPE,
        keep_errors: bool = False,
        own_group: bool = True,
        large_pipes: bool = False,
        lower_by: int | None = None,
    ) -> None:
        """Start `command` (`module_command`, `confined_command`, or a program's absolute path).

        Args:
            environment: All variables of the child; None: those of `python_environment`.
            folder: Its current folder; None: that of this process.
            stdin: `PIPE`, `DEVNULL`, or a file that it reads.
            stdout: The same, or a file that it writes.
            keep_errors: Keep its stderr for `last_error_line`, instead of dropping it.
            own_group: Shield it from Ctrl-C, and kill what it started with it.
            large_pipes: Use large pipe buffers.
            lower_by: Its niceness above that of this process, or 0 if it changes its own; on
                Windows its priority class is below normal in any case.

        Raises:
            OSError: No process can be started.
        """
        self.killed = ""  # the reason, to end a sentence
        self._group = own_group and os.name == "posix"
        self._asked: float | None = None  # when the current wait for it began
        self._errors: IO[bytes] | None = None
        if keep_errors:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        low = lower_by is not None and sys.platform == "win32"
        try:
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=self._errors or DEVNULL,
                bufsize=_BUFFER if large_pipes else -1,
                pipesize=_PIPE_SIZE if large_pipes else -1,
                env=python_environment() if environment is None else environment,
                cwd=folder,
                process_group=0 if self._group else None,
                creationflags=_BELOW_NORMAL if low else 0,
            )
        except OSError:
            if self._errors is not None:
                self._errors.close()
            raise
        if lower_by and hasattr(os, "setpriority"):  # before it has threads, which inherit it
            with suppress(OSError):
                nice = os.getpriority(os.PRIO_PROCESS, 0) + lower_by
                os.setpriority(os.PRIO_PROCESS, self.pid, min(nice, _NICEST))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while running."""
        return self._process.poll()

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def seconds_blocked(self) -> float:
        """Seconds that `write` or `read` has been waiting for it; 0 if neither is."""
        asked = self._asked
        return 0.0 if asked is None else time.monotonic() - asked

    def write(self, content: bytes) -> None:
        """Write all of it; raises `ChildEnded`."""
        with self._blocking_io():
            self.stdin.write(content)
            self.stdin.flush()

    def read(self, length: int) -> bytes:
        """Read exactly `length` bytes; raises `ChildEnded`."""
        with self._blocking_io():
            content = self.stdout.read(length)
            if len(content) != length:
                raise EOFError
        return content

    @contextmanager
    def _blocking_io(self) -> Iterator[None]:
        self._asked = time.monotonic()
        try:
            yield
        except (EOFError, OSError, ValueError):
            raise ChildEnded(self.describe_reader_end()) from None
        finally:
            self._asked = None

    def read_all(self, seconds: float) -> bytes:
        """Return all its output until it ends; raises `TimeoutError` after `seconds`."""
        try:
            return self._process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(str(late)) from None

    def last_error_line(self) -> str:
        """Return the last line of its stderr, with `keep_errors`, once it has ended."""
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for its end, and return `exit_code`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    @contextmanager
    def killed_when(self, over: Callable[[], str]) -> Iterator[None]:
        """Within the block, kill the child as soon as `over` returns a reason, stored in `killed`.

        A reader then finds the pipe closed.
        """
        finished = threading.Event()

        def kill_when_over() -> None:
            while not finished.wait(TICK):
                if reason := over():
                    self.kill(reason)
                    return

        guard = threading.Thread(target=kill_when_over, name="dgn-child-guard", daemon=True)
        guard.start()
        try:
            yield
        finally:
            finished.set()
            guard.join()

    def kill(self, why: str = "") -> None:
        """Kill it, and what it started in its own group."""
        self.killed = self.killed or why
        if self._group and self._process.returncode is None:  # its id is not reused yet
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()

    def close_input(self) -> None:
        """Close its standard input, which ends our children."""
        if self._process.stdin is not None:
            with suppress(OSError):  # unwritten data
                self._process.stdin.close()

    def close(self, grace: float = 0.0) -> None:
        """Close its input, wait `grace` seconds, then kill it; wait for its end and close pipes."""
        if grace:
            self.close_input()
            self.wait(grace)
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with suppress(OSError):  # unwritten data
                    pipe.close()

    def describe_reader_end(self) -> str:
        """Return how a child ended that gave no valid answer, to end a sentence."""
        code = self.wait(_LAST)
        if code is None:
            return NO_SENSE
        return self.killed or f"its reader process ended early ({describe_end(code)})"


def start_confined(command: Sequence[str], stdin: IO[bytes] | int) -> ChildProcess:
    """Start a child that parses untrusted bytes, by `confined_command`; raises `OSError`."""
    return ChildProcess(
        command,
        environment=confined_environment(),
        folder=own_folder(),
        stdin=stdin,
        large_pipes=True,
    )


def describe_end(code: int | None, known: Mapping[int, str] | None = None) -> str:
    """Return how a process ended: 'signal 9', 'exit code 1', or what is `known` of this code."""
    if known and code is not None and code in known:
        return known[code]
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def python_command(*words: str) -> list[str]:
    """Return the command of a Python that ignores the current folder (`-P`) and user site (`-s`).

    Packages in the user site are found through `python_environment`.
    """
    return [sys.executable, "-s", "-P", *words]


def module_command(module: str) -> list[str]:
    """Return the command that runs one of our modules in the user's current folder.

    In a bundle (packaging/) `sys.executable` is our own program, which uses no user site or current
    folder; its launcher understands `-m MODULE` and none of Python's other options.
    """
    return _module_command("dgn_engine.confinement.run_module", module)


def confined_command(module: str, seconds: float, *words: str) -> list[str]:
    """Return the command of a confined process in one of our folders.

    Its first argument is the number of seconds it may compute.
    """
    return _module_command(module, str(max(1, math.ceil(seconds))), *words)


def _module_command(*words: str) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "-m", *words]
    return python_command("-m", *words)


def own_folder() -> Path:
    """Return a folder for a child that reads no file: Python's, not the user's current one."""
    return Path(sys.executable).parent


def confined_environment() -> dict[str, str]:
    """Return a small environment: module folders, one thread, no GPU."""
    kept = (
        "PATH",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "HOME",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        PARENT,
        *one_thread(),
    )
    environment = python_environment() | one_thread()
    return {
        **{key: environment[key] for key in kept if key in environment},
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def python_environment() -> dict[str, str]:
    """Return the environment of a child: this process's, without the current folder.

    It includes the parent's process id, for `parent_watch`.
    """
    folders = os.pathsep.join(import_folders())
    return {**safe_environment(), "PYTHONPATH": folders, PARENT: str(os.getpid())}


def one_thread() -> dict[str, str]:
    """Return the variables that make libraries use only the CPU, with one thread."""
    return {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
