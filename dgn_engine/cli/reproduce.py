"""`dgn reproduce`: an experiment of the papers, measured, next to the printed numbers."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, get_args

from dgn_engine.cli import FAILED, Subcommand
from dgn_engine.cli._execution import add_reproduction_options, carry_out, exit_code
from dgn_engine.config import MOST_SEED, Augmentation, Device
from dgn_engine.errors import UserError
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.text.printable import complain, console, printable, say
from dgn_engine.text.written_numbers import duration

if TYPE_CHECKING:
    from dgn_engine.experiments import Request
    from dgn_engine.experiments.report.write_report import ReproductionTask

_GAP = "  "
_LEAST = 16  # columns that the last one has at least
_PIPED = 160  # columns where it is no terminal
ALL = "all"
_PLAIN = ("seeds", "seed_start", "epochs", "only", "data", "data_root", "train_limit", "test_limit")


# A table for a terminal without a library: rich takes a tenth of a second to import.
def say_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns side by side, all to the left; the last one is folded where it has no room."""
    cells = [[printable(cell) for cell in row] for row in (heads, *rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = get_terminal_size().columns if sys.stdout.isatty() else _PIPED
    before = sum(wide[:-1]) + len(_GAP) * (len(wide) - 1)
    for row in cells:
        start = _GAP.join(cell.ljust(n) for cell, n in zip(row[:-1], wide, strict=False))
        folded = textwrap.wrap(row[-1], max(room - before, _LEAST)) or [""]
        say(f"{start}{_GAP}{folded[0]}".rstrip())
        for line in folded[1:]:
            say(" " * before + line)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="an experiment of --list, or 'all'")
    parser.add_argument("--list", action="store_true", help="name, paper, cost, what is there")
    parser.add_argument("--rows", action="store_true", help="what --only chooses among, its cost")
    parser.add_argument("--json", action="store_true", help="with --rows: as JSON")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="scaled down to minutes (the default)")
    scale.add_argument("--full", action="store_true", help="the paper's scale")
    parser.add_argument("--protocol", choices=("as-published", "as-in-code"))
    parser.add_argument("--seeds", type=int, metavar="K", help="so many seeds")
    parser.add_argument("--seed-start", type=int, metavar="K", help="the first seed (0)")
    parser.add_argument("--epochs", type=int, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose label holds it")
    parser.add_argument("--steps", type=_floats, default=(), metavar="0.1,0.01", help="of SGD")
    parser.add_argument("--data", default="", help="instead of the experiment's data set")
    parser.add_argument("--data-root", default="", metavar="DIR", help="where data sets lie")
    parser.add_argument("--download", action="store_true", help="fetch data that are missing")
    for part in ("train", "test"):
        parser.add_argument(
            f"--{part}-limit", type=int, metavar="N", help=f"so many {part} examples, balanced"
        )
    parser.add_argument(
        "--augmentation", choices=get_args(Augmentation), default="none", help="of training images"
    )
    parser.add_argument("--device", choices=get_args(Device), default="auto")
    add_reproduction_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 128 + n when the signal n interrupted it; it
    can go on.
    """
    if arguments.list:
        return _print_list()
    if not arguments.name:
        raise UserError("Say which experiment, or --list to see them.")
    if arguments.json and not arguments.rows:
        raise UserError("--json belongs to --rows; a result's numbers are in its results.json.")
    if arguments.rows:
        from dgn_engine.cli._row_list import print_rows

        if arguments.name == ALL:
            raise UserError("--rows lists the rows of one experiment; say which, or --list.")
        return print_rows(task_of(arguments, arguments.name, arguments.out), arguments.json)
    if arguments.name == ALL:
        return _reproduce_all(arguments)
    stop = StopSignals()
    task = task_of(arguments, arguments.name, arguments.out)
    return exit_code(carry_out(arguments, task, stop), stop)


def task_of(
    arguments: argparse.Namespace, name: str, out: Path | None, *, among_others: bool = False
) -> ReproductionTask:
    """The experiment with its request and folder.

    Raises `UserError`, also for an option that the experiment does not have; with `among_others`
    such an option is ignored.
    """
    from dgn_engine.experiments import check_options, effective_request, find_experiment
    from dgn_engine.experiments.report.result_layout import default_folder
    from dgn_engine.experiments.report.write_report import ReproductionTask

    experiment = find_experiment(name)
    protocol = arguments.protocol or experiment.protocols[0]
    if protocol not in experiment.protocols:
        raise UserError(
            f"{name} has no protocol '{protocol}'; it has {', '.join(experiment.protocols)}."
        )
    request = _request(arguments, protocol)
    if among_others:
        request = effective_request(experiment, request)
    else:
        check_options(name, experiment, request)
    folder = (out or default_folder(name, request)).absolute()
    command = ("reproduce", name, *options_of(request), "--out", str(folder))
    return ReproductionTask(name, experiment, request, folder, command)


def options_of(request: Request) -> tuple[str, ...]:
    """The command-line options that make the same request."""
    options = [f"--{request.scale}", "--protocol", request.protocol]
    for name in _PLAIN:
        value = getattr(request, name)
        if value:
            options += [f"--{name.replace('_', '-')}", str(value)]
    if request.steps:
        options += ["--steps", ",".join(f"{step:g}" for step in request.steps)]
    if request.augmentation != "none":
        options += ["--augmentation", request.augmentation]
    if request.device != "auto":
        options += ["--device", request.device]
    return tuple(options)


def _request(arguments: argparse.Namespace, protocol: str) -> Request:
    from dgn_engine.experiments import Request

    for name in ("seeds", "epochs", "train_limit", "test_limit"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} is {value}; it must be at least 1.")
    if not 0 <= (arguments.seed_start or 0) <= MOST_SEED:
        raise UserError(
            f"--seed-start is {arguments.seed_start}; it must lie between 0 and {MOST_SEED}."
        )
    if any(step <= 0 for step in arguments.steps):
        raise UserError("--steps are learning rates; each must be greater than 0.")
    named = [f"{step:g}" for step in arguments.steps]
    for step in named:
        if named.count(step) > 1:
            raise UserError(f"--steps names {step} {_times(named.count(step))}; once is enough.")
    return Request(
        scale="full" if arguments.full else "quick",
        protocol=protocol,  # type: ignore[arg-type]  # one of the experiment's own
        seeds=arguments.seeds or 0,
        seed_start=arguments.seed_start or 0,
        epochs=arguments.epochs or 0,
        only=arguments.only,
        data=arguments.data,
        data_root=arguments.data_root,
        download=arguments.download,
        steps=arguments.steps,
        device=arguments.device,
        augmentation=arguments.augmentation,
        train_limit=arguments.train_limit or 0,
        test_limit=arguments.test_limit or 0,
    )


def _times(number: int) -> str:
    return "twice" if number == 2 else f"{number} times"


def _floats(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of numbers such as 0.1,0.01"
        ) from None


def _print_list() -> int:
    """Print name, paper, estimated cost at both scales, and the state of the user's results."""
    from dgn_engine.experiments import Request
    from dgn_engine.experiments.report.experiment_list import experiment_entries
    from dgn_engine.experiments.report.reproduction_progress import status
    from dgn_engine.experiments.report.result_layout import default_folder

    rows = list[tuple[str, ...]]()
    for entry in experiment_entries():
        folders = [default_folder(entry.id, Request(scale=scale)) for scale in ("quick", "full")]
        quick_there, full_there = map(status, folders)
        costs = entry.quick_cost, quick_there, entry.full_cost, full_there
        rows.append((entry.id, entry.paper, *costs, entry.title))
    say_table(("name", "paper", "quick", "there", "full", "there", "what"), rows)
    return 0


@dataclass(frozen=True)
class _End:
    name: str
    state: str
    seconds: float
    verdicts: str = ""


def _reproduce_all(arguments: argparse.Namespace) -> int:
    """Every experiment in turn, then the table of times and verdicts; a failure stops none."""
    from dgn_engine.experiments import all_experiments

    ends: list[_End] = []
    stop = StopSignals()
    for name, experiment in all_experiments().items():
        if arguments.protocol and arguments.protocol not in experiment.protocols:
            continue
        ends.append(_reproduce_one(arguments, name, stop))
        if ends[-1].state == "interrupted":
            break
    _print_ends(ends)
    states = {end.state for end in ends}
    return stop.exit_code if "interrupted" in states else FAILED if states - {"done"} else 0


def _reproduce_one(arguments: argparse.Namespace, name: str, stop: StopSignals) -> _End:
    from dgn_engine.experiments.report.formatting import verdicts

    began = time.monotonic()
    try:
        out = arguments.out / name if arguments.out else None
        document = carry_out(arguments, task_of(arguments, name, out, among_others=True), stop)
    except UserError as refusal:
        complain(f"dgn reproduce: {name}: {refusal}")
        return _End(name, "refused", time.monotonic() - began)
    except Exception:  # the experiments that follow are not lost to one fault
        traceback.print_exc()
        return _End(name, "failed", time.monotonic() - began)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts(document).items())
    return _End(name, document.state, time.monotonic() - began, counts)


def _print_ends(ends: list[_End]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("experiment", "state", "time", "claims"):
        table.add_column(head, justify="right" if head == "time" else "left", overflow="fold")
    for end in ends:
        table.add_row(end.name, end.state, duration(end.seconds), end.verdicts)
    total = sum(end.seconds for end in ends)
    table.add_row(f"{len(ends)} experiments", "", duration(total), "")
    console(sys.stdout, width=None if sys.stdout.isatty() else 120).print(table)


COMMAND = Subcommand("Reproduce an experiment of the papers.", add_arguments, run)
