"""`dgn inspect FILE`: what a checkpoint, run or session holds; with --data, its network at work."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.cli._network_options import (
    add_expected,
    add_named_net,
    add_network,
    add_normalise,
    add_reading,
    check_network,
)
from dgn_engine.cli._option_checks import bounded, given_options
from dgn_engine.cli._options import numbers
from dgn_engine.errors import UserError, Where
from dgn_engine.importing import MODEL
from dgn_engine.storage.atomic_write import check_output_folder

KERNEL_FILE, INSPECTION_FILE = "kernels.npz", "inspection.json"  # what --out writes
SCORED = 1000  # test examples, unless --scored is given
_NEEDS_DATA = (
    "examples", "layers", "out", "size", "normalise", "net", "road", "draws", "seconds",
    "memory", "seed", "scored", "data_root", "dtype", "expect_accuracy", "split_seed",
    "test_indices",
)  # fmt: skip


def _add_inspection_options(parser: argparse.ArgumentParser) -> None:
    """The options of the network on examples; all of them need --data."""
    group = parser.add_argument_group("the network on examples")
    group.add_argument("--data", metavar="NAME", help="show the network on this data set")
    group.add_argument("--data-root", metavar="DIR", help="where data sets lie")
    group.add_argument(
        "--examples", **bounded(int, least=2), metavar="N", help="training examples (50)"
    )
    group.add_argument("--layers", type=numbers, metavar="1,3", help="gate layers, from 1 (all)")
    group.add_argument(
        "--size", **bounded(int, least=1), metavar="S", help="resize and cut images to S×S"
    )
    add_normalise(group)
    group.add_argument(
        "--split-seed", **bounded(int, least=0), metavar="N", help="of digits' test part (0)"
    )
    group.add_argument("--test-indices", metavar="FILE", help="numbers of the test examples")
    add_named_net(group)
    group.add_argument(
        "--kernels", dest="road", choices=("auto", "exact", "estimate"), help="how (auto)"
    )
    group.add_argument("--draws", **bounded(int, least=2), metavar="R", help="of an estimate (100)")
    group.add_argument(
        "--seconds", **bounded(float, least=0), metavar="S", help="exact if it takes no more (60)"
    )
    group.add_argument(
        "--memory", **bounded(float, above=0, finite=True), metavar="GiB", help="at most (4)"
    )
    group.add_argument(
        "--scored", **bounded(int, least=0), metavar="N", help=f"test examples ({SCORED:,})"
    )
    add_expected(group)
    group.add_argument("--seed", type=int, help="of the choice of examples and of estimates (0)")
    group.add_argument("--dtype", choices=("float32", "float64"), help="to compute in (float32)")
    group.add_argument("--out", type=Path, metavar="DIR", help="write inspection.json, kernels.npz")


def _check_inspection_options(arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        check_output_folder(arguments.out, (KERNEL_FILE, INSPECTION_FILE))
    if arguments.data is None:
        for option in given_options(arguments, *_NEEDS_DATA, "option"):
            typed = "--kernels" if option == "--road" else option
            raise UserError(Where(typed) + " needs --data.", kind="needs-option", value="--data")
        return
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
                + " and --test-indices both say which examples are for the test; leave one of them "
                "out.",
                kind="contradiction",
                value="--test-indices",
            )
    if arguments.test_indices == "":
        raise UserError(
            Where("--test-indices") + " is empty; the name of a file is needed.", kind="empty"
        )
    if arguments.option and not arguments.net:
        raise UserError(Where("--option") + " needs --net.", kind="needs-option", value="--net")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_reading(parser)
    parser.add_argument(
        "--confinement",
        action="store_true",
        help="say what confines the process that reads files here, and try it",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    _add_inspection_options(parser)


def run(arguments: argparse.Namespace) -> str:
    """Refuse options that contradict each other; return what inspects."""
    inspect = "dgn_engine.cli.run.inspect_file"
    if arguments.confinement:
        return f"{inspect}:print_confinement"
    if arguments.file is None and arguments.model is None:
        raise UserError(
            f"No network is named: dgn inspect FILE, --model {MODEL} for your own code, or dgn "
            "inspect --confinement.",
            kind="not-named",
            value="--confinement",
        )
    check_network(arguments, arguments.file)
    _check_inspection_options(arguments)
    if arguments.model is not None and arguments.data is None:
        raise UserError(
            Where("--model") + " needs --data: a module is followed while examples pass it.",
            kind="needs-option",
            value="--data",
        )
    return f"{inspect}:inspect_file"


COMMAND = Subcommand(
    "List a checkpoint, whoever wrote it, or show its network on data; none of it is run.",
    add_arguments,
    run,
)
