"""Read a sweep and list its runs, or carry them out."""

from __future__ import annotations

import argparse

from dgn_engine.storage.runs.folder_layout import results_root
from dgn_engine.sweep.sweep_file import read_sweep
from dgn_engine.sweep.workers.places import check_devices
from dgn_engine.text.printable import say


def start_sweep(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 128 + n after the signal n: the same command
    goes on with what is left.
    """
    check_devices(arguments.devices)  # before data and torch are loaded, which takes seconds
    sweep = read_sweep(arguments.sweep)
    if arguments.list:
        for each in sweep.runs:
            say(each.unit.id)
        return 0
    from dgn_engine.cli.run.run_sweep import carry_out_sweep

    root = (arguments.out or results_root() / f"sweep-{arguments.sweep.stem}").absolute()
    return carry_out_sweep(arguments, sweep, root)
