"""List the experiments without importing torch."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size

from dgn_engine.experiments import Request
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.reproduction_progress import result_status
from dgn_engine.experiments.report.result_layout import default_folder
from dgn_engine.text.printable import print_line, printable

_GAP = "  "
_LEAST = 16  # minimum width of the last column
_PIPED = 160  # width if stdout is not a terminal


# Not a rich table: importing rich takes a tenth of a second.
def print_wrapped_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns; wrap the last one at the width of the terminal."""
    cells = [[printable(cell) for cell in row] for row in (heads, *rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = get_terminal_size().columns if sys.stdout.isatty() else _PIPED
    before = sum(wide[:-1]) + len(_GAP) * (len(wide) - 1)
    for row in cells:
        start = _GAP.join(cell.ljust(n) for cell, n in zip(row[:-1], wide, strict=False))
        folded = textwrap.wrap(row[-1], max(room - before, _LEAST)) or [""]
        print_line(f"{start}{_GAP}{folded[0]}".rstrip())
        for line in folded[1:]:
            print_line(" " * before + line)


def list_experiments(_: argparse.Namespace) -> int:
    """Print name, paper, estimated cost at both scales, and the status of the user's results."""
    rows = list[tuple[str, ...]]()
    for entry in experiment_entries():
        folders = [default_folder(entry.id, Request(scale=scale)) for scale in ("quick", "full")]
        quick_there, full_there = map(result_status, folders)
        costs = entry.quick_cost, quick_there, entry.full_cost, full_there
        rows.append((entry.id, entry.paper, *costs, entry.title))
    print_wrapped_table(("name", "paper", "quick", "status", "full", "status", "title"), rows)
    return 0
