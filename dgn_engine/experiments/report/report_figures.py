"""Figures of a report as PDF and SVG files with selectable text, one column wide, without title.

The title belongs into the caption.
"""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.formatting import theme_colours
from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import COLUMN, TEXT, FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.protocol.experiments import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return the figure as 'pdf' or 'svg', without a date so that the file is reproducible."""
    content = io.BytesIO()
    date = "CreationDate" if kind == "pdf" else "Date"
    with print_style():
        drawn = draw_report_figure(figure)
        drawn.savefig(content, format=kind, metadata={"Title": figure.title, date: None})
    return content.getvalue()


def draw_report_figure(figure: Figure) -> Drawn:
    """Draw the figure on a page; call it, and save the result, inside `print_style`."""
    scene = scene_of((figure,))
    untitled = tuple(replace(chart, title="") for chart in scene.charts)
    panel = FigurePanel(figure.name, replace(scene, charts=untitled), Provenance(figure.title))
    style = FigureStyle(width=TEXT if figure.image else COLUMN, caption=False)
    try:
        return draw_page([panel], style)
    except UserError:  # images with extreme aspect ratios are stretched to fit the page
        charts = tuple(replace(chart, square=False) for chart in panel.scene.charts)
        return draw_page([replace(panel, scene=replace(scene, charts=charts))], style)


def inline_svg(figure: Figure, drawn: bytes = b"") -> str:
    """Return an SVG to be inlined in HTML, with unique ids and colours as CSS variables.

    Args:
        figure: the figure.
        drawn: its SVG, if it was already drawn.
    """
    return adapt_svg(figure.name, drawn or figure_bytes(figure, "svg"))


def adapt_svg(name: str, drawn: bytes) -> str:
    """Adapt an SVG for HTML: unique ids that begin with `name`, colours as CSS variables."""
    text = drawn.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    names = {colour.lower(): name for name, colour in theme_colours("light").items()}

    def adapt_tag(tag: re.Match[str]) -> str:
        unique = re.sub(r'\bid="([^"]*)"', lambda m: f'id="{"-".join(m[1].split())}"', tag[0])
        unique = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", unique)
        return re.sub(
            r"#[0-9a-f]{6}\b", lambda m: f"var(--{names[m[0]]})" if m[0] in names else m[0], unique
        )

    text = re.sub(r"<[^>]*>", adapt_tag, text)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', text)
