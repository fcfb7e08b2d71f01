"""Reproduce one or all experiments of the papers, or list the rows of one."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from dgn_engine.cli import FAILED
from dgn_engine.cli._option_checks import name_data_option
from dgn_engine.cli.run.execution import carry_out, exit_code
from dgn_engine.errors import UserError, Where
from dgn_engine.experiments import (
    Request,
    all_experiments,
    check_options,
    effective_request,
    find_experiment,
)
from dgn_engine.experiments.report.formatting import list_verdicts
from dgn_engine.experiments.report.result_layout import default_folder
from dgn_engine.experiments.report.row_costs import RowCost, row_costs, whole_cost
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.printable import make_console, print_error, print_json, print_line
from dgn_engine.text.written_numbers import format_duration

_HEADS = ("row", "runs", "one CPU core", "packed", "storage", "")
_PLAIN = ("seeds", "seed_start", "epochs", "only", "data", "data_root", "train_limit", "test_limit")


def reproduce_one(arguments: argparse.Namespace) -> int:
    """Reproduce one experiment.

    Exit with 0 if done, 3 if a run failed permanently, 128 + n if signal n interrupted it; an
    interrupted experiment can be resumed.
    """
    stop = StopSignals()
    task = task_of(arguments, arguments.name, arguments.out)
    return exit_code(carry_out(arguments, task, stop), stop)


def task_of(
    arguments: argparse.Namespace, name: str, out: Path | None, *, among_others: bool = False
) -> ReproductionTask:
    """Return the experiment with its request and results folder.

    Args:
        arguments: the command line.
        name: the experiment.
        out: the results folder; by default one of the user's.
        among_others: ignore options that have no effect on this experiment.

    Raises:
        UserError: the experiment is unknown, or an option is invalid or has no effect.
    """
    experiment = find_experiment(name)
    protocol = arguments.protocol or experiment.protocols[0]
    if protocol not in experiment.protocols:
        raise UserError(
            f"{name} has no protocol '{protocol}'. Available: {', '.join(experiment.protocols)}.",
            kind="unknown-name",
            value=protocol,
        )
    request = _build_request(arguments, protocol)
    if among_others:
        request = effective_request(experiment, request)
    else:
        check_options(name, experiment, request)
    folder = (out or default_folder(name, request)).absolute()
    command = ("reproduce", name, *options_of(request), "--out", str(folder))
    return ReproductionTask(name, experiment, request, folder, command)


def options_of(request: Request) -> tuple[str, ...]:
    """Return the command-line options of a request."""
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


def _build_request(arguments: argparse.Namespace, protocol: str) -> Request:
    if any(step <= 0 for step in arguments.steps):
        raise UserError(
            Where("--steps") + " are learning rates and must be greater than 0.",
            kind="out-of-bounds",
            value=min(arguments.steps),
        )
    named = [f"{step:g}" for step in arguments.steps]
    for step, count in Counter(named).items():
        if count > 1:
            times = "twice" if count == 2 else f"{count} times"
            raise UserError(
                Where("--steps") + f" lists {step} {times}; list it once.",
                kind="named-twice",
                value=step,
            )
    names = (*_PLAIN, "download", "steps", "device", "augmentation")
    given = {name: getattr(arguments, name) for name in names}
    chosen = {name: value for name, value in given.items() if value is not None}
    return Request("full" if arguments.full else "quick", protocol, **chosen)  # type: ignore[arg-type]  # one of the experiment's own


@dataclass(frozen=True)
class _End:
    name: str
    state: str
    seconds: float
    verdicts: str = ""


def reproduce_all(arguments: argparse.Namespace) -> int:
    """Reproduce every experiment, even if some fail, and print a table of times and verdicts."""
    ends: list[_End] = []
    stop = StopSignals()
    for name, experiment in all_experiments().items():
        if arguments.protocol and arguments.protocol not in experiment.protocols:
            continue
        ends.append(_reproduce_in_turn(arguments, name, stop))
        if ends[-1].state == "interrupted":
            break
    _print_ends(ends)
    states = {end.state for end in ends}
    return stop.exit_code if "interrupted" in states else FAILED if states - {"done"} else 0


def _reproduce_in_turn(arguments: argparse.Namespace, name: str, stop: StopSignals) -> _End:
    began = time.monotonic()
    try:
        out = arguments.out / name if arguments.out else None
        document = carry_out(arguments, task_of(arguments, name, out, among_others=True), stop)
    except UserError as refusal:
        refusal.rename_places(partial(name_data_option, arguments))
        print_error(f"dgn reproduce: {name}: {refusal}")
        return _End(name, "refused", time.monotonic() - began)
    except Exception:  # continue with the other experiments
        traceback.print_exc()
        return _End(name, "failed", time.monotonic() - began)
    return _End(name, document.state, time.monotonic() - began, list_verdicts(document))


def _print_ends(ends: list[_End]) -> None:
    rows = [(end.name, end.state, format_duration(end.seconds), end.verdicts) for end in ends]
    total = format_duration(sum(end.seconds for end in ends))
    rows.append((f"{len(ends)} experiments", "", total, ""))
    _print_table(("experiment", "state", "time", "claims"), ("time",), rows, 120)


def _print_table(
    heads: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]], wide: int
) -> None:
    """Print a table.

    Args:
        heads: column titles.
        right: titles of the right-aligned columns.
        rows: the cells.
        wide: width in characters if stdout is not a terminal.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    make_console(sys.stdout, width=None if sys.stdout.isatty() else wide).print(table)


def list_rows(arguments: argparse.Namespace) -> int:
    """Print the estimated cost of each row and of the whole experiment, without running it."""
    task = task_of(arguments, arguments.name, arguments.out)
    lines = [*row_costs(task), whole_cost(task)]
    scale = scale_of(task.experiment, task.request).word
    if arguments.json:
        tree = {
            "experiment": task.name,
            "scale": scale,
            "protocol": task.request.protocol,
            "rows": [_cost_as_dict(line) for line in lines[:-1]],
            "all": _cost_as_dict(lines[-1]),
        }
        print_json(tree, indent=1)
        return 0
    print_line(f"{task.name}, {scale}, {task.request.protocol} (estimates; nothing is run)")
    if len(lines) == 1:
        print_line("It has no rows to choose with --only.")
    _print_table(_HEADS, _HEADS[1:-1], map(_cost_cells, lines), 160)
    return 0


def _cost_cells(line: RowCost) -> tuple[str, ...]:
    cost = line.cost
    if cost is None:
        return (line.label, "", "", "", "", line.remark)
    more = f"{cost.calculations:,} calculations" if cost.calculations else ""
    if cost.unknown:
        more += f", {cost.unknown:,} of unknown time not included"
    times = (
        format_duration(cost.seconds),
        format_duration(cost.packed),
        bytes_in_words(cost.storage),
    )
    return (line.label, f"{cost.runs:,}", *times, more)


def _cost_as_dict(line: RowCost) -> dict[str, Any]:
    cost = line.cost
    if cost is None:
        return {"label": line.label, "cost": None, "remark": line.remark}
    return {
        "label": line.label,
        "cost": {
            "runs": cost.runs,
            "calculations": cost.calculations,
            "of_unknown_time": cost.unknown,
            "seconds": round(cost.seconds, 3),
            "packed_seconds": round(cost.packed, 3),
            "storage_bytes": round(cost.storage),
        },
    }
