"""The sheet that a figure is drawn on: light on white, in points from the top left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.set_text import FAMILY, escape_dollars, matplotlib_lock
from dgn_engine.scene.chart_layout import Box
from dgn_engine.scene.theme import LIGHT

WHITE = "#FFFFFF"
FRAME = "#9AA1AC"
INCH = 72.0
SETTINGS: dict[str, Any] = {
    "pdf.fonttype": 42,  # keep text as text: TrueType in PDF, letters in SVG
    "svg.fonttype": "none",
    "svg.hashsalt": "dgn-viewer",
    "font.family": FAMILY,
    "mathtext.fontset": "dejavusans",
    "hatch.linewidth": 0.5,
    "path.simplify": False,
    "pgf.rcfonts": False,  # use the document's fonts
    "text.usetex": False,  # never start LaTeX, whatever the user's settings
}


@contextmanager
def print_style() -> Iterator[None]:
    """Apply the settings in which figures are drawn and saved; one thread at a time."""
    with matplotlib_lock, rc_context(SETTINGS):  # type: ignore[arg-type]  # a literal type of 300 names
        yield


class Paper:
    """A figure of a size in points; `style` sets the size of its text."""

    def __init__(self, width: float, height: float, style: FigureStyle) -> None:
        self.width, self.height, self.style = width, height, style
        self.figure = Figure(figsize=(width / INCH, height / INCH), facecolor=WHITE)

    def make_axes(self, box: Box, name: str) -> Axes:
        """Add axes whose data area is this box."""
        share = (
            box.x / self.width,
            1.0 - (box.y + box.height) / self.height,
            box.width / self.width,
            box.height / self.height,
        )
        axes = self.figure.add_axes(share)
        axes.set_gid(name)
        axes.tick_params(
            length=0, pad=3, labelsize=self.style.small_text_size, labelcolor=LIGHT.muted
        )
        for spine in axes.spines.values():
            spine.set_color(FRAME)
            spine.set_linewidth(0.5)
        return axes

    def add_text(
        self, x: float, y: float, words: str, size: float, colour: str, **more: str
    ) -> None:
        """Add text to the page, with its base line at y."""
        place = x / self.width, 1.0 - y / self.height
        self.figure.text(*place, escape_dollars(words), size=size, color=colour, **more)  # type: ignore[arg-type]  # matplotlib's Text properties
