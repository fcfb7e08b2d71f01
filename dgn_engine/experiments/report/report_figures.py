"""Figures of a result on paper: light on white, PDF and SVG with text that stays text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawn
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.formatting import series_of, tokens
from dgn_engine.protocol.results import Figure, PlottedLine

WIDTH, HEIGHT = 504.0, 240.0  # points: 7 inches, the text width of a page
TITLE, LABEL = 9.0, 7.5  # type sizes in points
_LEFT, _BOTTOM, _TOP = 48.0, 34.0, 26.0
_LETTER = 0.56  # mean width of a letter as a share of its size
_STYLES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 1.5)), "dashdot": "-."}
_MARKERS = "osD^vP"


@contextmanager
def print_style(salt: str) -> Iterator[None]:
    """Fonts that stay text: embedded as TrueType in PDF, as letters in SVG."""
    settings: Any = {
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": f"dgn-{salt}",
        "font.family": "DejaVu Sans",
        "mathtext.fontset": "dejavusans",
    }
    with rc_context(settings):
        yield


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """'pdf' or 'svg'; without a date, so that the same numbers make the same file."""
    content = io.BytesIO()
    date = "CreationDate" if kind == "pdf" else "Date"
    with print_style(figure.name):
        drawn = draw(figure)
        drawn.savefig(content, format=kind, metadata={"Title": figure.title, date: None})
    return content.getvalue()


def inline_svg(figure: Figure) -> str:
    """For a page with several figures and two themes: unique ids, colours as CSS variables."""
    text = figure_bytes(figure, "svg").decode()
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


def draw(figure: Figure) -> Drawn:
    """Call inside `print_style`, in which it has to be saved as well."""
    light = tokens("light")
    if figure.image:
        return _draw_image(figure, light)
    names = [line.label for line in figure.lines]
    right = max((len(name) for name in names), default=0) * LABEL * _LETTER + 14.0
    right = min(right, WIDTH * 0.42)
    height = max(HEIGHT, _TOP + _BOTTOM + len(names) * (LABEL + 2.5))
    drawn = Drawn(figsize=(WIDTH / 72, height / 72), facecolor=light["panel"])
    share = (
        _LEFT / WIDTH, _BOTTOM / height,
        (WIDTH - _LEFT - right) / WIDTH, (height - _BOTTOM - _TOP) / height,
    )  # fmt: skip
    axes = drawn.add_axes(share)
    _style_axes(axes, figure, light)
    ends = [
        _curve(axes, line, series_of(index), light, index)
        for index, line in enumerate(figure.lines)
    ]
    axes.margins(x=0.02, y=0.06)
    axes.autoscale_view()
    _label_curves(drawn, axes, figure, ends, light)
    place = (8.0 / WIDTH, 1 - 15.0 / height)
    drawn.text(*place, figure.title, size=TITLE, color=light["text"], weight="bold")
    return drawn


def _draw_image(figure: Figure, light: dict[str, str]) -> Drawn:
    """Grey values over the whole width, one below the axis label what is what."""
    values = np.asarray(figure.image)
    height = _TOP + _BOTTOM + (WIDTH - _LEFT - 14.0) * values.shape[0] / values.shape[1]
    drawn = Drawn(figsize=(WIDTH / 72, height / 72), facecolor=light["panel"])
    share = (_LEFT / WIDTH, _BOTTOM / height, (WIDTH - _LEFT - 14.0) / WIDTH,
             (height - _BOTTOM - _TOP) / height)  # fmt: skip
    axes = drawn.add_axes(share)
    axes.imshow(values, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(figure.x, size=LABEL, color=light["muted"])
    axes.set_ylabel(figure.y, size=LABEL, color=light["muted"])
    place = (8.0 / WIDTH, 1 - 15.0 / height)
    drawn.text(*place, figure.title, size=TITLE, color=light["text"], weight="bold")
    return drawn


def _style_axes(axes: Axes, figure: Figure, light: dict[str, str]) -> None:
    axes.set_facecolor(light["panel"])
    axes.tick_params(length=0, pad=3, labelsize=LABEL, labelcolor=light["muted"])
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(light["muted"])
        spine.set_linewidth(0.5)
    axes.grid(axis="y", color=light["line"], linewidth=0.5)
    axes.set_axisbelow(True)
    for which, log in (("x", figure.log_x), ("y", figure.log_y)):
        axis = getattr(axes, f"{which}axis")
        if log:
            getattr(axes, f"set_{which}scale")("log")
            axis.set_major_locator(_DecadesOrMore())
            axis.set_major_formatter(FuncFormatter(lambda value, _: formatting.number(value)))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(figure.x, size=LABEL, color=light["muted"], labelpad=2)
    axes.set_ylabel(figure.y, size=LABEL, color=light["muted"], labelpad=3)


def _curve(
    axes: Axes, line: PlottedLine, style: tuple[str, str], light: dict[str, str], index: int
) -> tuple[float, str]:
    """Draw it; the height of its end in data coordinates, and its colour."""
    colour = light["muted"] if line.style == "printed" else light[style[0]]
    y = np.asarray(line.y, dtype=np.float64)
    if not line.x:
        value = float(y[-1]) if y.size else np.nan
        axes.axhline(value, color=colour, linewidth=0.9, linestyle=_STYLES["dash"])
        return value, colour
    x = np.asarray(line.x, dtype=np.float64)
    points = line.style != "line" or x.size < 2
    axes.plot(
        x, y, color=colour, linewidth=1.2,
        linestyle="none" if line.style in ("points", "boxes", "cloud") else
        (_STYLES["dot"] if line.style == "printed" else _STYLES[style[1]]),
        marker=_MARKERS[index % len(_MARKERS)] if points or x.size <= 12 else None,
        markersize=3.2, markerfacecolor=light["panel"] if line.style == "printed" else colour,
    )  # fmt: skip
    if line.spread:
        spread = np.asarray(line.spread, dtype=np.float64)
        if points:
            axes.errorbar(x, y, spread, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2)
        else:
            axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.16, linewidth=0)
    finite = y[np.isfinite(y)]
    return (float(finite[-1]) if finite.size else np.nan), colour


def _label_curves(
    drawn: Drawn, axes: Axes, figure: Figure, ends: list[tuple[float, str]], light: dict[str, str]
) -> None:
    """Names at the right, each at the height of its curve's end where there is room for it."""
    height = axes.get_position().height * drawn.get_figheight() * 72
    if not any(line.label for line in figure.lines):
        return
    places = []
    for index, (value, colour) in enumerate(ends):
        share = axes.transAxes.inverted().transform(axes.transData.transform((1.0, value)))[1]
        share = float(np.clip(share, 0.0, 1.0)) if np.isfinite(share) else 0.0
        places.append((share * height, index, colour))
    gap = LABEL + 2.0
    heights = apart([place for place, _, _ in places], gap, height)
    for (_, index, colour), place in zip(places, heights, strict=True):
        axes.text(
            1.012, place / height, figure.lines[index].label, transform=axes.transAxes,
            size=LABEL, color=colour, va="center",
        )  # fmt: skip


def apart(places: Sequence[float], gap: float, top: float) -> list[float]:
    """The places moved so that none is nearer than `gap` to another or, if it fits, above `top`."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    low = -np.inf
    for index in order:
        low = moved[index] = max(places[index], low + gap)
    high = top + gap
    for index in reversed(order):
        high = moved[index] = min(moved[index], high - gap)
    return moved


class _DecadesOrMore(LogLocator):
    """Decades; 1, 2 and 5 of each where there are fewer than two of them."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        few = vmin > 0 and np.log10(vmax / vmin) < 2
        self.set_params(subs=(1.0, 2.0, 5.0) if few else (1.0,))
        values = super().tick_values(vmin, vmax)
        return [value for value in values if 0.999 * vmin <= value <= 1.001 * vmax]
