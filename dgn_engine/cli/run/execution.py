"""How commands carry out many runs: the options, the checks, the progress, the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from dgn_engine.cli import FAILED
from dgn_engine.cli.run.progress_bar import UnitProgressBar
from dgn_engine.confinement.child_process import usable_cores
from dgn_engine.experiments.report.cost import cost_in_words
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.reproduce import plan_of, report_again, reproduce
from dgn_engine.experiments.report.result_layout import FIGURES, TABLES
from dgn_engine.experiments.report.terminal import print_document
from dgn_engine.experiments.report.write_report import ReproductionTask, notices
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.sweep.checks import StartCheck, check_folder, check_start
from dgn_engine.sweep.cluster_tls import ClusterTls, tls_warning
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.workers import find_executor, works_here
from dgn_engine.text.printable import complain


def checked_executor(
    arguments: argparse.Namespace, units: Sequence[Unit], folder: Path
) -> Executor:
    """The executor that the options name, once the units are known to be possible."""
    return checked_start(arguments, units, folder)[0]


def checked_start(
    arguments: argparse.Namespace, units: Sequence[Unit], folder: Path
) -> tuple[Executor, StartCheck]:
    """The executor that the options name, with as many workers as fit in memory where they do not
    say how many, and what is known of the units."""
    executor = named_executor(arguments, units)
    check = check_start(units, folder, works_here(arguments.cluster), arguments.workers)
    if not arguments.workers and 0 < check.at_once < usable_cores():
        arguments.workers = check.at_once
        complain(f"dgn {arguments.command}: --workers {check.at_once}: no more fit in memory.")
        executor = named_executor(arguments, units)
    return executor, check


def named_executor(arguments: argparse.Namespace, units: Sequence[Unit]) -> Executor:
    """The executor that the options name; a cluster without TLS is warned of on stderr."""
    cluster = arguments.cluster
    tls = ClusterTls(arguments.tls_ca_file, arguments.tls_cert, arguments.tls_key, arguments.no_tls)
    executor = find_executor(
        arguments.executor, units, cluster, arguments.workers, tls, arguments.devices
    )
    if warning := tls_warning(cluster, tls):
        complain(f"dgn {arguments.command}: {warning}")
    return executor


def carry_out(
    arguments: argparse.Namespace,
    task: ReproductionTask,
    stop: StopSignals,
    show: Callable[[Document, Path, TextIO], None] | None = None,
) -> Document:
    """Carry an experiment out with progress, and print its report, or `show` it otherwise."""
    check_folder(task.folder, (FIGURES, TABLES))
    if arguments.report_only:
        document = report_again(task)
    else:
        executor = checked_executor(arguments, plan_of(task).units, task.folder)
        if not arguments.quiet:
            for sentence in notices(task):
                complain(f"{task.name}: {sentence}")
            complain(cost_in_words(task, timed=works_here(arguments.cluster)))
        with stop, UnitProgressBar(task.name, sys.stderr, arguments.quiet) as bar:
            document = reproduce(task, executor, bar.show, stop.requested)
    (show or print_document)(document, task.folder, sys.stdout)
    if document.state == "interrupted":
        complain(
            f"dgn {arguments.command}: interrupted; the same command goes on with it in "
            f"{task.folder}."
        )
    return document


def exit_code(document: Document, stop: StopSignals) -> int:
    """0 when done, 3 when a run failed for good, 128 + n when the signal n interrupted it."""
    return {"done": 0, "failed": FAILED}.get(document.state, stop.exit_code)
