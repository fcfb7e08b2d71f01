"""`dgn runs list`: list the runs in a folder, without importing torch or numpy."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout, index
from dgn_engine.storage.runs.run_search import search_runs
from dgn_engine.storage.runs.storage_limits import effective_limits
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import print_error, print_json, print_line, printable_name
from dgn_engine.text.written_numbers import format_percent

_NAME = 60  # maximum width of the name column


def list_runs(arguments: argparse.Namespace) -> int:
    root = arguments.root or folder_layout.runs_root()
    if arguments.rebuild:
        index.forget_index(root)
    gc.disable()  # everything is kept until the end, so collecting would only cost time
    try:
        if not arguments.json:
            return _print_table(root, arguments.filter)
        # The rows of the window's table; unknown numbers are null.
        runs = search_runs(arguments.filter, index.list_runs(str(root)).runs)
        print_json([to_plain(run, "null") for run in runs], indent=2)
        return 0
    finally:
        gc.enable()


def _print_table(root: Path, terms: str) -> int:
    listed = index.list_runs(str(root)).runs
    runs = search_runs(terms, listed)
    if not runs:
        missing = f"None of the {len(listed):,} runs in {root} matches '{terms}'."
        print_line(missing if listed else f"There are no runs in {root}.")
        return 0
    names = {run.folder: printable_name(run.name) for run in runs}
    width = min(_NAME, max(map(len, names.values())))
    print_line(f"{'run':{width}}  {'status':11}  {'step':>11}  {'best':>7}  what")
    for run in sorted(runs, key=lambda entry: (entry.created, entry.name)):
        best = format_percent(run.best, 2) if run.best == run.best else ""
        parts = [run.regime, run.net, run.data, f"seed {run.seed}"] if run.net else []
        parts += ["·", run.trouble] if parts and run.trouble else [run.trouble] * bool(run.trouble)
        parts += ["·", run.given_name] if run.given_name else []
        parts += [f"#{tag}" for tag in run.tags]
        shown = " ".join(map(printable_name, parts))
        print_line(
            f"{names[run.folder]:{width}}  {run.status:11}  {run.step:11,}  {best:>7}  {shown}"
        )
    total, limit = sum(run.bytes for run in listed), effective_limits(root).all
    if total > limit:
        print_error(f"{total_in_words(total, limit)}; thin out the oldest with 'dgn runs thin'.")
    return 0


def total_in_words(total: int, limit: int) -> str:
    return f"All runs together use {binary_size_in_words(total)} of {binary_size_in_words(limit)}"
