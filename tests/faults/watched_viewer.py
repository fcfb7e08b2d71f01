"""`python -m dgn_viewer` with the time of every step written down where others can read it.

`python -m tests.faults.watched_viewer FILE ARGUMENT …`; the file has eight bytes for each step.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

from dgn_engine.session.thread_session import ThreadSession

STEPS = 100_000  # whose times are kept


def times_of(path: Path) -> list[float]:
    """When each step was taken, by the monotonic clock; the first is that of step 1."""
    content = path.read_bytes()
    times = struct.unpack(f"{len(content) // 8}d", content)[1:]
    return list(times[: next((i for i, at in enumerate(times) if not at), len(times))])


def main(file: str, *arguments: str) -> None:
    """Note the steps, then be the viewer."""
    with Path(file).open("r+b") as opened:
        times = mmap.mmap(opened.fileno(), 8 * STEPS)
    loop = ThreadSession._loop

    def watched_loop(session: ThreadSession, engine: object) -> None:
        from dgn_engine.training.trainer import Trainer  # torch is there now

        step = Trainer.step

        def watched(trainer: Trainer) -> None:
            step(trainer)
            struct.pack_into("d", times, 8 * trainer.step_count, time.monotonic())

        Trainer.step = watched  # type: ignore[method-assign]
        loop(session, engine)  # type: ignore[arg-type]

    ThreadSession._loop = watched_loop  # type: ignore[method-assign]
    sys.argv = ["dgn-viewer", *arguments]
    runpy.run_module("dgn_viewer", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
