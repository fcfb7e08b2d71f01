"""`dgn figure`: panels of a recorded run as figures, numbers or a script, without a window."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.text.written_numbers import number

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


def run(arguments: argparse.Namespace) -> str:
    drawn = "draw_figures" if arguments.animate is None else "draw_film"
    return f"dgn_engine.cli.run.draw_figure:{drawn}"


COMMAND = Subcommand(
    "Panels of a recorded run as figures for papers, numbers or a script, without a window.",
    add_arguments,
    run,
)
