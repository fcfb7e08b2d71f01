"""A report in Markdown, for those who paste it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import (
    CLAIM_HEADS,
    CLAIM_NOTE,
    PRINTED_NOTE,
    ROW_HEADS,
    ROW_NOTE,
    caption,
    claim_cells,
    duration,
    facts,
    row_cells,
    rows_title,
    table,
)
from dgn_engine.experiments.report.paper_table import GRID_TITLE, PaperTable, paper_table
from dgn_engine.experiments.report.result_layout import FIGURES


def markdown(document: Document) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {document.title}"
    yield f"\n{document.paper} · `{document.name}`. {document.about}\n"
    yield from (f"- {name}: {value}" for name, value in facts(document))
    for sentence in (*document.notices, *document.answer):
        yield f"\n**{sentence}**"
    grid = paper_table(document)
    if grid is not None:
        yield f"\n## {GRID_TITLE}\n"
        yield from markdown_grid(grid)
    if document.rows:
        yield f"\n## {rows_title(document)}\n"
        rows = [row_cells(document, row) for row in document.rows]
        yield from markdown_table(*table(ROW_HEADS, rows))
        yield f"\n{ROW_NOTE}"
        if any(row.printed is not None for row in document.rows):
            yield PRINTED_NOTE
    if document.claims:
        yield "\n## Claims\n"
        claims = [claim_cells(claim, document.scale) for claim in document.claims]
        yield from markdown_table(*table(CLAIM_HEADS, claims))
        yield f"\n{CLAIM_NOTE}"
    for figure in document.figures:
        yield f"\n![{_cell(figure.title)}]({FIGURES}/{figure.name}.svg)\n"
        yield caption(figure)
    yield from _list("Remarks", document.remarks)
    yield from _list("How it was scaled down", document.scaled_down)
    yield from _list("What was chosen", document.choices)
    troubles = [unit for unit in document.units if unit.trouble]
    yield from _list(
        "What failed", [f"{unit.id}: {unit.trouble.strip().splitlines()[-1]}" for unit in troubles]
    )
    yield f"\nMade {document.made}; {duration(document.seconds)} of computing."


def markdown_grid(grid: PaperTable) -> Iterator[str]:
    """Yield the lines of the table in the paper's grid, and a line that says what a cell holds."""
    lines = [
        (f"*{line.label}*" if line.of_paper else line.label, *line.cells) for line in grid.lines()
    ]
    yield from markdown_table(("", *grid.columns), lines)
    yield f"\n{' '.join(grid.notes())}"


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(map(_cell, heads)) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _list(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"\n## {title}\n"
        yield from (f"- {sentence}" for sentence in sentences)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
