"""Prints the tables of a result on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from rich.table import Table

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.text.printable import console, styled
from dgn_engine.text.written_numbers import duration

_HEADS = ("", "measured", "printed", "difference", "p (Welch)", "n", "epochs", "time")
_STYLES = {"held": "green", "not held": "red"}


def print_document(document: Document, folder: Path, stream: TextIO) -> None:
    out = console(stream, width=None if stream.isatty() else 180)
    for sentence in (*document.notices, *document.answer):
        out.print(sentence, soft_wrap=True)
    if document.rows:
        heads, rows = formatting.table(_HEADS, [_cells(row) for row in document.rows])
        table = _table(*heads)
        for cells in rows:
            table.add_row(*cells)
        out.print(table)
    if document.claims:
        table = _table(
            "claim",
            "statistic",
            "value",
            "95 % interval",
            "n",
            "p",
            "verdict",
            "after Holm",
            "power",
        )
        for claim in document.claims:
            style = _STYLES.get(claim.verdict, "dim")
            verdict = formatting.verdict(claim, document.scale)
            table.add_row(
                f"{claim.id}: {claim.statement}",
                claim.statistic,
                formatting.number(claim.value),
                formatting.interval(claim),
                formatting.replicates(claim.n, claim.of),
                formatting.chance(claim.p),
                styled(verdict, style),
                formatting.after_holm(claim, document.scale),
                formatting.power(claim),
            )
        out.print(table)
    if document.answer:  # how it came about is part of it
        for sentence in (*document.remarks, *document.choices):
            out.print(sentence, soft_wrap=True)
    for unit in document.units:
        if unit.trouble:
            last = unit.trouble.strip().splitlines()[-1]
            out.print(f"{unit.id} failed: {last}", style="red")
    out.print(f"{document.state}: {folder / REPORT}.html", soft_wrap=True)


def _cells(row: ReportRow) -> tuple[str, ...]:
    return (
        row.label,
        formatting.measured(row),
        formatting.printed(row.printed, row.unit),
        formatting.number(row.difference, row.unit, signed=True),
        formatting.chance(row.welch_p),
        formatting.replicates(len(row.values), row.of),
        formatting.epochs(row.epochs),
        duration(row.seconds) if row.seconds else formatting.NOTHING,
    )


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    words_ = ("", "claim", "statistic", "verdict", "after Holm", "power")
    for head in heads:
        table.add_column(head, justify="left" if head in words_ else "right", overflow="fold")
    return table
