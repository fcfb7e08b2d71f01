"""Figures of a result on paper: one column wide, light on white, as PDF and SVG whose text stays
text. They have no title: that is for the caption.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawn
from matplotlib.lines import Line2D

from dgn_engine.experiments.report.figure_axes import set_ranges, set_ticks
from dgn_engine.experiments.report.figure_labels import (
    FAMILY,
    GAP,
    HANDLE,
    LABEL,
    NamedLine,
    apart,
    broken,
    fitted,
    key_rows,
    width_of,
)
from dgn_engine.experiments.report.figure_shapes import BOX, boxes, looks, partner_of, places
from dgn_engine.experiments.report.formatting import tokens
from dgn_engine.experiments.report.mathematics import typeset
from dgn_engine.protocol.results import Figure, PlottedLine

WIDTH, WIDE = 234.0, 504.0  # points: 3.25 inches, a column of a paper; 7 inches for pictures
HEIGHT = 120.0  # of the axes
_TOP, _RIGHT, _PAD = 6.0, 6.0, 3.0
_NAMES = 0.36  # of the width at most for names at the ends of lines; wider ones go below
_FAR = 3.0  # lines of words that a name may stand away from its line's end
_AT_END = 0.97  # of the width: a line that goes so far ends at the right
_LEADER = 7.0  # length of a thin line from a curve's end to a name that had to move
_STYLES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 1.5)), "dashdot": "-."}
_MARKERS = "osD^vP"
_FEW = 12  # points of a line that are marked


@contextmanager
def print_style(salt: str) -> Iterator[None]:
    """Fonts that stay text: embedded as TrueType in PDF, as letters in SVG."""
    settings: Any = {
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": f"dgn-{salt}",
        "font.family": FAMILY,
        "mathtext.fontset": "dejavusans",
        "text.usetex": False,  # no LaTeX is started, whatever the user's own settings say
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


def inline_svg(figure: Figure, drawn: bytes = b"") -> str:
    """For a page with several figures and two themes: unique ids, colours as CSS variables.

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


def draw(figure: Figure) -> Drawn:
    """Call inside `print_style`, in which it has to be saved as well."""
    light = tokens("light")
    if figure.image:
        return _draw_image(figure, light)
    drawn = Drawn(figsize=(WIDTH / 72, HEIGHT / 72), facecolor=light["panel"])
    axes = drawn.add_axes((0, 0, 1, 1))
    _style_axes(axes, figure, light)
    set_ranges(axes, figure)
    set_ticks(axes, figure)
    entries = _draw_lines(axes, figure, light)
    _lay_out(drawn, axes, figure, entries, light)
    return drawn


