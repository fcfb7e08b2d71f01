"""`dgn runs limits` and `dgn runs thin`: what recorded runs may take, and what to do above it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from dgn_engine.cli.run.list_runs import total_in_words
from dgn_engine.errors import UserError
from dgn_engine.storage.runs import folder_layout, thin_runs
from dgn_engine.storage.runs.storage_limits import (
    limits_that_hold,
    parse_size,
    read_limits,
    write_limits,
)
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import say


def limit_runs(arguments: argparse.Namespace) -> int:
    """Show the limits, or set those that are named."""
    root = folder_layout.runs_root()
    if arguments.run or arguments.all:
        known = limits_that_hold(root)
        chosen = replace(
            known,
            run=parse_size(arguments.run) if arguments.run else known.run,
            all=parse_size(arguments.all) if arguments.all else known.all,
        )
        write_limits(root, chosen)
    now = read_limits(root)
    run, everything = binary_size_in_words(now.run), binary_size_in_words(now.all)
    say(f"one run: {run}, all runs together: {everything}")
    say(f"They stand in {root / folder_layout.LIMITS}; without it the usual ones hold.")
    return 0


def thin_oldest(arguments: argparse.Namespace) -> int:
    """Say what would go, ask, and thin out the oldest runs."""
    root = arguments.root or folder_layout.runs_root()
    found = thin_runs.plan(root)
    if not found.over:
        say(f"{total_in_words(found.total, found.limit)}: nothing has to be thinned out.")
        return 0
    say(found.sentence)
    if not found.folders:
        return 0
    for folder in found.folders:
        say(f"  {folder.name}")
    say("Of each an eighth of its frames stays, and of its checkpoints before changes.")
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise UserError("say --yes to thin them out.")
        if input("Thin them out? [y/N] ").strip().lower() not in ("y", "yes"):
            say("Nothing was thinned out.")
            return 0
    freed = thin_runs.thin(found.folders, say)
    say(f"{binary_size_in_words(freed)} freed.")
    return 0
