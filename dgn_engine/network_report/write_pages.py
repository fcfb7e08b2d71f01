"""Write a report: HTML, PDF, figures with the scripts that redraw them, and all numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.document import to_bytes
from dgn_engine.experiments.report.html import style_sheet
from dgn_engine.experiments.report.mathematics import label_as_html, typeset
from dgn_engine.experiments.report.report_figures import adapt_svg
from dgn_engine.experiments.report.result_layout import FIGURES, REPORT, RESULTS
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.redraw_script import script_files
from dgn_engine.figures.report_pages import (
    Block,
    PageFigure,
    PageHeading,
    Paragraph,
    TableRows,
    pdf_of_blocks,
)
from dgn_engine.figures.save_figure import page_bytes
from dgn_engine.network_report.make_report import NetworkReport, cost_in_words
from dgn_engine.network_report.section import MeasuredSection, Quantity
from dgn_engine.storage.atomic_write import make_folder, write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.runs import run_info
from dgn_engine.text.printable import printable
from dgn_engine.text.written_numbers import format_duration

HTML, PDF = f"{REPORT}.html", f"{REPORT}.pdf"
FILES = (HTML, PDF, RESULTS)
STYLE = FigureStyle(caption=False)  # as wide as the text of a page; the caption is below it
TYPICAL = (
    "Trained networks: ranges over ten seeds of dense networks of the same kind on the digits (64 "
    "examples; 32 units, 5 layers) and MNIST (128 units, 6 layers). Data, width and depth change "
    "them, so they are a scale, not a norm."
)
SHUFFLED = (
    "Shuffled labels: the range over random orders of the labels of the examples, with the "
    "kernels of this network. If the number were one of 20 such, it would be outside their range "
    "in 2 of 21 cases."
)


def write_pages(report: NetworkReport, folder: Path) -> tuple[Path, ...]:
    """Write all files of a report and return them, the page first.

    Raises:
        UserError: The folder cannot be written.
    """
    try:
        report, svgs = _write_figures(report, folder)
        inner = inner_folder(folder)
        write_file(inner / HTML, ("\n".join(_page_parts(report, svgs)) + "\n").encode())
        write_file(inner / PDF, pdf_of_blocks(list(_blocks(report)), report.title))
        write_file(inner / RESULTS, to_bytes(report.as_document()))
    except OSError as error:
        raise UserError(
            f"Cannot write the report to {folder}: {error.strerror}.",
            kind="not-writable",
            value=str(folder),
        ) from None
    figures = [folder / FIGURES / name for m in report.sections for name in m.files]
    return (folder / HTML, folder / PDF, folder / RESULTS, *figures)


def _write_figures(report: NetworkReport, folder: Path) -> tuple[NetworkReport, dict[str, bytes]]:
    """Write each figure as PDF and SVG, and the script that redraws it with its numbers.

    Returns the report with the names of the files, and the SVGs by section.
    """
    inner = inner_folder(folder)
    sections, svgs = [], {}
    for measured in report.sections:
        if measured.section is not None and measured.section.panel is not None:
            make_folder(inner / FIGURES)
            panel, key = measured.section.panel, measured.spec.key
            svgs[key] = page_bytes([panel], "svg", STYLE)
            files = {
                f"{key}.pdf": page_bytes([panel], "pdf", STYLE),
                f"{key}.svg": svgs[key],
                **dict(script_files([panel], STYLE, key)),
            }
            for name, content in files.items():
                write_file(inner / FIGURES / name, content)
            measured = replace(measured, files=tuple(files))
        sections.append(measured)
    return replace(report, sections=tuple(sections)), svgs


def _table_rows(quantities: tuple[Quantity, ...]) -> list[tuple[str, ...]]:
    """Return the cells of a table of numbers, without columns that are empty."""
    counts = [
        max((len(null) for null in nulls), default=0)
        for nulls in ([q.random for q in quantities], [q.shuffled for q in quantities])
    ]
    heads = (
        "",
        "this network",
        f"{counts[0]} random networks",
        f"{counts[1]} shuffled labels",
        "trained networks",
    )
    rows = [
        (q.name, q.text, q.range_of(q.random), q.range_of(q.shuffled), q.typical)
        for q in quantities
    ]
    kept = [at for at in range(len(heads)) if at < 2 or any(row[at] for row in rows)]
    return [tuple(row[at] for at in kept) for row in (heads, *rows)]


def _how_to_read(report: NetworkReport) -> tuple[str, ...]:
    """Return what the columns of the tables are."""
    random = (
        "Random networks: the range over networks of this architecture whose weights were drawn "
        f"as at the start of a run, {report.subject.drawing}, without biases, on the same examples."
    )
    return random, SHUFFLED, TYPICAL


def _produced(report: NetworkReport) -> Iterator[tuple[str, str]]:
    """Yield how the report was made."""
    versions = run_info.package_versions()
    yield "Command", f"dgn {shlex.join(report.command)}"
    yield "Made", report.made
    yield (
        "Took",
        f"{format_duration(report.seconds)}; limit {format_duration(report.limit)} a section",
    )
    yield "Versions", ", ".join(f"{name} {version}" for name, version in versions.items())
    yield "Machine", run_info.processor_name()


def _cost_rows(report: NetworkReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("section", "estimated", "took")]
    for m in report.sections:
        estimated = cost_in_words(m.cost)
        took = "left out" if m.section is None else format_duration(m.seconds)
        rows.append((m.spec.title, estimated, took))
    return rows


def _page_parts(report: NetworkReport, svgs: dict[str, bytes]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{_escaped(report.title)}</title>"
    yield f"<style>{style_sheet()}</style>\n</head>\n<body class=network>"
    yield f"<header><p>{_escaped(report.network_name)}</p>"
    yield f"<h1>{_escaped(report.title)}</h1></header>"
    yield from (f"<p class=notice>Left out: {_escaped(text)}</p>" for text in report.left_out)
    yield "<h2>What was read</h2>"
    yield _facts_element(report.facts())
    for measured in report.sections:
        if measured.section is not None:
            yield from _section_parts(measured, svgs)
    yield "<h2>How to read the tables</h2>"
    yield from (f"<p class=note>{_escaped(text)}</p>" for text in _how_to_read(report))
    yield "<h2>How it was produced</h2>"
    yield _facts_element(_produced(report))
    yield _table_element(_cost_rows(report))
    yield "</body>\n</html>"


def _section_parts(measured: MeasuredSection, svgs: dict[str, bytes]) -> Iterator[str]:
    section, key = measured.section, measured.spec.key
    assert section is not None
    yield f"<h2 id={key}>{_escaped(measured.spec.title)}</h2>"
    first, *others = map(_typeset_html, section.sentences)
    yield f"<p class=answer>{first}</p><p class=answer>{' '.join(others)}</p>"
    if key in svgs:
        links = ", ".join(
            f'<a href="{FIGURES}/{_escaped(name)}">{_escaped(name)}</a>' for name in measured.files
        )
        caption = f"{_typeset_html(section.caption)} Files: {links}."
        svg = adapt_svg(key, svgs[key])
        yield f"<figure class=wide>{svg}<figcaption>{caption}</figcaption></figure>"
    if section.quantities:
        yield _table_element(_table_rows(section.quantities))
    yield f"<p class=note>{_typeset_html(section.method)}</p>"


def _escaped(text: str) -> str:
    return escape(printable(text))


def _typeset_html(text: str) -> str:
    return label_as_html(printable(text)).replace(" %", "\u00a0%")


def _facts_element(facts: Iterator[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in facts)
    return f"<dl>{items}</dl>"


def _table_element(rows: list[tuple[str, ...]]) -> str:
    head = "".join(
        f"<th{' class=number' * (at > 0)}>{_escaped(cell)}</th>" for at, cell in enumerate(rows[0])
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"number" if at else "words"}">{_typeset_html(cell)}</td>'
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows[1:]
    )
    return (
        f"<div class=table><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _typeset_rows(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(map(typeset, row)) for row in rows]


def _blocks(report: NetworkReport) -> Iterator[Block]:
    """Yield the content of the PDF."""
    yield PageHeading(report.title, 0)
    yield from (Paragraph(f"Left out: {text}") for text in report.left_out)
    yield PageHeading("What was read")
    yield TableRows([("", ""), *report.facts()])
    for measured in report.sections:
        section = measured.section
        if section is None:
            continue
        yield PageHeading(measured.spec.title)
        yield Paragraph(typeset(" ".join(section.sentences)))
        if section.panel is not None:
            yield PageFigure(section.panel, typeset(section.caption))
        if section.quantities:
            yield TableRows(_typeset_rows(_table_rows(section.quantities)))
        yield Paragraph(typeset(section.method), small=True)
    yield PageHeading("How to read the tables")
    yield from (Paragraph(text, small=True) for text in _how_to_read(report))
    yield PageHeading("How it was produced")
    yield TableRows([("", ""), *_produced(report)])
    yield TableRows(_cost_rows(report))
