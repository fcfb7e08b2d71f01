"""`dgn reproduce --list`."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table


def print_list() -> int:
    """Name, paper, estimated cost at both scales, and what lies among the user's results."""
    from dgn_engine.experiments import Request, all_experiments
    from dgn_engine.experiments.report.experiment_list import full_words, quick_words
    from dgn_engine.experiments.report.result_folders import default_folder, status

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("name", "paper", "quick", "there", "full", "there", "what"):
        table.add_column(head, justify="left", overflow="fold")
    for name, experiment in all_experiments().items():
        there = [status(default_folder(name, Request(scale=scale))) for scale in ("quick", "full")]
        table.add_row(
            name, experiment.paper, quick_words(experiment), there[0],
            full_words(experiment), there[1], experiment.title,
        )  # fmt: skip
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, markup=False, width=width).print(table)
    return 0
