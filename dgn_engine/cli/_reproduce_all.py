"""`dgn reproduce all`: every experiment in turn, then the table of times and verdicts."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from dgn_engine.cli._carrying import FAILED, INTERRUPTED, carry
from dgn_engine.errors import UserError


@dataclass(frozen=True)
class _End:
    name: str
    state: str
    seconds: float
    verdicts: str = ""


def reproduce_all(arguments: argparse.Namespace) -> int:
    """Goes on after an experiment that fails; stops where it is told to."""
    from dgn_engine.experiments import all_experiments

    ends: list[_End] = []
    for name, experiment in all_experiments().items():
        if arguments.protocol and arguments.protocol not in experiment.protocols:
            continue
        ends.append(_one(arguments, name))
        if ends[-1].state == "interrupted":
            break
    _print(ends)
    states = {end.state for end in ends}
    return INTERRUPTED if "interrupted" in states else FAILED if states - {"done"} else 0


def _one(arguments: argparse.Namespace, name: str) -> _End:
    from dgn_engine.cli.reproduce import task_of
    from dgn_engine.experiments.report.report_rows import verdicts

    began = time.monotonic()
    try:
        out = arguments.out / name if arguments.out else None
        document = carry(arguments, task_of(arguments, name, out, among_others=True))
    except UserError as refusal:
        print(f"dgn reproduce: {name}: {refusal}", file=sys.stderr)
        return _End(name, "refused", time.monotonic() - began)
    except Exception:  # one fault of ours must not cost the experiments that follow
        traceback.print_exc()
        return _End(name, "failed", time.monotonic() - began)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts(document).items())
    return _End(name, document.state, time.monotonic() - began, counts)


def _print(ends: list[_End]) -> None:
    from dgn_engine.experiments.report import formatting

    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("experiment", "state", "time", "claims"):
        table.add_column(head, justify="right" if head == "time" else "left", overflow="fold")
    for cells in _cells(ends):
        table.add_row(*cells)
    total = sum(end.seconds for end in ends)
    table.add_row(f"{len(ends)} experiments", "", formatting.duration(total), "")
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120).print(table)


def _cells(ends: list[_End]) -> Iterator[tuple[str, str, str, str]]:
    from dgn_engine.experiments.report import formatting

    for end in ends:
        yield end.name, end.state, formatting.duration(end.seconds), end.verdicts
