"""`dgn reproduce`: an experiment of the papers, measured, next to the printed numbers."""

from __future__ import annotations

import argparse
from typing import get_args

from dgn_engine.cli import Subcommand
from dgn_engine.cli._executor_options import add_reproduction_options
from dgn_engine.cli._option_checks import bounded, list_of
from dgn_engine.config import MOST_SEED, Augmentation, Device
from dgn_engine.errors import UserError, Where

ALL = "all"
_STEPS = list_of(float, "no list of numbers such as 0.1,0.01")
_COUNT = bounded(int, least=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="an experiment of --list, or 'all'")
    parser.add_argument("--list", action="store_true", help="name, paper, cost, what is there")
    parser.add_argument("--rows", action="store_true", help="what --only chooses among, its cost")
    parser.add_argument("--json", action="store_true", help="with --rows: as JSON")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="scaled down to minutes (the default)")
    scale.add_argument("--full", action="store_true", help="the paper's scale")
    parser.add_argument("--protocol", choices=("as-published", "as-in-code"))
    parser.add_argument("--seeds", **_COUNT, metavar="K", help="so many seeds")
    parser.add_argument(
        "--seed-start",
        **bounded(int, least=0, most=MOST_SEED),
        metavar="K",
        help="the first seed (0)",
    )
    parser.add_argument("--epochs", **_COUNT, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose label holds it")
    parser.add_argument("--steps", type=_STEPS, default=(), metavar="0.1,0.01", help="of SGD")
    parser.add_argument("--data", default="", help="instead of the experiment's data set")
    parser.add_argument("--data-root", default="", metavar="DIR", help="where data sets lie")
    parser.add_argument("--download", action="store_true", help="fetch data that are missing")
    for part in ("train", "test"):
        parser.add_argument(
            f"--{part}-limit", **_COUNT, metavar="N", help=f"so many {part} examples, balanced"
        )
    parser.add_argument(
        "--augmentation", choices=get_args(Augmentation), default="none", help="of training images"
    )
    parser.add_argument("--device", choices=get_args(Device), default="auto")
    add_reproduction_options(parser)


def run(arguments: argparse.Namespace) -> str:
    """Return what lists the experiments, lists the rows of one, or reproduces it."""
    if arguments.list:
        return "dgn_engine.cli.run.list_experiments:list_experiments"
    if not arguments.name:
        raise UserError(
            "Say which experiment, or --list to see them.", kind="not-named", value="--list"
        )
    if arguments.json and not arguments.rows:
        raise UserError(
            Where("--json") + " belongs to --rows; a result's numbers are in its results.json.",
            kind="needs-option",
            value="--rows",
        )
    if arguments.rows and arguments.name == ALL:
        raise UserError(
            Where("--rows") + " lists the rows of one experiment; say which, or --list.",
            kind="not-named",
            value="--list",
        )
    if arguments.rows:
        return "dgn_engine.cli.run.reproduce_papers:list_rows"
    chosen = "reproduce_all" if arguments.name == ALL else "reproduce_one"
    return f"dgn_engine.cli.run.reproduce_papers:{chosen}"


COMMAND = Subcommand("Reproduce an experiment of the papers.", add_arguments, run)
