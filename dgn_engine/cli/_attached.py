"""`dgn` as a child process of a window: it saves its work and exits when stdin is closed.

`python -m dgn_engine.cli._attached ARGUMENTS`. The parent holds the other end of the pipe and
closes it to stop the command; if the parent is killed, the system closes it. The command then ends
within `parent_watch.LEAVE` seconds, whatever it is doing. Each line that the parent writes sets
the pace of `dgn train`, in steps per second.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from dgn_engine.cli import main
from dgn_engine.confinement.parent_watch import end_after_parent

# Another signal may have arrived before, for example when the desktop session ends; SIGUSR1 does
# not count as a second request. Windows has no SIGUSR1.
_ASKED = getattr(signal, "SIGUSR1", signal.SIGTERM)


class WindowPace:
    """The maximum number of steps per second (0: no limit), as set by the window.

    `read_paces` runs in its own thread; the training thread reads `value`.

    Args:
        read: returns the next bytes from the window, empty at the end of the pipe.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.value = 0.0
        self._read = read

    def read_paces(self) -> None:
        """Read one pace per line until the parent closes the pipe."""
        left = b""
        while new := self._read():
            *lines, left = (left + new).split(b"\n")
            for line in lines:
                self.value = float(line)


def _watch_parent(pace: WindowPace) -> None:
    pace.read_paces()
    if signal.getsignal(_ASKED) == signal.SIG_DFL:  # no work to save yet
        os._exit(128 + _ASKED)
    if hasattr(signal, "pthread_kill"):  # also interrupts a blocking call in the main thread
        signal.pthread_kill(threading.main_thread().ident or 0, _ASKED)
    else:
        signal.raise_signal(_ASKED)


def attached_main() -> int:
    """Run the command line while watching the parent; return the exit code."""
    end_after_parent()
    pace = WindowPace(lambda: os.read(0, 4096))
    threading.Thread(target=_watch_parent, args=(pace,), name="dgn-parent", daemon=True).start()
    return main(pace=lambda: pace.value)


if __name__ == "__main__":
    sys.exit(attached_main())
