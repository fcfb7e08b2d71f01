"""`dgn figure`: panels of a recorded run as figures, numbers or a script, without a window."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli import Subcommand
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import check_output
from dgn_engine.text.printable import say
from dgn_engine.text.written_numbers import number

if TYPE_CHECKING:
    from dgn_engine.figures.figure_style import FigureStyle
    from dgn_engine.figures.provenance import FigurePanel

FORMATS = ("pdf", "svg", "png", "pgf", "py", "npz", "csv")
PAGES = 100  # of an animation
PER_SECOND = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder, the name of one of yours, or a session (.dgn)"
    )
    parser.add_argument(
        "--panel", required=True, metavar="ID", help="spectrum, say; several on a page: ntk,overlap"
    )
    parser.add_argument(
        "--step",
        metavar="N[,N]",
        help="a recorded step, or two in one picture: 0,900; without it, the last",
    )
    parser.add_argument(
        "--chart",
        action="append",
        default=[],
        metavar="NAME",
        help="of a panel with several charts this one, as -o x.csv names its files; with several "
        "panels spectrum.kernel; repeat for others",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help=f"its ending decides: {', '.join(FORMATS)}; of an animation gif or mp4",
    )
    parser.add_argument("--format", choices=FORMATS, help="instead of an ending of --out")
    parser.add_argument("--width", type=float, metavar="INCHES", help="3.25, 6.75 or any other")
    parser.add_argument("--height", type=float, metavar="INCHES", help="else as needed")
    parser.add_argument(
        "--font-size", type=float, metavar="POINTS", help="else 8 in a column, 9 in a page"
    )
    parser.add_argument("--dpi", type=int, metavar="N", help="of a PNG, else 300")
    parser.add_argument("--no-caption", action="store_true", help="without provenance and facts")
    parser.add_argument("--letters", action="store_true", help="(a), (b) … before the titles")
    parser.add_argument("--across", type=int, metavar="N", help="panels side by side")
    parser.add_argument(
        "--legend",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="call a curve so, mathematics between dollars; repeat for others",
    )
    parser.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option of the panel's header: show=kernel, or ntk.show=norms",
    )

    parser.add_argument(
        "--animate",
        metavar="FROM:TO",
        help="one page for each recorded step from FROM to TO, with fixed axes; 'all' for all",
    )
    parser.add_argument(
        "--pages",
        type=int,
        default=PAGES,
        metavar="N",
        help=f"of an animation at most, spread evenly over its recorded steps (default {PAGES})",
    )
    parser.add_argument(
        "--per-second",
        type=float,
        default=PER_SECOND,
        metavar="N",
        help=f"pages of an animation a second (default {number(PER_SECOND)})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the figure and print what was written."""
    if arguments.animate is not None:
        return _animate(arguments)
    try:
        from dgn_engine.figures.recorded_panels import find_panels, panels_of_run
        from dgn_engine.figures.save_figure import save_panels
    except ModuleNotFoundError as error:
        raise UserError(
            f"Figures need {error.name}, which is not installed: pip install {error.name}."
        ) from None
    if arguments.out is not None:
        check_output(_named_path(arguments))
    specs = find_panels(arguments.panel)
    steps = () if arguments.step is None else _steps(arguments.step)
    style = _style(arguments)
    panels = panels_of_run(arguments.run, steps, specs, arguments.choose, arguments.chart)
    style = _with_legend(style, panels, arguments.legend)
    for file in save_panels(panels, _path(arguments, panels), style):
        say(str(file))
    return 0


