"""Runs that are trained without a window, and stop or are killed where a test says so."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.headless_run import HeadlessRun, Outcome
from tests.engine.conftest import SMALL

NEVER = 10**9


class StopAfter:
    """Asks to stop after so many steps, as Ctrl-C does, or ends the run by an exception; remembers
    what it heard."""

    def __init__(self, after: int = NEVER, killed: int = NEVER) -> None:
        self.after, self.killed, self.step = after, killed, 0
        self.events: list[Event] = []

    def on_step(self, step: int) -> None:
        self.step = step
        if step == self.killed:
            raise InterruptedError

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def asked(self) -> bool:
        return self.step >= self.after


def train_new_run(
    path: Path, config: RunConfig = SMALL, stop: StopAfter | None = None, *given: Any, **named: Any
) -> Outcome:
    """Train a new run; `given`, `named`: more for `HeadlessRun`."""
    stop = stop or StopAfter()
    with closing(RunFolder.create(path, config)) as folder:
        return HeadlessRun(stop, stop.asked, *given, **named).train(config, folder)


def continue_run(run: Path | RunFolder, stop: StopAfter | None = None) -> Outcome:
    stop = stop or StopAfter()
    folder = RunFolder(run) if isinstance(run, Path) else run
    return HeadlessRun(stop, stop.asked).continue_folder(folder)
