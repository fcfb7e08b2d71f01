"""`dgn figure`: export panels of a recorded run as figures, data or a script."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.text.written_numbers import format_number

FORMATS = ("pdf", "svg", "png", "pgf", "py", "npz", "csv")
PAGES = 100  # frames of an animation
PER_SECOND = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="folder or name of a run, or a session (.dgn)")
    parser.add_argument(
        "--panel",
        required=True,
        metavar="ID",
        help="panel to draw, such as spectrum; several on one page: ntk,overlap",
    )
    parser.add_argument(
        "--step",
        metavar="N[,N]",
        help="recorded step, or two to compare: 0,900 (default: the last)",
    )
    parser.add_argument(
        "--chart",
        action="append",
        default=[],
        metavar="NAME",
        help="draw only this chart of the panel (-o x.csv names its files after the charts); with "
        "several panels: spectrum.kernel; may be repeated",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help=f"output file; its extension sets the format: {', '.join(FORMATS)}; gif or mp4 for "
        "an animation",
    )
    parser.add_argument("--format", choices=FORMATS, help="format, if --out has no extension")
    parser.add_argument(
        "--width", type=float, metavar="INCHES", help="width, such as 3.25 (column) or 6.75 (page)"
    )
    parser.add_argument("--height", type=float, metavar="INCHES", help="height (default: to fit)")
    parser.add_argument(
        "--font-size",
        type=float,
        metavar="POINTS",
        help="font size (default: 8 for a column, 9 for a page)",
    )
    parser.add_argument("--dpi", type=int, metavar="N", help="resolution of a PNG (default: 300)")
    parser.add_argument("--no-caption", action="store_true", help="leave out the caption")
    parser.add_argument("--letters", action="store_true", help="label the panels (a), (b), …")
    parser.add_argument("--across", type=int, metavar="N", help="number of panels side by side")
    parser.add_argument(
        "--legend",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="rename a curve; TEXT may contain $math$; may be repeated",
    )
    parser.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="set an option in the panel's header: show=kernel, or ntk.scale=raw",
    )
    parser.add_argument(
        "--animate",
        metavar="FROM:TO",
        help="animate the recorded steps FROM to TO, or 'all', with fixed axes",
    )
    parser.add_argument(
        "--pages",
        type=int,
        default=PAGES,
        metavar="N",
        help=f"maximum number of frames, spread evenly over the steps (default: {PAGES})",
    )
    parser.add_argument(
        "--per-second",
        type=float,
        default=PER_SECOND,
        metavar="N",
        help=f"frames per second (default: {format_number(PER_SECOND)})",
    )


def run(arguments: argparse.Namespace) -> str:
    drawn = "draw_figures" if arguments.animate is None else "draw_film"
    return f"dgn_engine.cli.run.draw_figure:{drawn}"


COMMAND = Subcommand(
    "Export panels of a recorded run as figures for a paper, as data or as a script.",
    add_arguments,
    run,
)
