"""Reports in Markdown."""

from __future__ import annotations

import re
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
    facts,
    row_cells,
    rows_title,
    table,
)
from dgn_engine.experiments.report.paper_table import GRID_TITLE, PaperTable, paper_table
from dgn_engine.experiments.report.result_layout import FIGURES
from dgn_engine.text.printable import printable
from dgn_engine.text.written_numbers import format_duration

# starts a tag, entity, link, image, code, emphasis or formula, or separates cells
_MARK = re.compile(r"[\\`*|$~]|<(?=[\w/!?])|&(?=[\w#])|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
_BLOCK = re.compile(r"^(\s*\d*)([#>+.)-])(?=\s|#|$)")  # starts a heading, quotation or list


def markdown(document: Document) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    name = re.sub(r"[^\w.+-]", "-", document.name)
    yield f"# {words(document.title)}"
    yield f"\n{words(document.paper)} · `{name}`. {words(document.about)}\n"
    yield from (f"- {fact}: {words(value)}" for fact, value in facts(document))
    for sentence in (*document.notices, *document.answer):
        yield f"\n**{words(sentence)}**"
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
        yield f"\n![{words(figure.title)}]({FIGURES}/{figure.name}.svg)\n"
        yield words(caption(figure))
    yield from _list("Remarks", document.remarks)
    yield from _list("Differences from the paper's scale", document.scaled_down)
    yield from _list("Choices made here", document.choices)
    troubles = [unit for unit in document.units if unit.trouble]
    yield from _list(
        "Failed runs", [f"{unit.id}: {unit.trouble.strip().splitlines()[-1]}" for unit in troubles]
    )
    yield f"\nCreated {words(document.made)}; {format_duration(document.seconds)} of computing."


def markdown_grid(grid: PaperTable) -> Iterator[str]:
    """Yield the lines of the table in the paper's layout, and a line that explains its cells."""
    lines = [
        (f"*{words(line.label)}*" if line.of_paper else words(line.label), *map(words, line.cells))
        for line in grid.lines()
    ]
    yield from _table(("", *map(words, grid.columns)), lines)
    yield f"\n{words(' '.join(grid.notes()))}"


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of plain text."""
    yield from _table(tuple(map(words, heads)), [tuple(map(words, row)) for row in rows])


def words(text: str) -> str:
    """Escape text so that Markdown shows it literally, without links, tags or formulas."""
    escaped = _MARK.sub(r"\\\g<0>", printable(text))
    return _BLOCK.sub(r"\1\\\2", escaped)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _list(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"\n## {title}\n"
        yield from (f"- {words(sentence)}" for sentence in sentences)
