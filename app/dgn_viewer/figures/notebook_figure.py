"""A page of panels as a figure that a notebook shows by itself."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from dgn_viewer.figures.figure_page import draw_page
from dgn_viewer.figures.figure_style import FigureStyle
from dgn_viewer.figures.paper import print_style
from dgn_viewer.figures.provenance import FigurePanel
from dgn_viewer.figures.save_figure import page_bytes

SCREEN = 110.0  # dots per inch


def notebook_figure(panels: Sequence[FigurePanel], style: FigureStyle) -> Figure:
    """The figure that is also saved; the picture in the notebook is of the resolution of screens.

    Raises `UserError` where the panels do not fit.
    """
    with print_style():
        figure = draw_page(panels, style)
    vars(figure)["_repr_png_"] = lambda: page_bytes(panels, "png", style, SCREEN)
    return figure
