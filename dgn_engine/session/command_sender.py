"""Commands on their way to the engine's process, written by a thread of their own.

A process that does not read (it was stopped, or is busy) then holds up nobody who gives commands.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue

from dgn_engine.protocol.messages import Command, Shutdown

MOST = 1000  # commands that may wait for the engine; what is more is refused
TAKEN = "taken"  # parent → child: the last frame was taken, another may be sent


class CommandSender:
    """One pipe's writer. Commands keep their order; a command waits until the engine obeyed it."""

    def __init__(self, pipe: Connection, first: Sequence[Command] = ()) -> None:
        """`first`: commands that stand before all others; they never count as unanswered."""
        self._pipe = pipe
        self._messages: SimpleQueue[Command | str | None] = SimpleQueue()
        for command in first:
            self._messages.put(command)
        self._own = len(first)  # of what is obeyed next, so many are ours
        self._unanswered: deque[Command] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="dgn-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, command: Command) -> bool:
        """Queue a command without waiting; False where too many wait already.

        After `close` nothing is written any more; another `close` returns what came since, too.
        """
        with self._lock:
            if len(self._unanswered) >= MOST and not isinstance(command, Shutdown):
                return False
            self._unanswered.append(command)
            self._messages.put(command)
        return True

    def frame_taken(self) -> None:
        """Ask for another frame. There is at most one such message, so it has no limit."""
        self._messages.put(TAKEN)

    def on_obeyed(self, count: int) -> None:
        """Forget `count` further commands: the engine has obeyed them."""
        with self._lock:
            for _ in range(count):
                if self._own:
                    self._own -= 1
                elif self._unanswered:
                    self._unanswered.popleft()

    def close(self) -> tuple[Command, ...]:
        """Write no more; the commands that were not obeyed. The pipe is to be closed after it."""
        self._closed = True
        self._messages.put(None)
        with self._lock:
            return tuple(self._unanswered)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread, which ends after `close`; whether it has ended."""
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _write(self) -> None:
        while (message := self._messages.get()) is not None and not self._closed:
            try:
                self._pipe.send(message)
            except OSError:  # the process is gone, which the relay notices
                self._closed = True
