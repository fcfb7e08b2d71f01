"""`dgn reproduce NAME --rows`: the rows that can be chosen, with their estimated costs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.table import Table

from dgn_engine.cli.run.reproduce_papers import task_of
from dgn_engine.experiments.report.row_costs import RowCost, row_costs, whole_cost
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.printable import console, say, say_json
from dgn_engine.text.written_numbers import duration

_HEADS = ("row", "runs", "one CPU core", "packed", "storage", "")


def list_rows(arguments: argparse.Namespace) -> int:
    """Print a line for each row and one for all of it; nothing is run."""
    task = task_of(arguments, arguments.name, arguments.out)

    lines = [*row_costs(task), whole_cost(task)]
    scale = scale_of(task.experiment, task.request).word
    if arguments.json:
        tree = {
            "experiment": task.name,
            "scale": scale,
            "protocol": task.request.protocol,
            "rows": [_plain(line) for line in lines[:-1]],
            "all": _plain(lines[-1]),
        }
        say_json(tree, indent=1)
        return 0
    say(f"{task.name}, {scale}, {task.request.protocol} (estimated; nothing is run)")
    if len(lines) == 1:
        say("It has no rows that --only chooses among.")
    _print_table(lines)
    return 0


def _print_table(lines: list[RowCost]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, head in enumerate(_HEADS):
        number = 0 < place < len(_HEADS) - 1
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for line in lines:
        table.add_row(*_cells(line))
    width = None if sys.stdout.isatty() else 160
    console(sys.stdout, width=width).print(table)


def _cells(line: RowCost) -> tuple[str, ...]:
    cost = line.cost
    if cost is None:
        return (line.label, "", "", "", "", line.remark)
    more = f"and {cost.calculations:,} calculations, not counted" if cost.calculations else ""
    if not cost.runs:
        return (line.label, "0", "", "", "", more)
    times = (duration(cost.seconds), duration(cost.packed), bytes_in_words(cost.storage))
    return (line.label, f"{cost.runs:,}", *times, more)


def _plain(line: RowCost) -> dict[str, Any]:
    cost = line.cost
    if cost is None:
        return {"label": line.label, "cost": None, "remark": line.remark}
    return {
        "label": line.label,
        "cost": {
            "runs": cost.runs,
            "calculations": cost.calculations,
            "seconds": round(cost.seconds, 3),
            "packed_seconds": round(cost.packed, 3),
            "storage_bytes": round(cost.storage),
        },
    }
