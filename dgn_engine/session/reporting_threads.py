"""Threads of a session that are joined at its end; their errors become events."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event, Failed, Refused


class ReportingThreads:
    """Starts threads and joins them. `closing` is set once their results are no longer needed."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []

    def start_thread(self, name: str, act: Callable[[], object]) -> None:
        thread = threading.Thread(target=act, name=name, daemon=True)
        self.threads = [*(running for running in self.threads if running.is_alive()), thread]
        thread.start()

    def start_reporting(self, name: str, act: Callable[[], None], what: str, failed: str) -> None:
        """Run `act` in a thread; a `UserError` refuses `what`, any other error is reported as
        `failed`."""

        def run_guarded() -> None:
            try:
                act()
            except UserError as refusal:
                if not self.closing.is_set():
                    self._emit(Refused.from_error(what, refusal))
            except Exception as error:  # an internal error must not be silent
                self._emit(Failed(f"{failed}: {error}.", traceback.format_exc()))

        self.start_thread(name, run_guarded)

    def close(self, patience: float) -> None:
        """Wait up to `patience` seconds for each thread."""
        self.closing.set()
        for thread in self.threads:
            thread.join(timeout=patience)
