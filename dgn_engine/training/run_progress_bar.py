"""Progress bars on a terminal: what they share, and that of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dgn_engine.protocol.messages import Event, Working
from dgn_engine.protocol.runs import (
    RecordingMended,
    RecordingPaused,
    RecordingResumed,
    RecordThinned,
    RunContinued,
)
from dgn_engine.protocol.training import (
    Measured,
    RegimeSwapped,
    RunEstimated,
    RunStarted,
    SettingsIgnored,
    StepsNotCaptured,
)
from dgn_engine.text.printable import console, printable
from dgn_engine.text.written_numbers import decimals, percent, rate

REFRESH = 0.2  # seconds


class BarWords(TextColumn):
    """Text of a bar as it is: names of others are no markup."""

    def render(self, task: Task) -> Text:
        return Text(printable(self.text_format.format(task=task)), no_wrap=True)


class TerminalBar:
    """A bar where there is a terminal; nothing when quiet."""

    def __init__(
        self, stream: TextIO, quiet: bool, *columns: ProgressColumn, soft_wrap: bool = False
    ) -> None:
        self.console = console(stream, quiet=quiet, soft_wrap=soft_wrap)
        self.live = self.console.is_terminal and not quiet
        self.bar = Progress(
            BarWords("{task.description}"),
            BarColumn(bar_width=28),
            *columns,
            console=self.console,
            transient=True,
            disable=not self.live,
        )

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()


class TrainProgressBar(TerminalBar):
    """A run: its rate, time left and losses; without a terminal one line an epoch."""

    def __init__(self, stream: TextIO, quiet: bool, warn: Callable[[str], None]) -> None:
        """`warn` says a sentence also where all else is quiet."""
        self._warn = warn
        super().__init__(
            stream,
            quiet,
            BarWords("{task.percentage:>3.0f} %  {task.fields[rate]}"),
            TimeElapsedColumn(),
            BarWords("left"),
            TimeRemainingColumn(),
            BarWords("{task.fields[scores]}"),
        )
        self._task = self.bar.add_task("reading data", total=None, rate=rate(0.0), scores="")
        self._began = self._shown = time.monotonic()
        self._first = 0  # steps of an earlier part of the run
        self._train = ""

    def stepped(self, step: int) -> None:
        now = time.monotonic()
        if now - self._shown >= REFRESH:
            self._shown = now
            pace = rate((step - self._first) / max(now - self._began, 1e-9))
            self.bar.update(self._task, completed=step, rate=pace)

    def on_event(self, event: Event) -> None:
        match event:
            case Working():
                share = "" if event.fraction is None else f", {percent(event.fraction, 0)}"
                self.bar.update(self._task, description=f"{event.what}{share}")
            case RunStarted():
                self._began = time.monotonic()
                total = event.total_steps or None
                self.bar.update(self._task, description=event.regime, total=total)
            case RunEstimated():
                self.console.print(f"{event.sentence}.")
            case RegimeSwapped():
                self.bar.update(self._task, description=event.after)
                self.console.print(event.sentence)
            case Measured():
                self._scores(event)
            case SettingsIgnored():
                for sentence in event.sentences:
                    self._warn(sentence)
            case StepsNotCaptured():
                self._warn(event.sentence)
            case RecordingPaused():
                self.console.print(f"{event.reason} Training goes on.")
            case RecordingMended():
                self._warn(event.remark)
            case RecordingResumed():
                lost = f"; {event.lost:,} lines of the log are lost" if event.lost else ""
                self.console.print(f"Recording goes on at step {event.step:,}{lost}.")
            case RecordThinned():
                self.console.print(event.sentence)
            case RunContinued():
                self._first = event.step
                self.console.print(f"Continuing at step {event.step:,}.")
                if event.remark:
                    self.console.print(f"Not exact to the last bit: {event.remark}.")

    def _scores(self, event: Measured) -> None:
        self._train = f"loss {decimals(event.train_loss, 4)}"
        if event.test_accuracy is None or event.test_loss is None:
            self.bar.update(self._task, scores=self._train)
            return
        accuracy = percent(event.test_accuracy, 2)
        scores = f"{self._train} · test {decimals(event.test_loss, 4)}, {accuracy}"
        self.bar.update(self._task, scores=scores)
        pace = rate((event.step - self._first) / max(time.monotonic() - self._began, 1e-9))
        self.console.print(f"epoch {decimals(event.epoch, 0)}  {scores}  ({pace})")
