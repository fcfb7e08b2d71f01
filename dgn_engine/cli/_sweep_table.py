"""What a sweep came to, as lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table

from dgn_engine.experiments.report.formatting import NOTHING, duration
from dgn_engine.sweep.grid import Sweep
from dgn_engine.sweep.summary import SummaryRow, groups_of
from dgn_engine.sweep.workers.attempt import log_path

WIDE = 160  # columns where there is no terminal


def print_groups(sweep: Sweep, lines: Sequence[SummaryRow], stream: TextIO) -> None:
    """A line for each setting: n runs (seeds), mean ± half-width of its 95 % interval."""
    groups = groups_of(lines)
    if not groups:
        return
    fields = [field for field in sweep.fields if field != "seed"]
    table = Table(box=None, pad_edge=False, header_style="", show_edge=False)
    for field in fields:
        table.add_column(field, overflow="fold")
    for head in ("n", "best test %", "last test %", "train %", "time"):
        table.add_column(head, justify="right", no_wrap=True)
    for group in groups:
        settings = [_word(group.settings.get(field, NOTHING)) for field in fields]
        scores = [_score(pair) for pair in (group.best, group.last, group.train)]
        table.add_row(*settings, str(group.n), *scores, duration(group.seconds))
    console = Console(file=stream, highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, markup=False, width=WIDE)
    console.print(table)


def print_failures(lines: Sequence[SummaryRow], root: Path, stream: TextIO) -> int:
    """Each run that failed for good with the end of its log; how many there are."""
    failed = [line for line in lines if line.state == "failed"]
    for line in failed:
        print(f"{line.id} failed; its log is {log_path(root, line.id)}:", file=stream)
        for text in line.trouble.splitlines():
            print(f"    {text}", file=stream)
    return len(failed)


def _score(pair: tuple[float, float]) -> str:
    mean, half = pair
    if math.isnan(mean):
        return NOTHING
    return f"{100 * mean:.2f}" + ("" if math.isnan(half) else f" ± {100 * half:.2f}")


def _word(value: object) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
