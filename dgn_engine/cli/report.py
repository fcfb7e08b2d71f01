"""`dgn report`: one page about one network, with what is usual for each of its numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.cli._network_options import add_network, add_reading, check_network
from dgn_engine.cli._option_checks import bounded_number
from dgn_engine.cli.inspect import add_data_options, check_split
from dgn_engine.errors import UserError, Where

EXAMPLES = 64  # default number of training examples
SECONDS = 60.0  # default limit of a section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_reading(parser)
    add_data_options(parser, EXAMPLES)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="CONFIG.toml",
        help="take the data and their settings from this configuration, instead of --data",
    )
    parser.add_argument(
        "--seconds",
        **bounded_number(float, least=0, finite=True),
        default=SECONDS,
        metavar="S",
        help="leave out sections that would take more than S seconds (default: 60)",
    )
    parser.add_argument(
        "--only",
        type=_parse_names,
        metavar="NAME,…",
        help="write only these sections: accuracy, gates, …",
    )
    parser.add_argument(
        "--cost", action="store_true", help="only print what each section would cost"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write to DIR instead of your results folder"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no cost and no progress")


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def run(arguments: argparse.Namespace) -> str:
    """Check the options and return the function that writes the report."""
    check_network(arguments, arguments.file)
    check_split(arguments)
    if arguments.config is not None and arguments.data is not None:
        raise UserError(
            Where("--config") + " and --data both choose the data; remove one of them.",
            kind="contradiction",
            value="--data",
        )
    if arguments.model is not None and arguments.data is None:
        raise UserError(
            Where("--model") + " needs --data: the module is traced on examples.",
            kind="needs-option",
            value="--data",
        )
    return "dgn_engine.cli.run.report_network:report_network"


COMMAND = Subcommand(
    "Write one page about a network, as HTML and PDF: its gates, kernels and accuracy, what they "
    "mean, and how usual they are.",
    add_arguments,
    run,
)
