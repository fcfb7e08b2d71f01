"""The look of a figure: size, type, legend, caption; the content comes from its scene."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dgn_engine.errors import UserError
from dgn_engine.scene.elements import Scene, Shown
from dgn_engine.text.written_numbers import format_number

COLUMN, TEXT = 3.25, 6.75  # inches: one of two columns, and the full text width
LEAST_WIDTH, MOST_WIDTH = 1.5, 20.0  # inches
LEAST_HEIGHT, MOST_HEIGHT = 0.8, 30.0
LEAST_FONT, MOST_FONT = 6.0, 24.0  # points; print below 6 is illegible
LEAST_DPI, MOST_DPI = 50, 1200
MOST_PIXELS = 1 << 27  # of a PNG: half a gigabyte in memory
_NARROW = 5.0  # inches below which text is sized for a column


@dataclass(frozen=True)
class FigureStyle:
    """The look of a figure at its final size.

    `height` 0: as high as its charts and text need; `font` 0: 8 points in a column, else 9;
    `across` 0: as many panels side by side as fit the width. `legend`: (name of a curve, its name
    in the figure), with mathematics between dollars as in TeX; '' leaves the name out.

    Raises:
        UserError: A value is out of bounds.
    """

    width: float = TEXT  # inches
    height: float = 0.0  # inches
    font: float = 0.0  # points
    dpi: int = 300  # of a PNG
    caption: bool = True
    letters: bool = False  # (a), (b) …
    across: int = 0
    legend: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_bounds("width", self.width, LEAST_WIDTH, MOST_WIDTH, "in")
        if self.height:
            _check_bounds("height", self.height, LEAST_HEIGHT, MOST_HEIGHT, "in")
        if self.font:
            _check_bounds("font size", self.font, LEAST_FONT, MOST_FONT, "pt")
        _check_bounds("resolution", self.dpi, LEAST_DPI, MOST_DPI, "dpi")
        if not 0 <= self.across <= 8:
            raise UserError(
                f"{self.across} panels do not fit side by side; choose 1 to 8.",
                kind="out-of-bounds",
                value=self.across,
            )

    @property
    def text_size(self) -> float:
        """Points of titles and labels."""
        return self.font or (8.0 if self.width < _NARROW else 9.0)

    @property
    def small_text_size(self) -> float:
        """Points of the smallest text: ticks, curve names, the caption."""
        return max(self.text_size - 1.0, LEAST_FONT)

    def column_count(self, panels: int) -> int:
        """Return how many of this many panels are placed side by side."""
        wanted = self.across or (1 if self.width < _NARROW else 2)
        return max(1, min(wanted, panels))


def _check_bounds(what: str, value: float, least: float, most: float, unit: str) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        given = str(value).removesuffix(".0")
        raise UserError(
            f"A {what} of {given} {unit} is out of range; choose {format_number(least)} to "
            f"{format_number(most)} "
            f"{unit}.",
            kind="out-of-bounds",
            value=value,
        )


def curve_names(shown: Iterable[Shown]) -> tuple[str, ...]:
    """Return the names that a legend may change, in drawing order."""
    scenes = [scene_ for scene_ in shown if isinstance(scene_, Scene)]
    curves = [curve.name for scene in scenes for chart in scene.charts for curve in chart.curves]
    return tuple(dict.fromkeys(name for name in curves if name))


def rename_curves(scene: Scene, style: FigureStyle) -> Scene:
    """Rename the scene's curves as the legend says."""
    names = dict(style.legend)
    if not names:
        return scene
    charts = []
    for chart in scene.charts:
        curves = (replace(curve, name=names.get(curve.name, curve.name)) for curve in chart.curves)
        charts.append(replace(chart, curves=tuple(curves)))
    return replace(scene, charts=tuple(charts))
