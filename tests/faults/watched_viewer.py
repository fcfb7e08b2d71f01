"""`python -m dgn_viewer` with the time of every step written down where others can read it.

`python -m tests.faults.watched_viewer` imports what a viewer imports, then forks one for each line
of JSON that it reads (`Order`), and answers with the number of the process: importing anew would
take most of the time. Nothing of a run is written before.
"""

from __future__ import annotations

import json
import mmap
import os
import runpy
import signal
import struct
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from dgn_engine.session.thread_session import ThreadSession

STEPS = 100_000  # whose times are kept


def times_of(path: Path) -> list[float]:
    """When each step was taken, by the monotonic clock; the first is that of step 1."""
    content = path.read_bytes()
    times = struct.unpack(f"{len(content) // 8}d", content)[1:]
    return list(times[: next((i for i, at in enumerate(times) if not at), len(times))])


@dataclass(frozen=True)
class Order:
    """Of a viewer: its arguments, what it adds to the environment, the file of the times (eight
    bytes for each step), and that of all it says."""

    arguments: list[str]
    environment: dict[str, str]
    times: str
    said: str

    def to_line(self) -> str:
        return json.dumps(asdict(self))


def live(order: Order) -> NoReturn:
    """Be the viewer, in the child."""
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with Path(order.said).open("wb", buffering=0) as said:
            for stream in (1, 2):
                os.dup2(said.fileno(), stream)
        os.environ.update(order.environment)
        watch_steps(Path(order.times))
        sys.argv = ["dgn-viewer", *order.arguments]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it was imported before
            runpy.run_module("dgn_viewer", run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def watch_steps(file: Path) -> None:
    """Write down when each step is taken."""
    with file.open("r+b") as opened:
        times = mmap.mmap(opened.fileno(), 8 * STEPS)
    loop = ThreadSession._serve_commands

    def watched_loop(session: ThreadSession, engine: object) -> None:
        from dgn_engine.training.trainer import Trainer  # torch is there now

        step = Trainer.step

        def watched(trainer: Trainer) -> None:
            step(trainer)
            struct.pack_into("d", times, 8 * trainer.step_count, time.monotonic())

        Trainer.step = watched  # type: ignore[method-assign]
        loop(session, engine)  # type: ignore[arg-type]

    ThreadSession._serve_commands = watched_loop  # type: ignore[method-assign]


def main() -> None:
    """Fork until there are no more lines."""
    from dgn_viewer import application
    from tests.faults.victims import warm_up

    warm_up()
    application.all_panels()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        order = Order(**json.loads(line))
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are not there
            pid = os.fork()
        if pid == 0:
            live(order)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
