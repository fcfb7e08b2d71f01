"""Execute many runs from the command line: options, checks, progress and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from dgn_engine.cli import FAILED
from dgn_engine.confinement.child_process import usable_cores
from dgn_engine.experiments.report.cost import cost_in_words
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.reproduce import plan_of, report_again, reproduce
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.experiments.report.result_layout import FIGURES, TABLES
from dgn_engine.experiments.report.terminal import print_document
from dgn_engine.experiments.report.write_report import ReproductionTask, task_notices
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.sweep.checks import StartCheck, check_folder, check_start
from dgn_engine.sweep.cluster_tls import ClusterTls, tls_warning
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.workers import explain_stacks, find_executor, runs_on_this_machine
from dgn_engine.text.printable import print_error
from dgn_engine.text.written_numbers import format_duration, format_percent
from dgn_engine.training.run_progress_bar import PlainTextColumn, TerminalBar


def checked_start(
    arguments: argparse.Namespace, units: Sequence[Unit], folder: Path
) -> tuple[Executor, StartCheck]:
    """Return the executor of the options and the result of the checks before the start.

    Without --workers, use at most as many workers as fit in memory. Print which runs are trained
    in stacks, and why.
    """
    executor = executor_from_options(arguments, units)
    check = check_start(units, folder, runs_on_this_machine(arguments.cluster), arguments.workers)
    if not arguments.workers and 0 < check.at_once < usable_cores():
        arguments.workers = check.at_once
        print_error(
            f"dgn {arguments.command}: using {check.at_once} workers: no more fit in memory."
        )
        executor = executor_from_options(arguments, units)
    words = explain_stacks(
        arguments.executor, units, arguments.cluster, arguments.workers, arguments.devices
    )
    if words and not arguments.quiet:
        print_error(f"dgn {arguments.command}: {words}")
    return executor, check


def executor_from_options(arguments: argparse.Namespace, units: Sequence[Unit]) -> Executor:
    """Return the executor of the options; warn about a cluster without TLS."""
    cluster = arguments.cluster
    tls = ClusterTls(arguments.tls_ca_file, arguments.tls_cert, arguments.tls_key, arguments.no_tls)
    executor = find_executor(
        arguments.executor, units, cluster, arguments.workers, tls, arguments.devices
    )
    if warning := tls_warning(cluster, tls):
        print_error(f"dgn {arguments.command}: {warning}")
    return executor


def carry_out(
    arguments: argparse.Namespace,
    task: ReproductionTask,
    stop: StopSignals,
    show: Callable[[Document, Path, TextIO], None] | None = None,
) -> Document:
    """Run an experiment with a progress bar, then print its report, or pass it to `show`."""
    check_folder(task.folder, (FIGURES, TABLES))
    if arguments.report_only:
        document = report_again(task)
    else:
        executor, _ = checked_start(arguments, plan_of(task).units, task.folder)
        if not arguments.quiet:
            for sentence in task_notices(task):
                print_error(f"{task.name}: {sentence}")
            print_error(_cost_line(arguments, task))
        with stop, UnitProgressBar(task.name, sys.stderr, arguments.quiet) as bar:
            document = reproduce(task, executor, bar.show_unit_progress, stop.stop_requested)
    (show or print_document)(document, task.folder, sys.stdout)
    if document.state == "interrupted":
        print_error(
            f"dgn {arguments.command}: interrupted; run the same command to resume in "
            f"{task.folder}."
        )
    return document


def _cost_line(arguments: argparse.Namespace, task: ReproductionTask) -> str:
    """Return the estimated cost with the workers of this machine that would be used."""
    here = runs_on_this_machine(arguments.cluster)
    workers = 1 if arguments.executor == "serial" else arguments.workers or usable_cores()
    packed = not arguments.cluster and arguments.executor in ("auto", "packed")
    return cost_in_words(task, timed=here, workers=workers if here else 0, packed=packed)


def exit_code(document: Document, stop: StopSignals) -> int:
    """Return 0 if done, 3 if a run failed permanently, 128 + n if signal n interrupted it."""
    return {"done": 0, "failed": FAILED}.get(document.state, stop.exit_code)


class UnitProgressBar(TerminalBar):
    """A progress bar for many runs, with a line for each that has ended."""

    def __init__(self, name: str, stream: TextIO, quiet: bool) -> None:
        bar = PlainTextColumn("{task.percentage:>3.0f} %  {task.fields[words]}")
        super().__init__(stream, quiet, bar, soft_wrap=True)
        self._task = self.bar.add_task(name, total=1.0, words="")

    def show_unit_progress(self, now: ReproductionProgress, changed: UnitProgress | None) -> None:
        description = format_progress(now)
        self.bar.update(self._task, completed=now.fraction, words=description)
        if changed is None:
            return
        if changed.notice:
            self.console.print(changed.notice)
        if changed.state not in ("done", "diverged", "failed"):
            return
        score = "" if changed.score is None else f" {format_percent(changed.score, 2)}"
        self.console.print(
            f"{now.done + now.failed:>4}/{now.total} {changed.unit}: {changed.state}{score}"
            + ("" if self.live else f"   {description}")
        )


def format_progress(now: ReproductionProgress) -> str:
    """Format as '12/60 done, 1 failed · 4 min left · best 97.31 % (fc-adam-0.0003-ReLU-s0)'."""
    parts = [f"{now.done}/{now.total} done" + (f", {now.failed} failed" if now.failed else "")]
    if now.left is not None:
        parts.append(f"{format_duration(now.left)} left")
    if now.best is not None and now.best.score is not None:
        parts.append(f"best {format_percent(now.best.score, 2)} ({now.best.unit})")
    return " · ".join(parts)
