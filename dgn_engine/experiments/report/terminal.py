"""Print the tables of a result to a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.table import Table

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.text.printable import make_console, style_text

_HEADS = (*formatting.ROW_HEADS[:7], "time")
_STYLES = {"held": "green", "not held": "red"}


def print_document(document: Document, folder: Path, stream: TextIO) -> None:
    out = make_console(stream, width=None if stream.isatty() else 180)
    for sentence in (*document.notices, *document.answer):
        out.print(sentence, soft_wrap=True)
    if document.rows:
        heads, rows = formatting.drop_empty_columns(
            _HEADS, [_row_texts(document, row) for row in document.rows]
        )
        table = _make_table(heads)
        for cells in rows:
            table.add_row(*cells)
        out.print(table)
    if document.claims:
        out.print(_claims_table(document))
        out.print(formatting.summarize_verdicts(document.claims, document.scale), soft_wrap=True)
    for name, found, of in (
        *((row.label, row.outlier, row.of) for row in document.rows),
        *((claim.id, claim.outlier, claim.of) for claim in document.claims),
    ):
        if found is not None:
            out.print(f"{name}: {formatting.format_outlier(found, of)}.", soft_wrap=True)
    if document.answer:  # an answer needs its remarks and choices
        for sentence in (*document.remarks, *document.choices):
            out.print(sentence, soft_wrap=True)
    for unit in document.units:
        if unit.trouble:
            last = unit.trouble.strip().splitlines()[-1]
            out.print(f"{unit.id} failed: {last}", style="red")
    out.print(f"{document.state}: {folder / REPORT}.html", soft_wrap=True)


def _claims_table(document: Document) -> Table:
    """Return a table of verdicts, each beside its evidence: legible at 80 columns."""
    heads, groups = formatting.claim_groups(document)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for group in groups:
        table.add_row("claim", style_text(group.statement, "bold"))
        for cells in (row for rows, _ in group.parts for row in rows):
            cell = dict(zip(heads, cells, strict=True))
            verdict = cell.pop("verdict")
            style = _STYLES.get(re.split(" at | with ", verdict)[0], "dim")
            table.add_row(style_text(verdict, style), _describe_evidence(cell))
    return table


def _describe_evidence(cell: Mapping[str, str]) -> str:
    """Return 'DL − FR-II; above 0: 5.1 [3, 7.3], 5 seeds, p < 0.001, after Holm: held'."""
    known = {head: text for head, text in cell.items() if text not in ("", formatting.NOTHING)}
    numbers = [known.pop(head) for head in ("value", "95 % interval") if head in known]
    parts = [
        " ".join((f"{known.pop('statistic')}:" if numbers else known.pop("statistic"), *numbers))
    ]
    for head, text in known.items():
        match head:
            case "n":
                parts.append(text)
            case "p":
                parts.append(f"p {text}" if text.startswith("<") else f"p = {text}")
            case _:
                parts.append(f"{head}: {text}")
    return ", ".join(parts)


def _row_texts(document: Document, row: ReportRow) -> tuple[str, ...]:
    cells = dict(zip(formatting.ROW_HEADS, formatting.row_cells(document, row), strict=True))
    cells["measured"] = formatting.format_measured(row)  # without the unit, to save room
    return tuple(cells[head] for head in _HEADS)


def _make_table(heads: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="right" if head else "left", overflow="fold")
    return table
