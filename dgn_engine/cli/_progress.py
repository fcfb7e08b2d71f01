"""The progress of a run on a terminal: a bar with rate, time left and losses."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dgn_engine.protocol.events import (
    Event,
    Measured,
    RecordingPaused,
    RecordingResumed,
    RegimeSwapped,
    RunContinued,
    RunStarted,
    Working,
)

REFRESH = 0.2  # seconds


class TrainProgressBar:
    """A bar where there is a terminal; elsewhere one line an epoch; nothing when quiet."""

    def __init__(self, stream: TextIO, quiet: bool) -> None:
        self._console = Console(file=stream, quiet=quiet, highlight=False)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]:,.0f} steps/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("reading data", total=None, rate=0.0, scores="")
        self._began = self._shown = time.monotonic()
        self._first = 0  # steps that were done before
        self._train = ""

    def __enter__(self) -> TrainProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def stepped(self, step: int) -> None:
        """Called after each step."""
        now = time.monotonic()
        if now - self._shown >= REFRESH:
            self._shown = now
            rate = (step - self._first) / max(now - self._began, 1e-9)
            self._bar.update(self._task, completed=step, rate=rate)

    def on_event(self, event: Event) -> None:
        """Show what happened."""
        match event:
            case Working():
                percent = "" if event.fraction is None else f" {event.fraction:.0%}"
                self._bar.update(self._task, description=f"{event.what}{percent}")
            case RunStarted():
                self._began = time.monotonic()
                total = event.total_steps or None
                self._bar.update(self._task, description=event.regime, total=total)
            case RegimeSwapped():
                self._bar.update(self._task, description=event.after)
                self._console.print(event.sentence)
            case Measured():
                self._scores(event)
            case RecordingPaused():
                self._console.print(f"{event.reason} Training goes on.")
            case RecordingResumed():
                lost = f"; {event.lost:,} lines of the log are lost" if event.lost else ""
                self._console.print(f"Recording goes on at step {event.step:,}{lost}.")
            case RunContinued():
                self._first = event.step
                self._console.print(f"Continuing at step {event.step:,}.")
                if event.remark:
                    self._console.print(f"Not exact to the last bit: {event.remark}.")
            case _:
                pass

    def _scores(self, event: Measured) -> None:
        self._train = f"loss {event.train_loss:.4f}"
        if event.test_accuracy is None:
            self._bar.update(self._task, scores=self._train)
            return
        scores = f"{self._train} · test {event.test_loss:.4f}, {event.test_accuracy:.2%}"
        self._bar.update(self._task, scores=scores)
        rate = (event.step - self._first) / max(time.monotonic() - self._began, 1e-9)
        self._console.print(f"epoch {event.epoch:.0f}  {scores}  ({rate:,.0f} steps/s)")
