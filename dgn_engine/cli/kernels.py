"""`dgn kernels`: compute all kernels of a network, from a file or the user's code, on inputs."""

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
    parse_examples_option,
)
from dgn_engine.cli._option_checks import bounded_number
from dgn_engine.cli._options import numbers
from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.kernels.quantities import QUANTITIES
from dgn_engine.storage.atomic_write import check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network",
        type=Path,
        nargs="?",
        help=".pt, .pth, .safetensors or .npz file, or RUN[@STEP]",
    )
    add_model(parser)
    add_part(parser)
    examples = parser.add_mutually_exclusive_group(required=True)
    examples.add_argument("--inputs", type=Path, metavar="X", help=".npy or .npz file of inputs")
    examples.add_argument(
        "--examples",
        type=parse_examples_option,
        metavar="probe|N",
        help="use the probe set of the run, or its first N training examples",
    )
    parser.add_argument(
        "--data-root", metavar="DIR", help="folder with the data sets (with --examples)"
    )
    parser.add_argument("--labels", type=Path, metavar="Y", help=".npy file of class indices")
    add_normalise(parser)
    add_expected(parser)
    parser.add_argument(
        "--gates", type=Path, metavar="OTHER", help="feature network that computes the gates"
    )
    positive = bounded_number(float, above=0, finite=True)
    parser.add_argument("--beta", **positive, help="use soft gates with this β")
    parser.add_argument(
        "--eps",
        **bounded_number(float, least=0, finite=True),
        default=0.0,
        help="ε of the soft gate (default: 0)",
    )
    parser.add_argument(
        "--value-input",
        choices=("image", "ones"),
        default="image",
        help="input of the value network (default: image)",
    )
    parser.add_argument(
        "--permute",
        type=numbers,
        metavar="2,0,1",
        help="order of the gate layers, counted from 0 (with --gates)",
    )
    parser.add_argument(
        "--feature-activation",
        choices=("relu", "linear"),
        default="relu",
        help="activation of the feature network (default: relu)",
    )
    add_reading(parser)
    add_named_net(parser)
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float64",
        help="floating-point type (default: float64)",
    )
    parser.add_argument(
        "--logits",
        choices=("mean", "full", "perclass", "sumlogit"),
        default="mean",
        help="how several logits are combined (default: mean)",
    )
    parser.add_argument(
        "--scale",
        choices=("none", "trace", "width", "cosine"),
        default="none",
        help="scale of the overlap, sensitive overlap, δ and NPK (default: none)",
    )
    parser.add_argument(
        "--folded",
        action="store_true",
        help="compute K over the weights with BatchNorm and constants folded in, instead of the "
        "trained parameters",
    )
    parser.add_argument(
        "--only",
        type=_parse_quantities,
        metavar="ntk,gates",
        help=f"compute only these of {', '.join(QUANTITIES)} (default: all that fit, but delta)",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="cpu",
        help="device to compute on (default: cpu)",
    )
    parser.add_argument(
        "--memory",
        **positive,
        default=4.0,
        metavar="GiB",
        help="memory limit; larger quantities are skipped (default: 4)",
    )
    parser.add_argument("--out", type=Path, metavar="K.npz", help="write all kernels to this file")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _parse_quantities(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in QUANTITIES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of {', '.join(QUANTITIES)}.{did_you_mean(name, QUANTITIES)}"
            )
    return names


def run(arguments: argparse.Namespace) -> str:
    """Check the options and return the function that computes the kernels."""
    check_model_options(arguments)
    if arguments.eps > 0 and arguments.beta is None:
        raise UserError(
            Where("--eps") + " needs --beta: only soft gates have an ε.",
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
            Where("--normalise") + " needs --inputs: a run records its own normalisation.",
            kind="needs-option",
            value="--inputs",
        )
    if arguments.option and not arguments.net:
        raise UserError(
            Where("--option") + " needs --net: it sets an option of that network.",
            kind="needs-option",
            value="--net",
        )
    if arguments.out:
        check_output(arguments.out)
    return "dgn_engine.cli.run.compute_kernels:compute_kernels"


COMMAND = Subcommand("Compute every kernel of a network on given inputs.", add_arguments, run)
