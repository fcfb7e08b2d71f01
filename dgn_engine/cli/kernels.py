"""`dgn kernels`: every kernel of a network in a file, or in the user's code, on given inputs."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.cli._network_options import (
    add_expected,
    add_model,
    add_named_net,
    add_normalise,
    add_part,
    add_reading,
    check_model_options,
    examples_wanted,
)
from dgn_engine.cli._option_checks import bounded
from dgn_engine.cli._options import numbers
from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.kernels.quantities import QUANTITIES
from dgn_engine.storage.atomic_write import check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network",
        type=Path,
        nargs="?",
        help=".pt, .pth, .safetensors, .npz, or RUN[@STEP]",
    )
    add_model(parser)
    add_part(parser)
    examples = parser.add_mutually_exclusive_group(required=True)
    examples.add_argument("--inputs", type=Path, metavar="X", help=".npy or .npz")
    examples.add_argument(
        "--examples",
        type=examples_wanted,
        metavar="probe|N",
        help="of a run of ours: its probe set, or its first N training examples",
    )
    parser.add_argument("--data-root", metavar="DIR", help="where data sets lie, for --examples")
    parser.add_argument("--labels", type=Path, metavar="Y", help=".npy of class numbers")
    add_normalise(parser)
    add_expected(parser)
    parser.add_argument(
        "--gates", type=Path, metavar="OTHER", help="a network that makes the gates"
    )
    positive = bounded(float, above=0, finite=True)
    parser.add_argument("--beta", **positive, help="soft gates of this steepness")
    parser.add_argument(
        "--eps",
        **bounded(float, least=0, finite=True),
        default=0.0,
        help="ε of the soft gate",
    )
    parser.add_argument("--value-input", choices=("image", "ones"), default="image")
    parser.add_argument("--permute", type=numbers, metavar="2,0,1", help="0-based, with --gates")
    parser.add_argument("--feature-activation", choices=("relu", "linear"), default="relu")
    add_reading(parser)
    add_named_net(parser)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument(
        "--logits", choices=("mean", "full", "perclass", "sumlogit"), default="mean"
    )
    parser.add_argument(
        "--scale",
        choices=("none", "trace", "width", "cosine"),
        default="none",
        help="of overlap, sensitive overlap and NPK",
    )
    parser.add_argument(
        "--folded",
        action="store_true",
        help="K of the weights with BatchNorm and constants folded into them, not of what trains",
    )
    parser.add_argument(
        "--only",
        type=_quantities,
        metavar="ntk,gates",
        help=f"of {', '.join(QUANTITIES)} (all that fits)",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--memory", **positive, default=4.0, metavar="GiB", help="what needs more is left out"
    )
    parser.add_argument("--out", type=Path, metavar="K.npz", help="write all kernels here")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")


def _quantities(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in QUANTITIES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of {', '.join(QUANTITIES)}.{did_you_mean(name, QUANTITIES)}"
            )
    return names


def run(arguments: argparse.Namespace) -> str:
    """Refuse options that contradict each other; return what computes."""
    check_model_options(arguments)
    if arguments.eps > 0 and arguments.beta is None:
        raise UserError(
            Where("--eps") + " needs --beta: hard gates have no ε.",
            kind="needs-option",
            value="--beta",
        )
    if arguments.expect_accuracy is not None and arguments.inputs and not arguments.labels:
        raise UserError(
            Where("--expect-accuracy") + " needs --labels.",
            kind="needs-option",
            value="--labels",
        )
    if arguments.normalise and arguments.inputs is None:
        raise UserError(
            Where("--normalise") + " needs --inputs: a run says itself how its pixels were.",
            kind="needs-option",
            value="--inputs",
        )
    if arguments.option and not arguments.net:
        raise UserError(
            Where("--option") + " needs --net: it is of a network that is named.",
            kind="needs-option",
            value="--net",
        )
    if arguments.out:
        check_output(arguments.out)
    return "dgn_engine.cli.run.compute_kernels:compute_kernels"


COMMAND = Subcommand("Compute every kernel of a network on given inputs.", add_arguments, run)
