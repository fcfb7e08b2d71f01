"""The tables of a result as Markdown, CSV and LaTeX files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from statistics import stdev

from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.formatting import (
    ROW_HEADS,
    drop_empty_columns,
    row_cells,
    rows_note,
)
from dgn_engine.experiments.report.latex import latex_grid, latex_rows
from dgn_engine.experiments.report.markdown import markdown_grid, markdown_table
from dgn_engine.experiments.report.paper_table import PaperTable, paper_table
from dgn_engine.text.printable import csv_cell

KINDS = ("md", "csv", "tex")


def table_files(document: Document) -> dict[str, bytes]:
    """Return file contents by name: NAME in the paper's layout, NAME-rows with all rows."""
    if not document.rows:
        return {}
    full = (_markdown_rows(document), csv_text(document.rows), latex_rows(document))
    files = dict(zip((f"{document.name}-rows.{kind}" for kind in KINDS), full, strict=True))
    grid = paper_table(document)
    if grid is not None:
        short = (
            "\n".join((*markdown_grid(grid), "")),
            csv_text(_in_order(grid)),
            latex_grid(document, grid),
        )
        files |= zip((f"{document.name}.{kind}" for kind in KINDS), short, strict=True)
    return {name: text.encode() for name, text in files.items()}


def csv_text(rows: Sequence[ReportRow]) -> str:
    """Return CSV with one line per row and unrounded numbers; missing ones are empty."""
    content = io.StringIO()
    lines = [{head: _csv_value(value) for head, value in _row_numbers(row).items()} for row in rows]
    writer = csv.DictWriter(content, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return content.getvalue()


def _row_numbers(row: ReportRow) -> dict[str, object]:
    line, column = row.place or ("", "")
    of_paper = row.printed
    return {
        "label": row.label,
        "row": line,
        "column": column,
        "unit": row.unit,
        "mean": row.mean,
        "half_width": row.half_width,
        "sd": stdev(row.values) if len(row.values) > 1 else math.nan,
        "n": len(row.values),
        "of": row.of,
        "printed": of_paper.value if of_paper else math.nan,
        "printed_sd": of_paper.half_width if of_paper else math.nan,
        "difference": row.difference,
        "agrees_within": row.agreement.within,
        "margin": row.agreement.margin,
        "agreement": row.agreement.verdict,
        "epochs": row.epochs,
        "seconds": row.seconds,
    }


def _csv_value(value: object) -> object:
    nothing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if nothing else csv_cell(value)


def _in_order(grid: PaperTable) -> list[ReportRow]:
    keys = ((row, column) for row in grid.rows for column in grid.columns)
    return [grid.cells[key] for key in keys if key in grid.cells]


def _markdown_rows(document: Document) -> str:
    heads, rows = drop_empty_columns(ROW_HEADS, [row_cells(document, row) for row in document.rows])
    return "\n".join((*markdown_table(heads, rows), f"\n{rows_note(document)}\n"))