def _animate(arguments: argparse.Namespace) -> int:
    """Write the animation and print what it shows."""
    from dgn_engine.figures.animation import save_animation
    from dgn_engine.figures.animation_format import check_format
    from dgn_engine.figures.recorded_pages import pages_of_run
    from dgn_engine.figures.recorded_panels import (
        choose_options,
        find_panels,
        read_at_steps,
        with_charts,
    )

    if arguments.step is not None:
        raise UserError("--step names one step and --animate many; leave one of them out.")
    if arguments.format is not None:
        raise UserError("--format is of figures; the ending of --out says gif or mp4.")
    if arguments.pages < 2:
        raise UserError(f"--pages {arguments.pages} moves nothing; choose 2 or more.")
    reach = _reach(arguments.animate)
    specs = find_panels(arguments.panel)
    path = arguments.out or Path(f"{'-'.join(specs)}.gif")
    check_format(path)
    check_output(path)
    style = _style(arguments)
    with tempfile.TemporaryDirectory() as place:
        loaded = read_at_steps(arguments.run, (None,), specs, Path(place))
        views = choose_options(loaded, specs, arguments.choose)
        choices = {name: each.view.choices for name, each in views.items()}
        found = pages_of_run(loaded[0], specs, choices, reach, arguments.pages)
    pages = [with_charts(page, arguments.chart) for page in found.pages]
    style = _with_legend(style, pages[-1], arguments.legend)
    save_animation(pages, path, style, arguments.per_second)
    hint = " (--pages)" if found.thinned else ""
    say(f"{path}: {found.words}{hint}")
    return 0


def _reach(wanted: str) -> tuple[int, int | None]:
    """'100:2000', '100:', ':2000' or 'all'."""
    if wanted == "all":
        return 0, None
    first, colon, last = wanted.partition(":")
    try:
        found = int(first or 0), int(last) if last else None
    except ValueError:
        colon = ""
    if not colon or found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        raise UserError(f"--animate {wanted} is no range of steps; write 100:2000, 100: or all.")
    return found


def _steps(text: str) -> tuple[int, ...]:
    """The steps of '900' or '0,900'."""
    from dgn_engine.figures.recorded_panels import check_steps

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 16 for part in parts):
        raise UserError(f"--step '{text}' is not a step; name a recorded one, 900, or two, 0,900.")
    return check_steps(tuple(map(int, parts)))


def _style(arguments: argparse.Namespace) -> FigureStyle:
    from dgn_engine.figures.figure_style import FigureStyle

    given = {
        "width": arguments.width,
        "height": arguments.height,
        "font": arguments.font_size,
        "dpi": arguments.dpi,
        "across": arguments.across,
    }
    for name, value in given.items():
        if value == 0:  # 0 means something else inside
            raise UserError(f"--{name.replace('font', 'font-size')} 0 makes no figure.")
    known = {name: value for name, value in given.items() if value is not None}
    return FigureStyle(**known, caption=not arguments.no_caption, letters=arguments.letters)


def _with_legend(
    style: FigureStyle, panels: Sequence[FigurePanel], wanted: Sequence[str]
) -> FigureStyle:
    from dataclasses import replace

    from dgn_engine.figures.figure_style import curve_names
    from dgn_engine.scene.typeset import plain

    known = {plain(name): name for name in curve_names([panel.scene for panel in panels])}
    legend = []
    for words in wanted:
        name, sign, text = words.partition("=")
        if not sign or plain(name) not in known:
            names = ", ".join(known) or "none"
            raise UserError(f"--legend {words} names no curve; there are {names}.")
        legend.append((known[plain(name)], text))
    return replace(style, legend=tuple(legend))


def _path(arguments: argparse.Namespace, panels: Sequence[FigurePanel]) -> Path:
    ending = arguments.format
    if arguments.out is None:
        names = "-".join(panel.name for panel in panels)
        step = max(panel.context.step for panel in panels)
        both = next((panel.context.steps for panel in panels if panel.context.steps), (step,))
        return Path(f"{names}-step{'-'.join(map(str, both))}.{ending or 'pdf'}")
    return _named_path(arguments)


def _named_path(arguments: argparse.Namespace) -> Path:
    """That of --out, with an ending; raises `UserError` where it has none that is known."""
    path, ending = arguments.out, arguments.format
    assert isinstance(path, Path)
    if ending and not path.suffix:
        return path.with_name(f"{path.name}.{ending}")
    if ending and path.suffix.lower() != f".{ending}":
        raise UserError(f"--out {path} and --format {ending} disagree; leave one of them out.")
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise UserError(
            f"Cannot tell the format of {path.name}; end its name in one of {', '.join(FORMATS)}."
        )
    return path


COMMAND = Subcommand(
    "Panels of a recorded run as figures for papers, numbers or a script, without a window.",
    add_arguments,
    run,
)
