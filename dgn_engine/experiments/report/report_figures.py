"""Figures of a report as files: one column wide, light on white, as PDF and SVG whose text stays
text. They have no title: that is for the caption.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace

from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.formatting import tokens
from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import COLUMN, TEXT, FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.protocol.results import Figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'pdf' or 'svg', without a date: the same numbers make the same file."""
    content = io.BytesIO()
    date = "CreationDate" if kind == "pdf" else "Date"
    [chart] = scene_of((figure,)).charts
    panel = FigurePanel(
        figure.name,
        replace(scene_of((figure,)), charts=(replace(chart, title=""),)),
        Provenance(figure.title),
    )
    style = FigureStyle(width=TEXT if figure.image else COLUMN, caption=False)
    with print_style():
        drawn = draw_page([panel], style)
        drawn.savefig(content, format=kind, metadata={"Title": figure.title, date: None})
    return content.getvalue()


def inline_svg(figure: Figure, drawn: bytes = b"") -> str:
    """Return the SVG for a page with several figures and two themes: unique ids, colours as CSS
    variables.

    `drawn`: its SVG, where there is one already.
    """
    text = (drawn or figure_bytes(figure, "svg")).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.name}-", text)
    names = {colour.lower(): name for name, colour in tokens("light").items()}
    text = re.sub(
        r"#[0-9a-f]{6}\b",
        lambda found: f"var(--{names[found[0]]})" if found[0] in names else found[0],
        text,
    )
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', text)