def _draw_image(figure: Figure, light: dict[str, str]) -> Drawn:
    """Grey values over the whole width, and below them what is what."""
    values = np.asarray(figure.image)
    left = 2 * LABEL if figure.y else _RIGHT
    wide = WIDE - left - _RIGHT
    below = LABEL + 3 * _PAD if figure.x else _PAD
    tall = wide * values.shape[0] / values.shape[1]
    height = _TOP + below + tall
    drawn = Drawn(figsize=(WIDE / 72, height / 72), facecolor=light["panel"])
    axes = drawn.add_axes((left / WIDE, below / height, wide / WIDE, tall / height))
    axes.imshow(values, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    _name_axes(axes, figure, light)
    return drawn


def _style_axes(axes: Axes, figure: Figure, light: dict[str, str]) -> None:
    axes.set_facecolor(light["panel"])
    axes.tick_params(length=0, pad=_PAD, labelsize=LABEL, labelcolor=light["muted"])
    axes.tick_params(
        axis="x", which="both", length=0 if figure.categories else 2, width=0.5,
        color=light["muted"],
    )  # fmt: skip
    axes.tick_params(axis="y", which="minor", length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(light["muted"])
        spine.set_linewidth(0.5)
    axes.grid(axis="y", color=light["line"], linewidth=0.5)
    axes.set_axisbelow(True)
    _name_axes(axes, figure, light)


def _name_axes(axes: Axes, figure: Figure, light: dict[str, str]) -> None:
    axes.set_xlabel(typeset(figure.x), size=LABEL, color=light["muted"], labelpad=2)
    axes.set_ylabel(typeset(figure.y), size=LABEL, color=light["muted"], labelpad=2)


def _draw_lines(axes: Axes, figure: Figure, light: dict[str, str]) -> list[NamedLine]:
    """Draw all lines; return the names of those that have one."""
    entries: list[NamedLine] = []
    beside: dict[str, Line2D] = {}
    found = zip(figure.lines, places(figure), looks(figure), strict=True)
    for index, (line, x, (token, dash)) in enumerate(found):
        colour, style = light[token], _STYLES[dash]
        if line.style == "boxes":
            _draw_boxes(axes, line, colour, light)
            handle = Line2D([], [], color=colour, marker="s", markersize=4, linestyle="none",
                            markerfacecolor=light["line"], markeredgewidth=0.6)  # fmt: skip
        elif not line.x:
            level = line.y[-1] if line.y else np.nan
            across = style if line.style == "printed" else _STYLES["dash"]
            handle = axes.axhline(level, color=colour, linewidth=0.9, linestyle=across)
        else:
            marker = _MARKERS[
                sum(one.style != "boxes" for one in figure.lines[:index]) % len(_MARKERS)
            ]
            handle = _draw_line(axes, figure, line, np.asarray(x), colour, style, marker)
        if partner_of(figure, line) is not None:
            beside.setdefault(line.label.partition(", ")[0], handle)
        elif line.label:
            entries.append(NamedLine(line.label, colour, handle, *_end(axes, line)))
    return [*entries, *(_shared(name, handle, light) for name, handle in beside.items())]


def _shared(name: str, handle: Line2D, light: dict[str, str]) -> NamedLine:
    """One name for all lines that stand beside others: they have the colours of those."""
    grey = Line2D([], [])
    grey.update_from(handle)
    grey.set_color(light["muted"])
    return NamedLine(name, light["muted"], grey)


def _draw_line(
    axes: Axes,
    figure: Figure,
    line: PlottedLine,
    x: Any,
    colour: str,
    style: Any,
    marker: str,
) -> Line2D:
    y = np.asarray(line.y, dtype=np.float64)
    if figure.log_y:
        y = np.where(y > 0, y, np.nan)  # there is no place for it
    printed, cloud = line.style == "printed", line.style == "cloud"
    bare = line.style in ("points", "cloud") or (printed and bool(figure.categories))
    marked = bare or len(x) <= _FEW
    (handle,) = axes.plot(
        x, y, color=colour, linewidth=1.0, linestyle="none" if bare else style,
        marker=marker if marked else None, markersize=1.8 if cloud and len(x) > _FEW else 3.2,
        markeredgewidth=0 if cloud else 0.8, zorder=2.5 if cloud else 3,
        markerfacecolor=tokens("light")["panel"] if printed else colour, clip_on=False,
    )  # fmt: skip
    if line.spread:
        spread = np.asarray(line.spread, dtype=np.float64)
        if marked and (bare or len(x) < 2):
            axes.errorbar(
                x, y, spread, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2, zorder=2.8
            )
        else:
            axes.fill_between(x, y - spread, y + spread, color=colour, alpha=0.16, linewidth=0)
    return handle


def _draw_boxes(axes: Axes, line: PlottedLine, colour: str, light: dict[str, str]) -> None:
    drawn = [
        {"med": box.median, "q1": box.first, "q3": box.third, "whislo": box.low,
         "whishi": box.high, "fliers": []}
        for box in boxes(line)
    ]  # fmt: skip
    thin = {"color": colour, "linewidth": 0.6}
    axes.bxp(
        drawn, positions=[box.at for box in boxes(line)], widths=2 * BOX, patch_artist=True,
        showfliers=False, manage_ticks=False, whiskerprops=thin, capprops=thin, zorder=2,
        boxprops={"facecolor": light["line"], "edgecolor": colour, "linewidth": 0.6},
        medianprops={"color": light["text"], "linewidth": 1.2},
    )  # fmt: skip


def _end(axes: Axes, line: PlottedLine) -> tuple[float, bool]:
    """Return how high a line ends, as a share of the axes, and whether that is at their right end.

    NaN and False where it has no value.
    """
    there = [place for place, y in enumerate(line.y) if np.isfinite(y)]
    if not there:
        return np.nan, False
    x = line.x[there[-1]] if line.x else axes.get_xlim()[1]
    end = axes.transLimits.transform(axes.transScale.transform((x, line.y[there[-1]])))
    return float(np.clip(end[1], 0.0, 1.0)), bool(end[0] > _AT_END)


def _lay_out(
    drawn: Drawn, axes: Axes, figure: Figure, entries: list[NamedLine], light: dict[str, str]
) -> None:
    """Give axes, labels and names their places; the figure becomes as high as they need."""
    ends = max((width_of(typeset(entry.name)) for entry in entries), default=0.0)
    direct = _fits_at_ends(figure, entries, ends)
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    left = max(map(width_of, ticks), default=0.0) + _PAD + 2 * LABEL + _RIGHT / 2
    right = ends + _LEADER + 2 * _PAD + 2 if direct and entries else _RIGHT + 2 * _PAD
    wide = WIDTH - left - right
    below = _draw_categories(axes, figure, wide, light) if figure.categories else LABEL + 3 * _PAD
    below += LABEL + _PAD if figure.x else 0.0
    obvious = bool(figure.categories) and len(figure.lines) == 1
    rows = [] if direct or obvious else key_rows(entries, WIDTH - 2 * _RIGHT)
    below += len(rows) * GAP + (_PAD if rows else 0.0)
    height = _TOP + HEIGHT + below
    drawn.set_size_inches(WIDTH / 72, height / 72)
    axes.set_position((left / WIDTH, below / height, wide / WIDTH, HEIGHT / height))
    if direct:
        _draw_ends(axes, entries, wide)
    for place, row in enumerate(rows):
        _draw_key_row(drawn, row, (len(rows) - place - 0.5) * GAP + 1.0, height)


def _fits_at_ends(figure: Figure, entries: list[NamedLine], widest: float) -> bool:
    """Return whether names stand so near to the ends of their lines that a key is worse."""
    if figure.categories or widest > _NAMES * WIDTH or len(entries) * GAP > HEIGHT:
        return False
    if any(np.isnan(entry.end) for entry in entries):
        return False
    return all(abs(a - b) <= _FAR * GAP for a, b in zip(*_heights(entries), strict=True))


def _heights(entries: list[NamedLine]) -> tuple[list[float], list[float]]:
    """Return how high the lines end, and how high their names stand, in points."""
    ends = [HEIGHT * entry.end if np.isfinite(entry.end) else 0.0 for entry in entries]
    moved = apart(ends, GAP, HEIGHT)
    lift = max(0.0, -min(moved, default=0.0))
    return ends, [place + lift for place in moved]


def _draw_ends(axes: Axes, entries: list[NamedLine], wide: float) -> None:
    """Draw names at the right, each at the height of its line's end where there is room for it."""
    ends, moved = _heights(entries)
    leads = any(abs(a - b) > 0.5 for a, b in zip(ends, moved, strict=True))
    start = 1.0 + (_LEADER + 3.0 if leads else _PAD + 1.0) / wide
    for entry, end, place in zip(entries, ends, moved, strict=True):
        if leads and entry.at_end:
            axes.plot(
                [1.0 + 1.5 / wide, 1.0 + (_LEADER + 1.5) / wide],
                [end / HEIGHT, place / HEIGHT], transform=axes.transAxes, clip_on=False,
                color=entry.colour, linewidth=0.5, gid="leader", scalex=False, scaley=False,
            )  # fmt: skip
        axes.text(
            start, place / HEIGHT, typeset(entry.name), transform=axes.transAxes, size=LABEL,
            color=entry.colour, va="center_baseline",
        )  # fmt: skip


def _draw_key_row(
    drawn: Drawn, row: list[tuple[NamedLine, float]], y: float, height: float
) -> None:
    for entry, x in row:
        left = (_RIGHT + x) / WIDTH
        line = Line2D([left, left + HANDLE / WIDTH], [y / height] * 2)
        line.update_from(entry.handle)
        line.set_transform(drawn.transFigure)
        line.set_clip_on(False)
        if line.get_linestyle() == "None":
            line.set_data([left + HANDLE / 2 / WIDTH], [y / height])
        drawn.add_artist(line)
        room = WIDTH - 2 * _RIGHT - x - HANDLE - 4.0
        drawn.text(
            left + (HANDLE + 4.0) / WIDTH, y / height, fitted(entry.name, room), size=LABEL,
            color=entry.colour, va="center_baseline",
        )  # fmt: skip


def _draw_categories(axes: Axes, figure: Figure, wide: float, light: dict[str, str]) -> float:
    """Name the categories below the axes, in several lines or turned where they are long.

    Returns the height that this takes in points.
    """
    room = wide / len(figure.categories) - 3.0
    lines = broken(figure.categories, room)
    turned = any(width_of(typeset(part)) > room for label in lines for part in label)
    axes.set_xticks(range(len(lines)))
    if not turned:
        words = ["\n".join(map(typeset, label)) for label in lines]
        axes.set_xticklabels(words, linespacing=1.15)
        return max(map(len, lines)) * GAP + 2 * _PAD
    short = [fitted(label, 0.6 * HEIGHT) for label in figure.categories]
    axes.set_xticklabels(short, rotation=90)
    return max(map(width_of, short)) + 3 * _PAD
