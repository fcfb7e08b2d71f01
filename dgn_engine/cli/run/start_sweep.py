"""Read a sweep file and list or train its runs."""

from __future__ import annotations

import argparse

from dgn_engine.storage.runs.folder_layout import results_root
from dgn_engine.sweep.sweep_file import read_sweep
from dgn_engine.sweep.workers.places import check_devices
from dgn_engine.text.printable import print_line


def start_sweep(arguments: argparse.Namespace) -> int:
    """List or train the runs of a sweep.

    Exit with 0 if done, 3 if a run failed permanently, 128 + n after signal n; the same command
    resumes an interrupted sweep.
    """
    check_devices(arguments.devices)  # before loading data and torch, which takes seconds
    sweep = read_sweep(arguments.sweep)
    if arguments.list:
        for sweep_run in sweep.runs:
            print_line(sweep_run.unit.id)
        return 0
    from dgn_engine.cli.run.run_sweep import carry_out_sweep

    root = (arguments.out or results_root() / f"sweep-{arguments.sweep.stem}").absolute()
    return carry_out_sweep(arguments, sweep, root)
