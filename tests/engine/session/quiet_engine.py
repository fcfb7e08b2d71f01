"""An engine's process without torch: it says that it is ready, and what it was asked."""

from __future__ import annotations

from multiprocessing.connection import Connection

from dgn_engine.protocol.messages import EngineReady, Shutdown, Stopped
from dgn_engine.protocol.training import Advance, Paused


def serve_quietly(pipe: Connection, data_root: str, runs_root: str) -> None:
    """`Advance(n)` is answered by `Paused(n)`; it ends with `Shutdown`, or its parent."""
    pipe.send((EngineReady(None, "none"),))  # type: ignore[arg-type]
    try:
        while True:
            if not pipe.poll(0.05):
                pipe.send(0)
                continue
            command = pipe.recv()
            if isinstance(command, Advance):
                pipe.send((Paused(command.steps),))
                pipe.send(1)
            elif isinstance(command, Shutdown):
                pipe.send((Stopped(),))
                break
    except (EOFError, OSError):
        pass
