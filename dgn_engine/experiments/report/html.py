"""`report.html`: a self-contained page without scripts, for light and dark themes and print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import (
    CLAIM_NOTE,
    NOTHING,
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
    theme_colours,
)
from dgn_engine.experiments.report.mathematics import label_as_html
from dgn_engine.experiments.report.paper_table import GRID_TITLE, paper_table
from dgn_engine.experiments.report.result_layout import TABLES
from dgn_engine.protocol.experiments import Figure

_WORDS = {"held": "held", "not held": "failed"}
_WORDY = frozenset(("", "statistic", "power"))
_NUMBERS = frozenset(
    (
        "measured",
        "printed",
        "difference",
        "agreement",
        "n",
        "epochs",
        "time",
        "value",
        "95 % interval",
        "sign-flip interval",
        "p",
    )
)


def render_html(document: Document, drawn: Mapping[str, bytes] | None = None) -> str:
    """Render the report as HTML; `drawn` are figures that are already SVG, by name."""
    return "\n".join(_page_parts(document, drawn or {})) + "\n"


def _page_parts(document: Document, drawn: Mapping[str, bytes]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(document.title)}</title>"
    yield f"<style>{style_sheet()}</style>\n</head>\n<body>"
    yield f"<header><p>{escape(document.paper)} · <code>{escape(document.name)}</code></p>"
    yield f"<h1>{escape(document.title)}</h1><p>{escape(document.about)}</p></header>"
    yield from (f"<p class=notice>{escape(sentence)}</p>" for sentence in document.notices)
    yield from (f"<p class=answer>{escape(sentence)}</p>" for sentence in document.answer)
    yield from _grid_section(document)
    if document.rows:
        yield from _rows_section(document)
    if document.claims:
        yield from _claims_section(document)
    if document.figures:
        from dgn_engine.experiments.report.report_figures import (
            inline_svg,  # matplotlib takes seconds
        )

        yield "<div class=figures>"
        for figure in document.figures:
            yield _figure_element(figure, inline_svg(figure, drawn.get(figure.name, b"")))
        yield "</div>"
    yield from _list_section("Remarks", document.remarks)
    yield from _list_section("Differences from the paper's scale", document.scaled_down)
    yield from _list_section("Choices made here", document.choices)
    yield from _failures_section(document)
    yield "<h2>How it was produced</h2>\n<dl>"
    yield from (f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in report_facts(document))
    yield "</dl>\n</body>\n</html>"


def _rows_section(document: Document) -> Iterator[str]:
    rows = [row_cells(document, row) for row in document.rows]
    yield f"<h2>{rows_title(document)}</h2>"
    yield from _table_element(ROW_HEADS, rows)
    yield f"<p class=note>{escape(ROW_NOTE)}</p>"
    if any(row.printed is not None for row in document.rows):
        yield f"<p class=note>{escape(PRINTED_NOTE)}</p>"
    yield f"<p class=note>Files to copy from: {_table_file_names(document)}.</p>"


def _table_file_names(document: Document) -> str:
    return " and ".join(
        f"<code>{TABLES}/{escape(document.name)}-rows.{kind}</code>" for kind in ("tex", "csv")
    )


def _grid_section(document: Document) -> Iterator[str]:
    grid = paper_table(document)
    if grid is None:
        return
    yield f"<h2>{GRID_TITLE}</h2>\n<div class=table><table class=grid><thead><tr><th></th>"
    yield "".join(f'<th class="number">{label_as_html(column)}</th>' for column in grid.columns)
    yield "</tr></thead><tbody>"
    for line in grid.lines():
        cells = "".join(f'<td class="number">{escape(cell)}</td>' for cell in line.cells)
        kind = " class=printed" if line.of_paper else ""
        yield f'<tr{kind}><th scope="row">{label_as_html(line.label)}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    names = _table_file_names(document).replace("-rows.", ".")
    yield f"<p class=note>{escape(' '.join(grid.notes()))} Files to copy from: {names}.</p>"


def _figure_element(figure: Figure, svg: str) -> str:
    name = escape(figure.title)
    kind = " class=wide" if figure.image else ""
    caption_html = f"<figcaption>{label_as_html(figure_caption(figure))}</figcaption>"
    return f'<figure{kind} aria-label="{name}">{svg}{caption_html}</figure>'


def _claims_section(document: Document) -> Iterator[str]:
    heads, groups = claim_groups(document)
    yield "<h2>Claims</h2>"
    yield f"<p>{escape(summarize_verdicts(document.claims, document.scale))}</p>"
    yield "<div class=table><table><thead><tr>"
    yield "".join(_cell_element("th", head, head) for head in heads)
    yield "</tr></thead>"
    for group in groups:
        yield f"<tbody><tr class=claim><th colspan={len(heads)}>{escape(group.statement)}</th></tr>"
        for rows, remark in group.parts:
            yield from (_row_element(heads, row) for row in rows)
            if remark:
                yield _remark_element(heads, remark)
        yield "</tbody>"
    yield f"</table></div>\n<p class=note>{escape(CLAIM_NOTE)}</p>"


def _table_element(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown, lines = drop_empty_columns(heads, rows)
    remarks = [""] * len(lines)
    if shown and shown[-1] == "remark":  # sentences below the rows
        shown, remarks = shown[:-1], [line[-1] for line in lines]
    yield "<div class=table><table><thead><tr>"
    yield "".join(_cell_element("th", head, head) for head in shown)
    yield "</tr></thead><tbody>"
    for line, remark in zip(lines, remarks, strict=True):
        yield _row_element(shown, line[: len(shown)])
        if remark:
            yield _remark_element(shown, remark)
    yield "</tbody></table></div>"


def _row_element(heads: Sequence[str], cells: Sequence[str]) -> str:
    return "<tr>" + "".join(map(_cell_element, ["td"] * len(heads), heads, cells)) + "</tr>"


def _remark_element(heads: Sequence[str], remark: str) -> str:
    return f"<tr class=remark><td colspan={len(heads)}>{escape(remark)}</td></tr>"


def _cell_element(tag: str, head: str, text: str) -> str:
    kind = "number" if head in _NUMBERS else "words" if head in _WORDY else ""
    if tag == "td" and head in ("verdict", "after Holm") and text != NOTHING:
        word = re.split(" at | with ", text)[0]  # 'held at reduced scale'
        kind = f"verdict {_WORDS.get(word, 'open')}"
    attribute = f' class="{kind}"' if kind else ""
    content = label_as_html(text) if head in ("", "statistic") else escape(text)
    return f"<{tag}{attribute}>{content}</{tag}>"


def _list_section(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"<h2>{escape(title)}</h2>\n<ul>"
        yield from (f"<li>{escape(sentence)}</li>" for sentence in sentences)
        yield "</ul>"


def _failures_section(document: Document) -> Iterator[str]:
    failed = [unit for unit in document.units if unit.trouble]
    if failed:
        yield "<h2>Failed runs</h2>"
    for unit in failed:
        yield f"<details><summary>{escape(unit.id)}</summary><pre>{escape(unit.trouble)}</pre>"
        yield "</details>"


def style_sheet() -> str:
    """Return the style sheet of reports, with the colours of both themes."""
    sheet = (files("dgn_resources") / "report.css").read_text(encoding="utf-8")
    return (
        f":root{{{_colour_variables('light')}}}\n"
        "@media screen and "
        f"(prefers-color-scheme:dark){{:root{{{_colour_variables('dark')}}}}}\n{sheet}"
    )


def _colour_variables(theme: str) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in theme_colours(theme).items())
