"""An engine's process in which CUDA breaks once the run has come to a step."""

from __future__ import annotations

from multiprocessing.connection import Connection

from dgn_engine.session.process_session import serve_engine
from dgn_engine.session.thread_session import ThreadSession

BREAKS_AT = 60


def serve_until_cuda_breaks(pipe: Connection, data_root: str, runs_root: str) -> None:
    """As the real one; a run that was begun here ends in a device-side assertion."""
    loop = ThreadSession._serve_commands

    def broken_loop(session: ThreadSession, engine: object) -> None:
        from dgn_engine.training.trainer import Trainer

        step = Trainer.step
        begun: list[bool] = []  # whether it began here, and was not continued

        def broken(trainer: Trainer) -> None:
            begun.append(trainer.step_count == 0)
            if begun[0] and trainer.step_count >= BREAKS_AT:
                raise RuntimeError("CUDA error: device-side assert triggered")
            step(trainer)

        Trainer.step = broken  # type: ignore[method-assign]
        loop(session, engine)  # type: ignore[arg-type]

    ThreadSession._serve_commands = broken_loop  # type: ignore[method-assign]
    serve_engine(pipe, data_root, runs_root)
