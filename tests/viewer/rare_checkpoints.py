"""An engine process whose run is written before a swap, and otherwise once an hour."""

from __future__ import annotations

from functools import partial
from multiprocessing.connection import Connection

from dgn_engine.session.process_session import serve_engine


def serve_with_rare_checkpoints(pipe: Connection, data_root: str, runs_root: str) -> None:
    """In the child: `serve_engine`, so that how fast it is decides no test."""
    from dgn_engine.session import run_commands

    quick = run_commands.begin_recording
    run_commands.begin_recording = partial(quick, every=3600.0)  # type: ignore[assignment]
    serve_engine(pipe, data_root, runs_root)
