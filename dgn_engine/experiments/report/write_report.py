"""Writes a report for people: HTML, Markdown, and each figure as PDF and SVG."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.result_layout import FIGURES, REPORT
from dgn_engine.storage.atomic_write import write_file


def write_report(document: Document, folder: Path) -> None:
    """Each file is there whole or as it was before."""
    from dgn_engine.experiments.report.html import html
    from dgn_engine.experiments.report.markdown import markdown

    write_file(folder / f"{REPORT}.md", markdown(document).encode())
    write_file(folder / f"{REPORT}.html", html(document).encode())
    if not document.figures:
        return
    from dgn_engine.experiments.report.report_figures import (
        figure_bytes,  # matplotlib takes seconds
    )

    (folder / FIGURES).mkdir(exist_ok=True)
    for figure in document.figures:
        for kind in ("pdf", "svg"):
            write_file(folder / FIGURES / f"{figure.name}.{kind}", figure_bytes(figure, kind))
