"""Progress bars on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

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
from dgn_engine.text.written_numbers import decimals, duration, percent, rate

if TYPE_CHECKING:
    from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
    from dgn_engine.sweep.schedule import UnitProgress

REFRESH = 0.2  # seconds


class _Words(TextColumn):
    """Text of a bar as it is: names of others are no markup."""

    def render(self, task: Task) -> Text:
        return Text(printable(self.text_format.format(task=task)), no_wrap=True)


class _ProgressBar:
    """A bar where there is a terminal; nothing when quiet."""

    def __init__(
        self, stream: TextIO, quiet: bool, *columns: ProgressColumn, soft_wrap: bool = False
    ) -> None:
        self._console = console(stream, quiet=quiet, soft_wrap=soft_wrap)
        self._live = self._console.is_terminal and not quiet
        self._bar = Progress(
            _Words("{task.description}"),
            BarColumn(bar_width=28),
            *columns,
            console=self._console,
            transient=True,
            disable=not self._live,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


class TrainProgressBar(_ProgressBar):
    """A run: its rate, time left and losses; without a terminal one line an epoch."""

    def __init__(self, stream: TextIO, quiet: bool, warn: Callable[[str], None]) -> None:
        """`warn` says a sentence also where all else is quiet."""
        self._warn = warn
        super().__init__(
            stream,
            quiet,
            _Words("{task.percentage:>3.0f} %  {task.fields[rate]}"),
            TimeElapsedColumn(),
            _Words("left"),
            TimeRemainingColumn(),
            _Words("{task.fields[scores]}"),
        )
        self._task = self._bar.add_task("reading data", total=None, rate=rate(0.0), scores="")
        self._began = self._shown = time.monotonic()
        self._first = 0  # steps of an earlier part of the run
        self._train = ""

    def stepped(self, step: int) -> None:
        now = time.monotonic()
        if now - self._shown >= REFRESH:
            self._shown = now
            pace = rate((step - self._first) / max(now - self._began, 1e-9))
            self._bar.update(self._task, completed=step, rate=pace)

    def on_event(self, event: Event) -> None:
        match event:
            case Working():
                share = "" if event.fraction is None else f", {percent(event.fraction, 0)}"
                self._bar.update(self._task, description=f"{event.what}{share}")
            case RunStarted():
                self._began = time.monotonic()
                total = event.total_steps or None
                self._bar.update(self._task, description=event.regime, total=total)
            case RunEstimated():
                self._console.print(f"{event.sentence}.")
            case RegimeSwapped():
                self._bar.update(self._task, description=event.after)
                self._console.print(event.sentence)
            case Measured():
                self._scores(event)
            case SettingsIgnored():
                for sentence in event.sentences:
                    self._warn(sentence)
            case StepsNotCaptured():
                self._warn(event.sentence)
            case RecordingPaused():
                self._console.print(f"{event.reason} Training goes on.")
            case RecordingMended():
                self._warn(event.remark)
            case RecordingResumed():
                lost = f"; {event.lost:,} lines of the log are lost" if event.lost else ""
                self._console.print(f"Recording goes on at step {event.step:,}{lost}.")
            case RecordThinned():
                self._console.print(event.sentence)
            case RunContinued():
                self._first = event.step
                self._console.print(f"Continuing at step {event.step:,}.")
                if event.remark:
                    self._console.print(f"Not exact to the last bit: {event.remark}.")

    def _scores(self, event: Measured) -> None:
        self._train = f"loss {decimals(event.train_loss, 4)}"
        if event.test_accuracy is None or event.test_loss is None:
            self._bar.update(self._task, scores=self._train)
            return
        accuracy = percent(event.test_accuracy, 2)
        scores = f"{self._train} · test {decimals(event.test_loss, 4)}, {accuracy}"
        self._bar.update(self._task, scores=scores)
        pace = rate((event.step - self._first) / max(time.monotonic() - self._began, 1e-9))
        self._console.print(f"epoch {decimals(event.epoch, 0)}  {scores}  ({pace})")


class UnitProgressBar(_ProgressBar):
    """Many runs: one bar for all of them and a line for each that ended."""

    def __init__(self, name: str, stream: TextIO, quiet: bool) -> None:
        bar = _Words("{task.percentage:>3.0f} %  {task.fields[words]}")
        super().__init__(stream, quiet, bar, soft_wrap=True)
        self._task = self._bar.add_task(name, total=1.0, words="")

    def show(self, now: ReproductionProgress, changed: UnitProgress | None) -> None:
        words = in_words(now)
        self._bar.update(self._task, completed=now.fraction, words=words)
        if changed is None:
            return
        if changed.notice:
            self._console.print(changed.notice)
        if changed.state not in ("done", "diverged", "failed"):
            return
        score = "" if changed.score is None else f" {percent(changed.score, 2)}"
        self._console.print(
            f"{now.done + now.failed:>4}/{now.total} {changed.unit}: {changed.state}{score}"
            + ("" if self._live else f"   {words}")
        )


def in_words(now: ReproductionProgress) -> str:
    """'12/60 done, 1 failed · 4 min left · best 97.31 % (fc-adam-0.0003-ReLU-s0)'."""
    parts = [f"{now.done}/{now.total} done" + (f", {now.failed} failed" if now.failed else "")]
    if now.left is not None:
        parts.append(f"{duration(now.left)} left")
    if now.best is not None and now.best.score is not None:
        parts.append(f"best {percent(now.best.score, 2)} ({now.best.unit})")
    return " · ".join(parts)
