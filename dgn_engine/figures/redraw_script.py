"""A Python script that redraws a figure with numpy and matplotlib alone, with its data beside it.

The script is generated from the finished figure, artist by artist, so that it draws what the
figure shows; an unknown kind of artist is a bug.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle
from matplotlib.spines import Spine
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from dgn_engine.figures.export_values import npz_bytes
from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import FRAME, SETTINGS, WHITE, print_style
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.scene.elements import Array
from dgn_engine.scene.theme import LIGHT
from dgn_engine.text.printable import printable

_START = '''"""{about}

Redraws the figure with numpy and matplotlib alone: python {said}.py [FIGURE.pdf]
The numbers are next to this file, in {said}.npz.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

here = Path(__file__).resolve().parent
data = np.load(here / {npz!r}, allow_pickle=False)
out = Path(sys.argv[1]) if len(sys.argv) > 1 else here / {png!r}

plt.rcParams.update({settings!r})
figure = plt.figure(figsize={size!r}, facecolor="{white}")


def new_axes(place, framed):
    """Axes at (left, bottom, width, height) of the page; curves have a base line and a grid."""
    axes = figure.add_axes(place)
    axes.tick_params(length=0, pad=3, labelsize={small!r}, labelcolor="{muted}")
    for spine in axes.spines.values():
        spine.set_color("{frame}")
        spine.set_linewidth(0.5)
    if not framed:
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="y", color="{line}", linewidth=0.4)
        axes.set_axisbelow(True)
    return axes

