"""The engine in a background thread: commands in, events and frames out. Never imports Qt.

torch is imported in the thread, so that a window can be shown before it is loaded.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Failed, Shutdown, Stopped
from dgn_engine.protocol.training import CancelLoading
from dgn_engine.session.mailbox import Mailbox

if TYPE_CHECKING:
    from dgn_engine.session.engine import Engine

IDLE = 0.25  # seconds between two rounds of readings of a paused run


class ThreadSession:
    """One engine, one thread. The viewer polls `drain_events` and `take_latest_frame`; the engine
    never waits."""

    def __init__(self, data_root: str = "", runs_root: str = "") -> None:
        self._mailbox = Mailbox()
        self._data_root = data_root
        self._runs_root = runs_root
        self.obeyed = 0  # commands so far, each counted after its events were emitted
        self._thread = threading.Thread(target=self._run_engine, name="dgn-engine", daemon=True)

    def start(self) -> None:
        """Start the thread; `EngineReady` follows when torch is loaded."""
        self._thread.start()

    def send(self, command: Command) -> None:
        """Send a command; it is obeyed between two steps, but cancelling takes effect at once."""
        if isinstance(command, (CancelLoading, Shutdown)):
            self._mailbox.cancelled.set()
        self._mailbox.commands.put(command)

    def set_wakeup(self, tell: Callable[[], None]) -> None:
        self._mailbox.set_wakeup(tell)

    def drain_events(self) -> list[Event]:
        return self._mailbox.drain_events()

    def take_latest_frame(self) -> Frame | None:
        return self._mailbox.take_latest_frame()

    def close(self, timeout: float = 10.0) -> bool:
        """Ask the thread to end after the current step; return True if it ended in time."""
        if not self._thread.is_alive():
            return True
        self.send(Shutdown())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run_engine(self) -> None:
        try:
            from dgn_engine.session.engine import Engine

            mailbox = self._mailbox
            engine = Engine(
                mailbox.emit, mailbox.publish, self._data_root, self._runs_root, mailbox.cancelled
            )
            try:
                engine.emit_ready()
                self._serve_commands(engine)
            finally:
                engine.close()
        except Exception as error:  # the last resort of the thread
            self._mailbox.emit(Failed(f"The engine stopped: {error}", traceback.format_exc()))
        finally:
            self._mailbox.emit(Stopped())

    def _serve_commands(self, engine: Engine) -> None:
        commands = self._mailbox.commands
        while True:
            wait = engine.next_step_in()
            if wait != 0.0 or not commands.empty():
                command = self._next_command(IDLE if wait is None else wait)
                while command is not None:
                    engine.handle_command(command)
                    self.obeyed += 1
                    if isinstance(command, Shutdown):
                        return
                    command = self._next_command(0.0)
                if (engine.next_step_in() or 0.0) > 0.0:
                    continue
            engine.advance(is_idle=commands.empty)

    def _next_command(self, wait: float) -> Command | None:
        try:
            if wait <= 0.0:
                return self._mailbox.commands.get_nowait()
            return self._mailbox.commands.get(timeout=wait)
        except queue.Empty:
            return None
