"""`dgn sweep`: many runs, a grid or a list over any field of a configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli._command import Command
from dgn_engine.storage.runs.folder_layout import results_root

if TYPE_CHECKING:
    from dgn_engine.sweep.grid import Sweep

FAILED, INTERRUPTED = 3, 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is varied, who carries it out, where it goes."""
    parser.add_argument("sweep", type=Path, metavar="SWEEP.toml", help="base, [grid] and [[list]]")
    parser.add_argument(
        "--executor", default="auto", help="serial, processes, packed, dask; auto chooses"
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="at most so many")
    parser.add_argument(
        "--cluster", default="", help="Dask: tcp://HOST:PORT, local, or slurm[:jobs=8,…]"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="not among the user's results; shared, for Dask"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the runs and stop")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 130 after Ctrl-C: the same command goes on
    with what is left.
    """
    from dgn_engine.sweep.grid import read_sweep

    sweep = read_sweep(arguments.sweep)
    if arguments.list:
        print("\n".join(run.unit.id for run in sweep.runs))
        return 0
    root = (arguments.out or results_root() / f"sweep-{arguments.sweep.stem}").absolute()
    return _carry_out(arguments, sweep, root)


def _carry_out(arguments: argparse.Namespace, sweep: Sweep, root: Path) -> int:
    from dgn_engine.cli._interrupt import Interrupt
    from dgn_engine.cli._reproduce_progress import UnitProgressBar
    from dgn_engine.cli._sweep_table import print_failures, print_groups
    from dgn_engine.experiments.report.progress import ProgressTally
    from dgn_engine.sweep.checks import check_folder, check_start
    from dgn_engine.sweep.schedule import UnitProgress
    from dgn_engine.sweep.summary import rows_of, write_results
    from dgn_engine.sweep.workers import find_executor, works_here

    units = [run.unit for run in sweep.runs]
    check_folder(root)
    check_start(units, root, works_here(arguments.cluster))
    executor = find_executor(arguments.executor, units, arguments.cluster, arguments.workers)
    tally = ProgressTally("sweep", units)
    with Interrupt() as interrupt, UnitProgressBar("sweep", sys.stderr, arguments.quiet) as bar:

        def told(progress: UnitProgress) -> None:
            tally.told(progress)
            bar.look(tally.standing(), progress)

        states = executor.run(units, root, told, interrupt.asked)
    lines = rows_of(sweep, states, tally.last, root)
    over = all(state in ("done", "skipped", "diverged", "failed") for state in states.values())
    write_results(root, sweep, lines, "done" if over else "interrupted")
    print_groups(sweep, lines, sys.stdout)
    failed = print_failures(lines, root, sys.stderr)
    if not arguments.quiet:
        print(f"Results in {root}.", file=sys.stderr)
    if not over:
        print("dgn sweep: interrupted; the same command goes on with it.", file=sys.stderr)
        return INTERRUPTED
    return FAILED if failed else 0


COMMAND = Command("Train many networks: a grid or a list of configurations.", add_arguments, run)
