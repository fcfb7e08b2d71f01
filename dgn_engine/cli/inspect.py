"""`dgn inspect FILE`: list a checkpoint, run or session; with --data, analyse its network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dgn_engine.cli import Subcommand
from dgn_engine.cli._network_options import (
    add_expected,
    add_named_net,
    add_network,
    add_normalise,
    add_reading,
    check_network,
)
from dgn_engine.cli._option_checks import bounded_number, given_options
from dgn_engine.cli._options import numbers
from dgn_engine.errors import UserError, Where
from dgn_engine.importing import MODEL
from dgn_engine.storage.atomic_write import check_output_folder

KERNEL_FILE, INSPECTION_FILE = "kernels.npz", "inspection.json"  # written by --out
EXAMPLES = 50  # default number of training examples
SCORED = 1000  # default number of test examples for the accuracy
_NEEDS_DATA = (
    "examples", "layers", "out", "size", "normalise", "net", "road", "draws", "seconds",
    "memory", "seed", "scored", "data_root", "dtype", "expect_accuracy", "split_seed",
    "test_indices", "against",
)  # fmt: skip


def add_data_options(group: Any, examples: int) -> None:
    """Add the options for the data of an analysis, and how the network takes them."""
    group.add_argument("--data", metavar="NAME", help="analyse the network on this data set")
    group.add_argument("--data-root", metavar="DIR", help="folder with the data sets")
    group.add_argument(
        "--examples",
        **bounded_number(int, least=2),
        metavar="N",
        help=f"number of training examples (default: {examples})",
    )
    group.add_argument(
        "--size", **bounded_number(int, least=1), metavar="S", help="resize and crop images to S×S"
    )
    add_normalise(group)
    group.add_argument(
        "--split-seed",
        **bounded_number(int, least=0),
        metavar="N",
        help="seed of the test split of the digits (default: 0)",
    )
    group.add_argument(
        "--test-indices", metavar="FILE", help="file with the indices of the test examples"
    )
    add_named_net(group)
    group.add_argument(
        "--scored",
        **bounded_number(int, least=0),
        metavar="N",
        help=f"test examples for the accuracy (default: {SCORED:,})",
    )
    add_expected(group)
    group.add_argument(
        "--seed", type=int, help="seed of the chosen examples and of estimates (default: 0)"
    )
    group.add_argument(
        "--dtype", choices=("float32", "float64"), help="floating-point type (default: float32)"
    )


def _add_inspection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that analyse the network on examples; all of them need --data."""
    group = parser.add_argument_group("analysis on data")
    add_data_options(group, EXAMPLES)
    group.add_argument(
        "--layers", type=numbers, metavar="1,3", help="gate layers, counted from 1 (default: all)"
    )
    group.add_argument(
        "--kernels",
        dest="road",
        choices=("auto", "exact", "estimate"),
        help="how to compute kernels (default: auto)",
    )
    group.add_argument(
        "--draws",
        **bounded_number(int, least=2),
        metavar="R",
        help="random networks per estimate (default: 100)",
    )
    group.add_argument(
        "--seconds",
        **bounded_number(float, least=0),
        metavar="S",
        help="compute exactly if it takes at most S seconds (default: 60)",
    )
    group.add_argument(
        "--memory",
        **bounded_number(float, above=0, finite=True),
        metavar="GiB",
        help="memory limit (default: 4)",
    )
    group.add_argument(
        "--against",
        type=Path,
        metavar="OTHER",
        help="network with the same layers, to print the distance of the path values from",
    )
    group.add_argument(
        "--out", type=Path, metavar="DIR", help="write inspection.json and kernels.npz to DIR"
    )


def check_split(arguments: argparse.Namespace) -> None:
    """Raise `UserError` if the options choose the test examples in two ways, or name no file."""
    if arguments.split_seed is not None:
        if arguments.split_seed >= 2**31:
            raise UserError(
                Where("--split-seed") + f" is {arguments.split_seed}; it must be below 2^31.",
                kind="out-of-bounds",
                value=arguments.split_seed,
            )
        if arguments.test_indices is not None:
            raise UserError(
                Where("--split-seed")
                + " and --test-indices both choose the test examples; remove one of them.",
                kind="contradiction",
                value="--test-indices",
            )
    if arguments.test_indices == "":
        raise UserError(
            Where("--test-indices") + " is empty; pass the name of a file.", kind="empty"
        )
    if arguments.option and not arguments.net:
        raise UserError(Where("--option") + " needs --net.", kind="needs-option", value="--net")


def _check_inspection_options(arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        check_output_folder(arguments.out, (KERNEL_FILE, INSPECTION_FILE))
    if arguments.data is None:
        for option in given_options(arguments, *_NEEDS_DATA, "option"):
            typed = "--kernels" if option == "--road" else option
            raise UserError(Where(typed) + " needs --data.", kind="needs-option", value="--data")
        return
    check_split(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_reading(parser)
    parser.add_argument(
        "--confinement",
        action="store_true",
        help="test and show how the process that reads files is confined",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    _add_inspection_options(parser)


def run(arguments: argparse.Namespace) -> str:
    """Check the options and return the function that inspects."""
    inspect = "dgn_engine.cli.run.inspect_file"
    if arguments.confinement:
        return f"{inspect}:print_confinement"
    if arguments.file is None and arguments.model is None:
        raise UserError(
            f"No network given: use dgn inspect FILE, --model {MODEL} for your own code, or "
            "dgn inspect --confinement.",
            kind="not-named",
            value="--confinement",
        )
    check_network(arguments, arguments.file)
    _check_inspection_options(arguments)
    if arguments.model is not None and arguments.data is None:
        raise UserError(
            Where("--model") + " needs --data: the module is traced on examples.",
            kind="needs-option",
            value="--data",
        )
    return f"{inspect}:inspect_file"


COMMAND = Subcommand(
    "List the contents of any checkpoint, or analyse its network on data; executes no code in it.",
    add_arguments,
    run,
)
