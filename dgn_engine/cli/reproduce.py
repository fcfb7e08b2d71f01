"""`dgn reproduce`: rerun an experiment of the papers and compare with the published numbers."""

from __future__ import annotations

import argparse
from typing import get_args

from dgn_engine.cli import Subcommand
from dgn_engine.cli._executor_options import add_reproduction_options
from dgn_engine.cli._option_checks import bounded_number, list_of
from dgn_engine.config import MOST_SEED, Augmentation, Device
from dgn_engine.errors import UserError, Where

ALL = "all"
_STEPS = list_of(float, "not a list of numbers such as 0.1,0.01")
_COUNT = bounded_number(int, least=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="experiment (see --list), or 'all'")
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the experiments with paper, time on two cores and status",
    )
    parser.add_argument(
        "--rows", action="store_true", help="list the rows for --only and what they cost"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON (with --rows)")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="run at reduced scale (the default)")
    scale.add_argument("--full", action="store_true", help="run at the paper's scale")
    parser.add_argument(
        "--protocol",
        choices=("as-published", "as-in-code"),
        help="follow the paper or the authors' code",
    )
    parser.add_argument("--seeds", **_COUNT, metavar="K", help="number of seeds")
    parser.add_argument(
        "--seed-start",
        **bounded_number(int, least=0, most=MOST_SEED),
        metavar="K",
        help="first seed (default: 0)",
    )
    parser.add_argument("--epochs", **_COUNT, metavar="N", help="number of epochs")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run only rows whose label contains TEXT"
    )
    parser.add_argument(
        "--steps", type=_STEPS, default=(), metavar="0.1,0.01", help="learning rates of SGD"
    )
    parser.add_argument("--data", default="", help="use this data set instead of the experiment's")
    parser.add_argument("--data-root", default="", metavar="DIR", help="folder with the data sets")
    parser.add_argument("--download", action="store_true", help="download missing data")
    for part, examples in (("train", "training"), ("test", "test")):
        parser.add_argument(
            f"--{part}-limit",
            **_COUNT,
            metavar="N",
            help=f"use only N {examples} examples, balanced over the classes",
        )
    parser.add_argument(
        "--augmentation",
        choices=get_args(Augmentation),
        default="none",
        help="augmentation of the training images (default: none)",
    )
    parser.add_argument(
        "--device",
        choices=get_args(Device),
        default="auto",
        help="device to train on (default: auto)",
    )
    add_reproduction_options(parser)


def run(arguments: argparse.Namespace) -> str:
    """Check the options; return the function that lists experiments or rows, or reproduces."""
    if arguments.list:
        return "dgn_engine.cli.run.list_experiments:list_experiments"
    if not arguments.name:
        raise UserError(
            "Choose an experiment; --list shows them.", kind="not-named", value="--list"
        )
    if arguments.json and not arguments.rows:
        raise UserError(
            Where("--json") + " needs --rows; the numbers of a result are in its results.json.",
            kind="needs-option",
            value="--rows",
        )
    if arguments.rows and arguments.name == ALL:
        raise UserError(
            Where("--rows") + " lists the rows of one experiment; choose one (see --list).",
            kind="not-named",
            value="--list",
        )
    if arguments.rows:
        return "dgn_engine.cli.run.reproduce_papers:list_rows"
    chosen = "reproduce_all" if arguments.name == ALL else "reproduce_one"
    return f"dgn_engine.cli.run.reproduce_papers:{chosen}"


COMMAND = Subcommand("Reproduce an experiment of the papers.", add_arguments, run)
