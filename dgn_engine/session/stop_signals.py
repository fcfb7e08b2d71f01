"""Turn Ctrl+C, SIGTERM, SIGHUP and SIGUSR1 into a stop request that long work can poll."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")  # not all exist on Windows
SAME = 1.0  # seconds in which further signals, except Ctrl+C, belong to the first request
_WARNING = getattr(signal, "SIGUSR1", None)  # only ever repeats the first request
_SHOW_CURSOR = b"\x1b[?25h\n"  # a progress bar hides it


class StopSignals:
    """Remembers the first of these signals; a second one ends the process at once.

    At once means even while the main thread is in a long computation. What is written by then is
    intact, as after SIGKILL; children find their pipes closed and save themselves. A closing
    terminal sends SIGHUP twice, and some supervisors send SIGTERM and SIGHUP together, so signals
    within `SAME` seconds count once; SIGUSR1 never counts as a second one. Ignored signals stay
    ignored, as nohup needs.

    Enter it in the main thread.
    """

    def __init__(self, on_request: Callable[[], object] | None = None) -> None:
        """`on_request` is called in its own thread when the first signal arrives."""
        self._on_request = on_request
        self._first: int | None = None
        self._since = 0.0

    def stop_requested(self) -> bool:
        return self._first is not None

    @property
    def exit_code(self) -> int:
        """128 + the number of the first signal, or of SIGINT if there was none."""
        return 128 + (self._first or signal.SIGINT)

    def __enter__(self) -> StopSignals:
        self._ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._theirs = theirs
        available = [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]
        handled = [number for number in available if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, _do_nothing) for number in handled}
        self._woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(
            target=self._listen_for_signals, name="dgn-signals", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._woken)
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._theirs.close()
        self._thread.join()
        self._ours.close()

    def _listen_for_signals(self) -> None:
        while numbers := self._ours.recv(64):
            for number in numbers:
                if number in self._before:
                    self._on_signal(number)

    def _on_signal(self, number: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._since = number, now
            if self._on_request is not None:
                self._on_request()
        elif number == signal.SIGINT or (number != _WARNING and now - self._since > SAME):
            with contextlib.suppress(OSError):
                if os.isatty(2):
                    os.write(2, _SHOW_CURSOR)
            os._exit(128 + number)


def _do_nothing(_number: int, _frame: object) -> None:
    """Do nothing in Python's own handler; the thread gets the number from the wakeup socket."""
