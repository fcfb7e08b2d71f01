"""`dgn` in a forked child that can be killed at any moment, and what it had done by then."""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples

STEPS = 100_000  # whose times are kept


@cache
def warm_up() -> None:
    """Import what a run imports on its way, once: children that are forked then have it."""
    load_examples(DataConfig())
    importlib.import_module("torch._dynamo")  # by the first optimiser; seconds
    for name in ("headless_run", "run", "recording", "trainer"):
        importlib.import_module(f"dgn_engine.training.{name}")


class Victim:
    """Forked, because starting Python and torch anew would take most of the time."""

    def __init__(self, work: Callable[[], int]) -> None:
        warm_up()
        self._times = mmap.mmap(-1, 8 * STEPS)
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are not there
            self.pid = os.fork()
        if self.pid == 0:
            self._live(work)

    def kill(self) -> None:
        """SIGKILL: no handler, no goodbye."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = 600.0) -> int:
        """The exit code, or minus the signal."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        self.kill()
        os.waitpid(self.pid, 0)
        raise AssertionError("a child hung")

    def await_step(self, step: int) -> None:
        """Until it has taken this step or a later one, or has ended."""
        while not any(self.time_of(one) for one in range(step, step + 10)):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            time.sleep(0.0005)

    @property
    def last_step(self) -> int:
        """The last step it has taken; 0 where there was none."""
        return max((step for step in range(STEPS // 10) if self.time_of(step)), default=0)

    def time_of(self, step: int) -> float:
        """When it took a step, by the monotonic clock; 0.0 where it did not."""
        found: float = struct.unpack_from("d", self._times, 8 * step)[0]
        return found

    def _live(self, work: Callable[[], int]) -> None:
        code = 70
        try:
            self._watch_steps()
            with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
                code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _watch_steps(self) -> None:
        from dgn_engine.training.trainer import Trainer

        step, times = Trainer.step, self._times

        def watched(trainer: Trainer) -> None:
            step(trainer)
            struct.pack_into("d", times, 8 * trainer.step_count, time.monotonic())

        Trainer.step = watched  # type: ignore[method-assign]  # in the child alone


def environment_with_path(**more: str) -> dict[str, str]:
    """The environment of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def do_nothing() -> None:
    """What is done before a run that is not prepared."""


def fork_dgn(*arguments: str | Path, first: Callable[[], object] = do_nothing) -> Victim:
    """`dgn …` in a child; `first` is called in that child before."""
    words: Sequence[str] = [str(word) for word in arguments]

    def work() -> int:
        first()
        return main(words)

    return Victim(work)
