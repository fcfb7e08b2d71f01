"""Threads of a session, which are waited for at its end; their trouble becomes events."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event, Failed, Refused


class ReportingThreads:
    """`closing` is set once nobody waits for what they do any more."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []

    def start(self, name: str, act: Callable[[], object]) -> None:
        thread = threading.Thread(target=act, name=name, daemon=True)
        self.threads = [*(one for one in self.threads if one.is_alive()), thread]
        thread.start()

    def begin(self, name: str, act: Callable[[], None], what: str, failed: str) -> None:
        """`what` is refused where `act` raises `UserError`; any other fault is told as `failed`."""

        def guarded() -> None:
            try:
                act()
            except UserError as refusal:
                if not self.closing.is_set():
                    self._emit(Refused.from_error(what, refusal))
            except Exception as error:  # a fault of ours must not end silently
                self._emit(Failed(f"{failed}: {error}.", traceback.format_exc()))

        self.start(name, guarded)

    def close(self, patience: float) -> None:
        """Wait so many seconds for each."""
        self.closing.set()
        for thread in self.threads:
            thread.join(timeout=patience)