'''
_END = """
figure.savefig(out, dpi={dpi}, facecolor="{white}")
"""
_KEPT = ("font.family", "mathtext.fontset", "hatch.linewidth", "path.simplify", "pdf.fonttype")


def script_files(
    panels: Sequence[FigurePanel], style: FigureStyle, stem: str
) -> list[tuple[str, bytes]]:
    """Return (name, content) of the script and of its NPZ."""
    arrays: dict[str, Array] = {}
    with print_style():
        figure = draw_page(panels, style)
        lines = [line for axes in figure.axes for line in _script_axes(axes, arrays)]
        lines += _script_page_texts(figure)
    about = "; ".join(panel.context.caption for panel in panels)
    size = tuple(float(side) for side in figure.get_size_inches())
    start = _START.format(
        about="\n".join(textwrap.wrap(_in_docstring(about), 90)),
        said=_in_docstring(stem),
        npz=f"{stem}.npz",
        png=f"{stem}.png",
        size=size,
        settings={name: SETTINGS[name] for name in _KEPT},
        white=WHITE,
        frame=FRAME,
        small=style.small_text_size,
        muted=LIGHT.muted,
        line=LIGHT.line,
    )
    text = start + "\n".join(lines) + "\n" + _END.format(dpi=style.dpi, white=WHITE)
    return [(f"{stem}.py", text.encode("utf-8")), (f"{stem}.npz", npz_bytes(arrays))]


def _in_docstring(words: str) -> str:
    return printable(words).replace("\\", "/").replace('"', "'")


def _script_axes(axes: Axes, arrays: dict[str, Array]) -> Iterator[str]:
    name = str(axes.get_gid())
    bounds = tuple(float(value) for value in axes.get_position(original=True).bounds)
    bare = bool(axes.images) and not axes.spines["top"].get_visible()  # a montage has no frame
    framed = bare or axes.spines["top"].get_visible()
    yield f"\n# {name}"
    yield f"axes = new_axes({bounds!r}, framed={framed})"
    if bare:
        yield "axes.spines[:].set_visible(False)"
    for which in ("x", "y"):
        if getattr(axes, f"get_{which}scale")() == "log":
            yield f"axes.set_{which}scale('log')"
    for artist in axes.get_children():
        match artist:
            case Line2D():
                yield _script_line(axes, artist, arrays)
            case AxesImage():
                yield from _script_image(name, artist, arrays)
            case Rectangle() if artist is not axes.patch:
                yield _script_span(artist)
            case Polygon() if artist.get_data_transform() == axes.transData:
                yield _script_area(artist, arrays)
            case Polygon():
                yield _script_polygon(artist)
            case Text() if artist.get_text():
                yield f"axes.{_script_text(artist)[:-1]}, transform=axes.transAxes)"
            case Text() | Axis() | Spine() | Rectangle():
                pass
            case _:
                raise TypeError(f"cannot script {artist!r}")
    for which, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        low, high = getattr(axes, f"get_{which}lim")()
        yield f"axes.set_{which}lim({float(low)!r}, {float(high)!r})"
        yield from _script_axis(which, axis)


def _script_line(axes: Axes, line: Line2D, arrays: dict[str, Array]) -> str:
    arguments = _line_arguments(line)
    if line.get_transform() == axes.get_xaxis_transform(which="grid"):
        return f"axes.axvline({_first_value(line.get_xdata())!r}, {arguments})"
    if line.get_transform() == axes.get_yaxis_transform(which="grid"):
        return f"axes.axhline({_first_value(line.get_ydata())!r}, {arguments})"
    name = _unused_name(str(line.get_gid()), arrays, ".x")
    arrays[f"{name}.x"] = np.asarray(line.get_xdata(orig=True))
    arrays[f"{name}.y"] = np.asarray(line.get_ydata(orig=True))
    return f"axes.plot(data[{name + '.x'!r}], data[{name + '.y'!r}], {arguments})"


def _first_value(values: Any) -> float:
    return float(np.asarray(values)[0])


def _unused_name(name: str, arrays: dict[str, Array], ending: str) -> str:
    """Return the name, numbered if two curves have the same."""
    free, count = name, 2
    while f"{free}{ending}" in arrays:
        free, count = f"{name} {count}", count + 1
    return free


def _line_arguments(line: Line2D) -> str:
    style: Any = line.get_linestyle()
    if style == "--":  # also the value for dashes given in points
        style = line._unscaled_dash_pattern  # type: ignore[attr-defined]  # no public accessor
    parts: dict[str, Any] = {
        "color": line.get_color(),
        "linestyle": style,
        "linewidth": float(line.get_linewidth()),
    }
    if line.get_alpha() is not None:
        parts["alpha"] = line.get_alpha()
    if line.get_marker() not in (None, "None", ""):
        parts |= {"marker": line.get_marker(), "markersize": float(line.get_markersize())}
        if line.get_markerfacecolor() == "none":
            parts["markerfacecolor"] = "none"
    return _format_arguments(parts)


def _script_image(axes: str, image: AxesImage, arrays: dict[str, Array]) -> Iterator[str]:
    values = image.get_array()
    assert values is not None
    arrays[f"{axes}.values"] = np.ma.filled(values.astype(np.float64), np.nan)
    colours = image.get_cmap()
    assert isinstance(colours, ListedColormap)
    arrays[f"colours.{colours.name}"] = np.asarray(colours.colors)
    low, high = image.get_clim()
    extent = tuple(float(value) for value in image.get_extent())
    yield "axes.imshow("
    yield f"    np.ma.masked_invalid(data[{axes + '.values'!r}]),"
    yield f"    cmap=ListedColormap(data[{'colours.' + colours.name!r}]),"
    yield f"    vmin={low!r}, vmax={high!r}, extent={extent!r},"
    yield "    interpolation='none', aspect='auto',"
    yield ")"


def _script_span(span: Rectangle) -> str:
    left, right = float(span.get_x()), float(span.get_x() + span.get_width())
    arguments = _format_arguments(
        {
            "facecolor": "none",
            "edgecolor": to_hex(span.get_edgecolor()),
            "hatch": span.get_hatch(),
            "linewidth": float(span.get_linewidth()),
        }
    )
    return f"axes.axvspan({left!r}, {right!r}, {arguments})"


def _script_area(patch: Polygon, arrays: dict[str, Array]) -> str:
    name = _unused_name(str(patch.get_gid()), arrays, ".x")
    x, y = np.asarray(patch.get_xy()).T
    arrays[f"{name}.x"], arrays[f"{name}.y"] = x, y
    alpha = patch.get_alpha()
    arguments = _format_arguments(
        {"color": to_hex(patch.get_facecolor()), "alpha": alpha, "linewidth": 0}
    )
    return f"axes.fill(data[{name + '.x'!r}], data[{name + '.y'!r}], {arguments})"


def _script_polygon(patch: Polygon) -> str:
    corners = [tuple(float(value) for value in corner) for corner in patch.get_xy()]
    arguments = _format_arguments(
        {
            "facecolor": to_hex(patch.get_facecolor()),
            "edgecolor": to_hex(patch.get_edgecolor()),
            "linewidth": float(patch.get_linewidth()),
            "clip_on": False,
        }
        | ({"hatch": patch.get_hatch()} if patch.get_hatch() else {})
    )
    return f"axes.add_patch(Polygon({corners!r}, transform=axes.transAxes, {arguments}))"


def _script_text(text: Text) -> str:
    """Return the call without its receiver; it ends with a bracket."""
    x, y = (float(value) for value in text.get_position())
    arguments = {"size": float(text.get_fontsize()), "color": text.get_color()}
    if text.get_fontweight() != "normal":
        arguments["weight"] = text.get_fontweight()
    if text.get_verticalalignment() != "baseline":
        arguments["va"] = text.get_verticalalignment()
    return f"text({x!r}, {y!r}, {text.get_text()!r}, {_format_arguments(arguments)})"


def _script_axis(which: str, axis: Axis) -> Iterator[str]:
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    positions: list[float] = []
    names: list[str] = []
    if isinstance(locator, FixedLocator):
        positions = [float(position) for position in locator()]
        names = [str(name) for name in formatter.format_ticks(positions)]
    sides: tuple[str, str] = (which, str(axis.get_label_position()))
    right = sides == ("y", "right")
    if right:
        yield "axes.yaxis.tick_right()"
        yield "axes.yaxis.set_label_position('right')"
    turned = f", rotation={_label_rotation(axis)!r}" if _label_rotation(axis) else ""
    yield f"axes.set_{which}ticks({positions!r}, {names!r}{turned})"
    yield f"axes.{which}axis.set_tick_params(which='minor', length=0)"
    yield f"axes.{which}axis.minorticks_off()"
    if axis.label.get_text():
        arguments = {
            "size": float(axis.label.get_fontsize()),
            "color": axis.label.get_color(),
            "labelpad": float(axis.labelpad),
        }
        yield f"axes.set_{which}label({axis.label.get_text()!r}, {_format_arguments(arguments)})"


def _label_rotation(axis: Axis) -> float:
    labels = axis.get_majorticklabels()
    return float(labels[0].get_rotation()) if labels else 0.0


def _script_page_texts(figure: Figure) -> list[str]:
    lines = ["\n# words and keys"]
    for artist in figure.artists:
        assert isinstance(artist, Line2D)
        x = [float(value) for value in np.asarray(artist.get_xdata())]
        y = [float(value) for value in np.asarray(artist.get_ydata())]
        lines.append(f"figure.add_artist(Line2D({x!r}, {y!r}, {_line_arguments(artist)}))")
    lines += [f"figure.{_script_text(text)}" for text in figure.texts]
    return lines


def _format_arguments(parts: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parts.items())
