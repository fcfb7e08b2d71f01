"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 as a request to stop that long work asks for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")  # Windows has not all of them
SAME = 1.0  # seconds in which a further signal, but for Ctrl-C, is part of the first request
_WARNING = getattr(signal, "SIGUSR1", None)  # says again what the first one said, and no more
_SHOW_CURSOR = b"\x1b[?25h\n"  # a progress bar hides it


class StopSignals:
    """The first of these signals is remembered; a second one ends the process at once.

    At once: also while the main thread is in a long calculation. What is written by then is whole,
    as after SIGKILL; children find their pipes closed and save themselves. A terminal that is
    closed sends SIGHUP twice, and some supervisors send SIGTERM and SIGHUP together: what comes
    within `SAME` seconds counts once, and SIGUSR1 is never a second one. What is ignored stays
    ignored, as nohup wants it.

    Enter it in the main thread.
    """

    def __init__(self, on_request: Callable[[], object] | None = None) -> None:
        """`on_request` is called in a thread of its own when the first signal comes."""
        self._on_request = on_request
        self._first: int | None = None
        self._since = 0.0

    def requested(self) -> bool:
        return self._first is not None

    @property
    def exit_code(self) -> int:
        """128 + the number of the first signal; of SIGINT where there was none."""
        return 128 + (self._first or signal.SIGINT)

    def __enter__(self) -> StopSignals:
        self._ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._theirs = theirs
        here = [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]
        wanted = [one for one in here if signal.getsignal(one) != signal.SIG_IGN]
        self._before = {one: signal.signal(one, _noticed) for one in wanted}
        self._woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="dgn-signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._woken)
        for one, before in self._before.items():
            signal.signal(one, signal.SIG_DFL if before is None else before)
        self._theirs.close()
        self._thread.join()
        self._ours.close()

    def _listen(self) -> None:
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


def _noticed(_number: int, _frame: object) -> None:
    """Python's own part of the signal; the thread has the number from the interpreter."""
