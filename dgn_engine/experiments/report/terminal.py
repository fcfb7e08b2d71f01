"""Print the tables of a result to a terminal."""

from __future__ import annotations

from collections.abc import Sequence
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
        heads, lines = formatting.drop_empty_columns(
            formatting.CLAIM_HEADS[:-1],
            [formatting.claim_cells(claim, document.scale)[:-1] for claim in document.claims],
        )
        table = _make_table(heads)
        for claim, cells in zip(document.claims, lines, strict=True):
            style = _STYLES.get(claim.verdict, "dim")
            table.add_row(
                *(
                    style_text(cell, style) if head == "verdict" else cell
                    for head, cell in zip(heads, cells, strict=True)
                )
            )
        out.print(table)
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


def _row_texts(document: Document, row: ReportRow) -> tuple[str, ...]:
    cells = dict(zip(formatting.ROW_HEADS, formatting.row_cells(document, row), strict=True))
    cells["measured"] = formatting.format_measured(row)  # without the unit, to save room
    return tuple(cells[head] for head in _HEADS)


def _make_table(heads: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    words_ = ("", "claim", "statistic", "verdict", "after Holm", "power")
    for head in heads:
        table.add_column(head, justify="left" if head in words_ else "right", overflow="fold")
    return table
