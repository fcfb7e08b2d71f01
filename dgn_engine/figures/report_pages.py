"""Headings, paragraphs, tables and figures on the pages of a PDF (A4), as vector graphics."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.lines import Line2D

from dgn_engine.figures.figure_page import draw_block, lay_out_panel
from dgn_engine.figures.figure_style import TEXT, FigureStyle
from dgn_engine.figures.paper import FRAME, INCH, WHITE, Paper, print_style
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.set_text import LINE, width_of, wrap_text
from dgn_engine.scene.theme import LIGHT

WIDTH, HEIGHT = 595.0, 842.0  # points, A4
INNER = TEXT * INCH
LEFT = (WIDTH - INNER) / 2
TOP, BOTTOM = 54.0, 54.0
SIZE, SMALL = 9.5, 8.0
STYLE = FigureStyle(caption=False)
_TITLES = (16.0, 11.5)  # sizes of headings by level
_CELL_GAP = 10.0


@dataclass(frozen=True)
class PageHeading:
    """A heading: level 0 is the title of the document."""

    text: str
    level: int = 1


@dataclass(frozen=True)
class Paragraph:
    """Sentences, wrapped."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class TableRows:
    """Rows of cells, the first of which is the head; a head of empty cells is left out."""

    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class PageFigure:
    """A figure as wide as the text, with its caption below."""

    panel: FigurePanel
    caption: str


Block = PageHeading | Paragraph | TableRows | PageFigure


class _Pages:
    """The pages so far and the position on the last one, in points from its top."""

    def __init__(self) -> None:
        self.papers: list[Paper] = []
        self.y = HEIGHT

    @property
    def paper(self) -> Paper:
        return self.papers[-1]

    def make_room(self, height: float) -> None:
        """Begin a new page unless this height is left on the current one."""
        if self.y + height > HEIGHT - BOTTOM:
            self.papers.append(Paper(WIDTH, HEIGHT, STYLE))
            self.y = TOP

    def add_line(
        self, words: str, size: float, colour: str = LIGHT.text, weight: str = "normal"
    ) -> None:
        self.make_room(size * LINE)
        self.y += size * LINE
        self.paper.add_text(LEFT, self.y - 0.25 * size, words, size, colour, weight=weight)


def pdf_of_blocks(blocks: Sequence[Block], title: str) -> bytes:
    """Return the document as PDF, without a date, so that equal content makes equal files."""
    content = io.BytesIO()
    with print_style():
        pages = _Pages()
        for index, block in enumerate(blocks):
            following = blocks[index + 1] if index + 1 < len(blocks) else None
            _add_block(pages, block, following)
        for number, paper in enumerate(pages.papers, 1):
            words = f"{number} / {len(pages.papers)}"
            paper.add_text(
                LEFT + INNER - width_of(words, SMALL), HEIGHT - 30, words, SMALL, LIGHT.muted
            )
        about = {"Title": title, "Creator": "dgn-viewer", "CreationDate": None}
        with PdfPages(content, metadata=about) as pdf:
            for paper in pages.papers:
                pdf.savefig(paper.figure, facecolor=WHITE)
    return content.getvalue()


def _add_block(pages: _Pages, block: Block, following: Block | None) -> None:
    match block:
        case PageHeading():
            size = _TITLES[block.level]
            # A heading stays with the first lines of what follows.
            pages.make_room(size * 2.2 + (4 * SIZE * LINE if following is not None else 0))
            pages.y += 0.9 * size if pages.y > TOP else 0.0
            for line in wrap_text(block.text, size, INNER, bold=True):
                pages.add_line(line, size, weight="bold")
            pages.y += 3.0
        case Paragraph():
            size = SMALL if block.small else SIZE
            for line in wrap_text(block.text, size, INNER):
                pages.add_line(line, size, LIGHT.muted if block.small else LIGHT.text)
            pages.y += 5.0
        case TableRows():
            _add_table(pages, block.rows)
        case PageFigure():
            _add_figure(pages, block)


def _add_figure(pages: _Pages, block: PageFigure) -> None:
    placed = lay_out_panel(block.panel, INNER, None, False, STYLE)
    caption = wrap_text(block.caption, SMALL, INNER)
    pages.make_room(placed.height + len(caption) * SMALL * LINE + 12.0)
    pages.y += 4.0
    draw_block(pages.paper, placed, LEFT, pages.y, True)
    pages.y += placed.height + 4.0
    for line in caption:
        pages.add_line(line, SMALL, LIGHT.muted)
    pages.y += 6.0


def _add_table(pages: _Pages, rows: Sequence[tuple[str, ...]]) -> None:
    widths = _column_widths(rows)
    head, *body = (
        [wrap_text(cell, SMALL, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for row in rows
    )
    has_head = any(rows[0])
    for number, cells in enumerate(body):
        # The head stays with the first row, and is repeated on a new page.
        first = has_head and number == 0
        before = len(pages.papers)
        pages.make_room(_row_height(cells) + (_row_height(head) if first else 0.0))
        if first or (has_head and len(pages.papers) > before):
            _add_row(pages, head, widths, len(head))
        _add_row(pages, cells, widths, 0 if has_head else 1)
    pages.y += 5.0


def _row_height(cells: list[list[str]]) -> float:
    return max(map(len, cells)) * SMALL * LINE + 3.0


def _add_row(pages: _Pages, cells: list[list[str]], widths: list[float], muted: int) -> None:
    """Draw the lines of each cell, the first `muted` cells in grey, and a line below the row."""
    x = LEFT
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        colour = LIGHT.muted if column < muted else LIGHT.text
        for line, words in enumerate(cell):
            y = pages.y + (line + 0.85) * SMALL * LINE
            pages.paper.add_text(x, y, words, SMALL, colour)
        x += width + _CELL_GAP
    pages.y += _row_height(cells)
    _rule(pages)


def _rule(pages: _Pages) -> None:
    """Draw a thin line below a row."""
    y = 1.0 - (pages.y - 0.5) / HEIGHT
    line = Line2D([LEFT / WIDTH, (LEFT + INNER) / WIDTH], [y, y], color=FRAME, linewidth=0.25)
    pages.paper.figure.add_artist(line)


def _column_widths(rows: Sequence[tuple[str, ...]]) -> list[float]:
    """Return the width of each column: as its cells need, the widest ones shortened to fit."""
    wanted = [max(width_of(cell, SMALL) for cell in column) for column in zip(*rows, strict=True)]
    room = INNER - _CELL_GAP * (len(wanted) - 1)
    widths = list(wanted)
    while sum(widths) > room:
        widest = max(widths)
        others = [width for width in widths if width < widest]
        count = len(widths) - len(others)
        fair = max((room - sum(others)) / count, max(others, default=0.0))
        widths = [min(width, fair) for width in widths]
        if fair == max(others, default=0.0) and sum(widths) > room and not others:
            break
    return widths
