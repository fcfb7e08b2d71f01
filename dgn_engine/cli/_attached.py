"""`dgn` as the child of a window: it ends, its work saved, when its standard input is closed.

`python -m dgn_engine.cli._attached ARGUMENTS`. The parent holds the other end of that pipe: it
closes it to stop the command, and the system does where the parent is killed. Then it ends within
`parent_watch.LEAVE` seconds, whatever it is at. What the parent writes are lines with the pace of
`dgn train` from then on, in steps a second.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from dgn_engine.cli import main
from dgn_engine.confinement.parent_watch import end_after_parent

# It may have been asked by a signal already, as at the end of a desktop's session: SIGUSR1 does not
# count as a second one. Windows has none.
_ASKED = getattr(signal, "SIGUSR1", signal.SIGTERM)


class WindowPace:
    """Steps a second at most, 0 for no limit, as the window sets it; `read` gives what it writes.

    `follow` runs in a thread of its own; `value` is read by the one that trains.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.value = 0.0
        self._read = read

    def follow(self) -> None:
        """Read the paces that the parent writes, a line each, until it closes the pipe."""
        left = b""
        while new := self._read():
            *lines, left = (left + new).split(b"\n")
            for line in lines:
                self.value = float(line)


def _watch(pace: WindowPace) -> None:
    pace.follow()
    if signal.getsignal(_ASKED) == signal.SIG_DFL:  # nothing is begun that could be saved
        os._exit(128 + _ASKED)
    if hasattr(signal, "pthread_kill"):  # it also wakes the main thread out of a call that waits
        signal.pthread_kill(threading.main_thread().ident or 0, _ASKED)
    else:
        signal.raise_signal(_ASKED)


def attached_main() -> int:
    """Run the command of the arguments, watched; its exit code."""
    end_after_parent()
    pace = WindowPace(lambda: os.read(0, 4096))
    threading.Thread(target=_watch, args=(pace,), name="dgn-parent", daemon=True).start()
    return main(pace=lambda: pace.value)


if __name__ == "__main__":
    sys.exit(attached_main())
