"""Print the tables of a result to a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.text.printable import make_console, style_text

_HEADS = (*formatting.ROW_HEADS[:7], "time")
_GAP = 2  # spaces between columns
_LEAST_LABEL = 24  # characters for a label beside its numbers
_LEAST_COLUMNS = 6  # up to 'n', which no row is without
_STYLES = {"held": "green", "not held": "red"}


def print_document(document: Document, folder: Path, stream: TextIO) -> None:
    out = make_console(stream, width=None if stream.isatty() else 180)
    for sentence in (*document.notices, *document.answer):
        out.print(sentence, soft_wrap=True)
    if document.rows:
        heads, rows = formatting.drop_empty_columns(
            _HEADS, [_row_texts(document, row) for row in document.rows]
        )
        for line in _row_lines(heads, rows, out.width):
            out.print(line, soft_wrap=True)
    if document.claims:
        out.print(_claims_table(document))
        out.print(formatting.summarize_verdicts(document.claims, document.scale), soft_wrap=True)
    for row in document.rows:
        if row.outlier is not None:
            outlier = formatting.format_outlier(row.outlier, row.of)
            out.print(f"{row.label}: {outlier}.", soft_wrap=True)
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
        for rows, remark in group.parts:
            for cells in rows:
                cell = dict(zip(heads, cells, strict=True))
                verdict = cell.pop("verdict")
                style = _STYLES.get(re.split(" at | with ", verdict)[0], "dim")
                table.add_row(style_text(verdict, style), _describe_evidence(cell))
            if remark:
                table.add_row("", style_text(remark, "dim"))
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
    return tuple(cells[head] for head in _HEADS)


def _row_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[RenderableType]:
    """Yield the lines of a table in which numbers are never broken.

    Where labels have too little room beside the numbers, they are set above them, and the last
    columns are left out if these do not fit; the report has them all.
    """
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    most = width - sum(_GAP + wide for wide in widths[1:])  # of a label beside the numbers
    above = most < min(widths[0], _LEAST_LABEL)
    if above:
        while len(widths) > _LEAST_COLUMNS and sum(_GAP + wide for wide in widths[1:]) > width:
            widths.pop()
    label_width = 0 if above else min(widths[0], most)

    def numbers(cells: Sequence[str]) -> str:
        return "".join(
            " " * (_GAP + wide - cell_len(cell)) + cell
            for cell, wide in zip(cells[1:], widths[1:], strict=False)
        )

    yield style_text(" " * label_width + numbers(heads), "dim")
    for cells in rows:
        if above:
            yield cells[0]
            yield numbers(cells)
        else:
            first, *rest = textwrap.wrap(cells[0], label_width, break_on_hyphens=False) or [""]
            yield first + " " * (label_width - cell_len(first)) + numbers(cells)
            yield from rest
