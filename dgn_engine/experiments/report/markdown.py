"""Reports in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import (
    CLAIM_NOTE,
    PRINTED_NOTE,
    ROW_HEADS,
    ROW_NOTE,
    claim_groups,
    drop_empty_columns,
    figure_caption,
    report_facts,
    row_cells,
    rows_title,
    summarize_verdicts,
)
from dgn_engine.experiments.report.paper_table import GRID_TITLE, PaperTable, paper_table
from dgn_engine.experiments.report.result_layout import FIGURES
from dgn_engine.text.printable import printable
from dgn_engine.text.written_numbers import format_duration

# starts a tag, entity, link, image, code, emphasis or formula, or separates cells
_MARK = re.compile(r"[\\`*|$~]|<(?=[\w/!?])|&(?=[\w#])|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
_BLOCK = re.compile(r"^(\s*\d*)([#>+.)-])(?=\s|#|$)")  # starts a heading, quotation or list


def render_markdown(document: Document) -> str:
    return "\n".join(_report_lines(document)) + "\n"


def _report_lines(document: Document) -> Iterator[str]:
    name = re.sub(r"[^\w.+-]", "-", document.name)
    yield f"# {escape_markdown(document.title)}"
    yield f"\n{escape_markdown(document.paper)} · `{name}`. {escape_markdown(document.about)}\n"
    yield from (f"- {fact}: {escape_markdown(value)}" for fact, value in report_facts(document))
    for sentence in (*document.notices, *document.answer):
        yield f"\n**{escape_markdown(sentence)}**"
    grid = paper_table(document)
    if grid is not None:
        yield f"\n## {GRID_TITLE}\n"
        yield from markdown_grid(grid)
    if document.rows:
        yield f"\n## {rows_title(document)}\n"
        rows = [row_cells(document, row) for row in document.rows]
        yield from markdown_table(*drop_empty_columns(ROW_HEADS, rows))
        yield f"\n{ROW_NOTE}"
        if any(row.printed is not None for row in document.rows):
            yield PRINTED_NOTE
    if document.claims:
        yield "\n## Claims\n"
        yield f"{summarize_verdicts(document.claims, document.scale)}\n"
        heads, groups = claim_groups(document)
        for group in groups:
            yield f"**{escape_markdown(group.statement)}**\n"
            rows = [row for same, _ in group.parts for row in same]
            yield from markdown_table(*drop_empty_columns(heads, rows))
            yield ""
            remarks = dict.fromkeys(remark for _, remark in group.parts if remark)
            yield from (f"{escape_markdown(remark)}\n" for remark in remarks)
        yield CLAIM_NOTE
    for figure in document.figures:
        yield f"\n![{escape_markdown(figure.title)}]({FIGURES}/{figure.name}.svg)\n"
        yield escape_markdown(figure_caption(figure))
    yield from _list_lines("Remarks", document.remarks)
    yield from _list_lines("Differences from the paper's scale", document.scaled_down)
    yield from _list_lines("Choices made here", document.choices)
    troubles = [unit for unit in document.units if unit.trouble]
    yield from _list_lines(
        "Failed runs", [f"{unit.id}: {unit.trouble.strip().splitlines()[-1]}" for unit in troubles]
    )
    yield (
        f"\nCreated {escape_markdown(document.made)}; "
        f"{format_duration(document.seconds)} of computing time."
    )


def markdown_grid(grid: PaperTable) -> Iterator[str]:
    """Yield the lines of the table in the paper's layout, and a line that explains its cells."""
    lines = [
        (
            f"*{escape_markdown(line.label)}*" if line.of_paper else escape_markdown(line.label),
            *map(escape_markdown, line.cells),
        )
        for line in grid.lines()
    ]
    yield from _table_lines(("", *map(escape_markdown, grid.columns)), lines)
    yield f"\n{escape_markdown(' '.join(grid.notes()))}"


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of plain text."""
    yield from _table_lines(
        tuple(map(escape_markdown, heads)), [tuple(map(escape_markdown, row)) for row in rows]
    )


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it literally, without links, tags or formulas."""
    escaped = _MARK.sub(r"\\\g<0>", printable(text))
    return _BLOCK.sub(r"\1\\\2", escaped)


def _table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _list_lines(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"\n## {title}\n"
        yield from (f"- {escape_markdown(sentence)}" for sentence in sentences)
