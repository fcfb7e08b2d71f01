"""The progress bar of many runs on a terminal."""

from __future__ import annotations

from typing import TextIO

from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.text.written_numbers import duration, percent
from dgn_engine.training.run_progress_bar import BarWords, TerminalBar


class UnitProgressBar(TerminalBar):
    """Many runs: one bar for all of them and a line for each that ended."""

    def __init__(self, name: str, stream: TextIO, quiet: bool) -> None:
        bar = BarWords("{task.percentage:>3.0f} %  {task.fields[words]}")
        super().__init__(stream, quiet, bar, soft_wrap=True)
        self._task = self.bar.add_task(name, total=1.0, words="")

    def show(self, now: ReproductionProgress, changed: UnitProgress | None) -> None:
        words = in_words(now)
        self.bar.update(self._task, completed=now.fraction, words=words)
        if changed is None:
            return
        if changed.notice:
            self.console.print(changed.notice)
        if changed.state not in ("done", "diverged", "failed"):
            return
        score = "" if changed.score is None else f" {percent(changed.score, 2)}"
        self.console.print(
            f"{now.done + now.failed:>4}/{now.total} {changed.unit}: {changed.state}{score}"
            + ("" if self.live else f"   {words}")
        )


def in_words(now: ReproductionProgress) -> str:
    """'12/60 done, 1 failed · 4 min left · best 97.31 % (fc-adam-0.0003-ReLU-s0)'."""
    parts = [f"{now.done}/{now.total} done" + (f", {now.failed} failed" if now.failed else "")]
    if now.left is not None:
        parts.append(f"{duration(now.left)} left")
    if now.best is not None and now.best.score is not None:
        parts.append(f"best {percent(now.best.score, 2)} ({now.best.unit})")
    return " · ".join(parts)
