"""What `dgn reproduce` and `dgn gate-information` share: how a plan is carried out and shown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn_engine.experiments.report.document import Document
    from dgn_engine.experiments.report.reproduce import ReproductionTask

FAILED, INTERRUPTED = 3, 130


def add_carrying_options(parser: argparse.ArgumentParser) -> None:
    """Where it is computed and where it is written."""
    parser.add_argument(
        "--executor", default="auto", help="serial, processes, packed, dask; auto chooses"
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="at most so many")
    parser.add_argument("--cluster", default="", metavar="tcp://…", help="of an existing cluster")
    parser.add_argument("--out", type=Path, metavar="DIR", help="not among the user's results")
    parser.add_argument("--report-only", action="store_true", help="from what is there already")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")


def carry(arguments: argparse.Namespace, task: ReproductionTask) -> Document:
    """Carry it out, say how it goes, print what came out."""
    from dgn_engine.cli._interrupt import Interrupt
    from dgn_engine.cli._reproduce_progress import UnitProgressBar
    from dgn_engine.experiments.report.cost import cost_in_words
    from dgn_engine.experiments.report.reproduce import plan_of, report_again, reproduce
    from dgn_engine.experiments.report.terminal import print_document
    from dgn_engine.sweep.checks import check_folder, check_start
    from dgn_engine.sweep.workers import find_executor, works_here

    check_folder(task.folder)
    if arguments.report_only:
        document = report_again(task)
    else:
        units = plan_of(task).units
        check_start(units, task.folder, works_here(arguments.cluster))
        executor = find_executor(arguments.executor, units, arguments.cluster, arguments.workers)
        if not arguments.quiet:
            print(cost_in_words(task), file=sys.stderr)
        with (
            Interrupt() as interrupt,
            UnitProgressBar(task.name, sys.stderr, arguments.quiet) as bar,
        ):
            document = reproduce(task, executor, bar.look, interrupt.asked)
    print_document(document, task.folder, sys.stdout)
    if document.state == "interrupted":
        print(
            f"dgn {arguments.command}: interrupted; the same command goes on with it in "
            f"{task.folder}.",
            file=sys.stderr,
        )
    return document


def exit_code(document: Document) -> int:
    """0 when done, 3 when a run failed for good, 130 when it was interrupted."""
    return {"done": 0, "failed": FAILED}.get(document.state, INTERRUPTED)
