"""Terminal progress bars: the base class, and the bar of a run."""

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
from dgn_engine.text.printable import make_console, printable
from dgn_engine.text.written_numbers import format_decimals, format_percent, format_rate

REFRESH = 0.2  # seconds


class PlainTextColumn(TextColumn):
    """A text column that shows names of the user's files literally, not as markup."""

    def render(self, task: Task) -> Text:
        """Return the text of a task.

        Args:
            task: The task.

        Returns:
            Its text, without control characters.
        """
        return Text(printable(self.text_format.format(task=task)), no_wrap=True)


class TerminalBar:
    """A progress bar on a terminal; prints nothing if quiet."""

    def __init__(
        self, stream: TextIO, quiet: bool, *columns: ProgressColumn, soft_wrap: bool = False
    ) -> None:
        """Create the bar; entering the context starts it.

        Args:
            stream: Where to draw.
            quiet: Whether to print nothing.
            soft_wrap: Whether printed lines may exceed the terminal's width.
            columns: Columns to the right of the bar.
        """
        self.console = make_console(stream, quiet=quiet, soft_wrap=soft_wrap)
        self.live = self.console.is_terminal and not quiet
        self.bar = Progress(
            PlainTextColumn("{task.description}"),
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
    """Progress of a run: speed, time left and scores; without a terminal one line per epoch."""

    def __init__(self, stream: TextIO, quiet: bool, warn: Callable[[str], None]) -> None:
        """Create the bar.

        Args:
            stream: Where to draw.
            quiet: Whether to print nothing but warnings.
            warn: Prints a sentence even if quiet.
        """
        self._warn = warn
        super().__init__(
            stream,
            quiet,
            PlainTextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}"),
            TimeElapsedColumn(),
            PlainTextColumn("left"),
            TimeRemainingColumn(),
            PlainTextColumn("{task.fields[scores]}"),
        )
        self._task = self.bar.add_task("reading data", total=None, rate=format_rate(0.0), scores="")
        self._began = self._shown = time.monotonic()
        self._first = 0  # steps taken before this part of the run
        self._train = ""

    def on_step(self, step: int) -> None:
        """Update the bar, at most every `REFRESH` seconds.

        Args:
            step: Number of steps taken.
        """
        now = time.monotonic()
        if now - self._shown >= REFRESH:
            self._shown = now
            pace = format_rate((step - self._first) / max(now - self._began, 1e-9))
            self.bar.update(self._task, completed=step, rate=pace)

    def on_event(self, event: Event) -> None:
        """Show an event.

        Args:
            event: The event.
        """
        match event:
            case Working():
                share = "" if event.fraction is None else f", {format_percent(event.fraction, 0)}"
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
                self._show_scores(event)
            case SettingsIgnored():
                for sentence in event.sentences:
                    self._warn(sentence)
            case StepsNotCaptured():
                self._warn(event.sentence)
            case RecordingPaused():
                self.console.print(f"{event.reason} Training continues.")
            case RecordingMended():
                self._warn(event.remark)
            case RecordingResumed():
                lost = f"; {event.lost:,} log lines were lost" if event.lost else ""
                self.console.print(f"Recording resumed at step {event.step:,}{lost}.")
            case RecordThinned():
                self.console.print(event.sentence)
            case RunContinued():
                self._first = event.step
                self.console.print(f"Continuing at step {event.step:,}.")
                if event.remark:
                    self.console.print(f"May differ in the last bits: {event.remark}.")

    def _show_scores(self, event: Measured) -> None:
        self._train = f"loss {format_decimals(event.train_loss, 4)}"
        if event.test_accuracy is None or event.test_loss is None:
            self.bar.update(self._task, scores=self._train)
            return
        accuracy = format_percent(event.test_accuracy, 2)
        scores = f"{self._train} · test {format_decimals(event.test_loss, 4)}, {accuracy}"
        self.bar.update(self._task, scores=scores)
        pace = format_rate((event.step - self._first) / max(time.monotonic() - self._began, 1e-9))
        self.console.print(f"epoch {format_decimals(event.epoch, 0)}  {scores}  ({pace})")
