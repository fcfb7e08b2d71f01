"""The table of a paper in its own layout, filled with the measured numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.formatting import (
    NOTHING,
    format_measured,
    format_printed,
    format_replicates,
    made_at,
)
from dgn_engine.protocol.experiments import PRINTED_SPREAD

GRID_TITLE = "In the layout of the paper's table"
PRINTED = "printed"


@dataclass(frozen=True)
class TableLine:
    """A line of cells; `of_paper` if these are the printed numbers for the line above."""

    label: str
    cells: tuple[str, ...]
    of_paper: bool = False


@dataclass(frozen=True)
class PaperTable:
    """The measured numbers in the layout of the paper.

    Attributes:
        title: the paper and the experiment.
        rows, columns: in the order of the paper.
        cells: rows of the report by row and column.
        made: a sentence on scale and protocol.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], ReportRow]
    made: str = ""

    def lines(self) -> Iterator[TableLine]:
        """Yield the measured numbers of each row, followed by the printed ones."""
        count = self._common_count
        for row in self.rows:
            cells = [self.cells.get((row, column)) for column in self.columns]
            yield TableLine(
                row, tuple(_measured_cell(cell, with_count=count is None) for cell in cells)
            )
            if any(cell and cell.printed for cell in cells):
                numbers = (
                    format_printed(cell.printed, cell.unit) if cell else NOTHING for cell in cells
                )
                yield TableLine(PRINTED, tuple(numbers), of_paper=True)

    def notes(self) -> Iterator[str]:
        """Yield sentences for the caption that explain the cells."""
        cells = self.cells.values()
        unit = " in %" if all(cell.unit == "%" for cell in cells) else ""
        over = f"n = {self._common_count}" if self._common_count else "n values, n in brackets"
        if any(len(cell.values) > 1 for cell in cells):
            yield f"Mean{unit} ± half-width of the 95 % interval (Student’s t) over {over}."
        else:
            yield f"Single values{unit} without an interval, n = {self._common_count}."
        if any(cell.printed for cell in cells):
            spread = any(cell.printed and cell.printed.half_width is not None for cell in cells)
            yield "Below each, the printed number" + (
                f"; its ± is {PRINTED_SPREAD}." * spread or "."
            )
        if self.made:
            yield self.made

    @property
    def _common_count(self) -> str | None:
        """The number of replicates, such as '5 seeds', if it is the same in all cells."""
        counts = {format_replicates(len(cell.values), cell.of) for cell in self.cells.values()}
        return counts.pop() if len(counts) == 1 else None


def paper_table(document: Document) -> PaperTable | None:
    """Return the table of those rows that have a place in one; None if there are none."""
    cells = {row.place: row for row in document.rows if row.place}
    if not cells:
        return None
    rows = tuple(dict.fromkeys(row for row, _ in cells))
    come = dict.fromkeys(column for _, column in cells)
    known = [column for column in document.columns if column in come]
    columns = tuple(dict.fromkeys((*known, *come)))
    return PaperTable(
        f"{document.paper}: {document.title}", rows, columns, cells, made_at(document)
    )


def _measured_cell(cell: ReportRow | None, with_count: bool) -> str:
    if cell is None:
        return NOTHING
    return (
        f"{format_measured(cell)} ({format_replicates(len(cell.values), cell.of)})"
        if with_count
        else format_measured(cell)
    )
