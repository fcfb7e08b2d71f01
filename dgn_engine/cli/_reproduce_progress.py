"""The progress of a reproduction on a terminal: one bar for all of it, a line for each unit."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichBar

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.progress import OVER, ReproductionProgress
from dgn_engine.sweep.schedule import UnitProgress


class UnitProgressBar:
    """A bar where there is a terminal; elsewhere a line for each unit; nothing when quiet."""

    def __init__(self, name: str, stream: TextIO, quiet: bool) -> None:
        self._console = Console(file=stream, quiet=quiet, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not quiet
        self._bar = RichBar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[words]}"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task(name, total=1.0, words="")

    def __enter__(self) -> UnitProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def look(self, now: ReproductionProgress, changed: UnitProgress | None) -> None:
        """Show it."""
        self._bar.update(self._task, completed=now.fraction, words=in_words(now))
        if changed is None or changed.state not in OVER or changed.state == "skipped":
            return
        score = "" if changed.score is None else f" {100 * changed.score:.2f} %"
        self._console.print(
            f"{now.done + now.failed:>4}/{now.total} {changed.unit}: {changed.state}{score}"
            + ("" if self._live else f"   {in_words(now)}"),
            markup=False,
        )


def in_words(now: ReproductionProgress) -> str:
    """'12/60 done, 1 failed · 4 min left · best 97.31 % (fc-adam-0.0003-ReLU-s0)'."""
    parts = [f"{now.done}/{now.total} done" + (f", {now.failed} failed" if now.failed else "")]
    if now.left is not None:
        parts.append(f"{formatting.duration(now.left)} left")
    if now.best is not None and now.best.score is not None:
        parts.append(f"best {100 * now.best.score:.2f} % ({now.best.unit})")
    return " · ".join(parts)
