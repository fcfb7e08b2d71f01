"""Train the runs of a sweep and report the results."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from dgn_engine.cli import FAILED
from dgn_engine.cli.run.execution import UnitProgressBar, checked_start
from dgn_engine.experiments.report.document import State
from dgn_engine.experiments.report.formatting import NOTHING
from dgn_engine.experiments.report.reproduction_progress import ProgressTally
from dgn_engine.experiments.report.result_layout import FIGURES, TABLES
from dgn_engine.experiments.report.sweep_report import sweep_document
from dgn_engine.experiments.report.write_report import write_files
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.sweep.checks import check_folder, ignored_in
from dgn_engine.sweep.schedule import OVER, UnitProgress
from dgn_engine.sweep.summary import SummaryRow, groups_of, rows_of, write_results
from dgn_engine.sweep.sweep_file import Sweep
from dgn_engine.sweep.workers.attempt import log_path
from dgn_engine.text.printable import make_console, print_error
from dgn_engine.text.written_numbers import format_decimals, format_duration

WIDE = 160  # width if stdout is not a terminal


def carry_out_sweep(arguments: argparse.Namespace, sweep: Sweep, root: Path) -> int:
    units = [run.unit for run in sweep.runs]
    check_folder(root, (FIGURES, TABLES))
    executor, check = checked_start(arguments, units, root)
    for sentence in ignored_in(sweep.runs, sweep.fields, check.sizes):
        print_error(f"dgn sweep: {sentence}")
    tally = ProgressTally("sweep", units)
    stop = StopSignals()
    with stop, UnitProgressBar("sweep", sys.stderr, arguments.quiet) as bar:

        def update_progress(progress: UnitProgress) -> None:
            tally.add(progress)
            bar.show_unit_progress(tally.progress(), progress)

        states = executor.run(units, root, update_progress, stop.stop_requested)
    rows = rows_of(sweep, states, tally.last, root)
    over = all(state in OVER for state in states.values())
    state: State = "done" if over else "interrupted"
    command = ("sweep", str(arguments.sweep.absolute()), "--out", str(root))
    document = sweep_document(arguments.sweep.stem, sweep, rows, state, root, command)
    write_results(root, sweep, rows, state, to_plain(document, nonfinite="null"))
    write_files(document, root)
    _print_groups(sweep, rows)
    failed = _print_failures(rows, root)
    if not arguments.quiet:
        print_error(f"Results in {root}.")
    if not over:
        print_error("dgn sweep: interrupted; run the same command to resume.")
        return stop.exit_code
    return FAILED if failed else 0


def _print_groups(sweep: Sweep, rows: Sequence[SummaryRow]) -> None:
    """Print a line per setting: n runs (seeds), mean ± half-width of the 95 % interval."""
    groups = groups_of(rows)
    if not groups:
        return
    fields = [field for field in sweep.fields if field != "seed"]
    table = Table(box=None, pad_edge=False, header_style="", show_edge=False)
    for field in fields:
        table.add_column(field, overflow="fold")
    for head in ("n", "best test %", "last test %", "train %", "time"):
        table.add_column(head, justify="right", no_wrap=True)
    for group in groups:
        settings = [_format_setting(group.settings.get(field, NOTHING)) for field in fields]
        scores = [_format_score(pair) for pair in (group.best, group.last, group.train)]
        table.add_row(*settings, str(group.n), *scores, format_duration(group.seconds))
    width = None if sys.stdout.isatty() else WIDE
    make_console(sys.stdout, width=width).print(table)


def _print_failures(rows: Sequence[SummaryRow], root: Path) -> int:
    """Print each failed run with the end of its log; return how many failed."""
    failed = [row for row in rows if row.state == "failed"]
    for row in failed:
        print_error(f"{row.id} failed (log: {log_path(root, row.id)}):")
        for line in row.trouble.splitlines():
            print_error(f"    {line}")
    return len(failed)


def _format_score(pair: tuple[float, float]) -> str:
    mean, half = pair
    if math.isnan(mean):
        return NOTHING
    return format_decimals(100 * mean, 2) + (
        "" if math.isnan(half) else f" ± {format_decimals(100 * half, 2)}"
    )


def _format_setting(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
