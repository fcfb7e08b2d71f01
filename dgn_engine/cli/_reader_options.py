"""The options with which commands read a network of a file and show it its data."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dgn_engine.cli._options import value_of
from dgn_engine.errors import UserError
from dgn_engine.protocol.file_reading import ACTIVATIONS, FileReading
from dgn_engine.text.written_numbers import percent

if TYPE_CHECKING:
    from torch import Tensor

    from dgn_engine.storage.checkpoints.contents import CheckpointContents

HOW = "imagenet, cifar10, cifar100, mnist or m1,m2,m3/s1,s2,s3"
IF_NOT = "If this is not the accuracy you know, the reading is wrong."
TOLERANCE = 0.005  # how far the accuracy may lie from the one expected
_SCALES = ("trace", "width", "cosine")  # of kernels: what --normalise once meant in `dgn kernels`


def add_normalise(parser: Any) -> None:
    parser.add_argument(
        "--normalise", type=_normalise, metavar="HOW", help=f"of the pixels: {HOW} (none)"
    )


def add_part(parser: Any) -> None:
    parser.add_argument(
        "--part", metavar="KEY", help="of several networks in the file: model, ema, …"
    )


def add_reading(parser: Any) -> None:
    """Add the options that say what a state dict does not."""
    parser.add_argument(
        "--activation",
        metavar="NAME",
        help=f"between the layers, where the file does not say it: {', '.join(ACTIVATIONS)}; "
        "leaky_relu:0.2",
    )
    parser.add_argument(
        "--geometry",
        metavar="WORDS",
        help="of its convolutions, a word for each and for each pooling behind it: s2p1,max2,p1; "
        "torchvision; resnet,s1p1",
    )
    parser.add_argument(
        "--batchnorm", choices=("before", "after"), help="the activation, where BatchNorm stands"
    )
    parser.add_argument("--norm-eps", type=float, metavar="ε", help="of BatchNorm (torch: 1e-5)")
    parser.add_argument(
        "--ignore", type=_names, metavar="KEY,…", help="tensors that are no part of the network"
    )
    parser.add_argument(
        "--order", type=_names, metavar="KEY,…", help="the weights in the order of the layers"
    )


def add_named_net(parser: Any) -> None:
    """Add the name of the network that a file is of."""
    parser.add_argument("--net", metavar="NAME", help="or the network that it is: fc, cnn4, …")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of --net: width=64"
    )


READING = ("activation", "geometry", "batchnorm", "norm_eps", "ignore", "order")


def said_reading(arguments: argparse.Namespace) -> FileReading:
    """Return what the options say of a file; raises `UserError`."""
    return FileReading(
        activation=arguments.activation or "",
        geometry=arguments.geometry or "",
        batchnorm=arguments.batchnorm or "",
        norm_eps=arguments.norm_eps,
        ignored=arguments.ignore or (),
        order=arguments.order or (),
    )


def with_reading(listing: CheckpointContents, arguments: argparse.Namespace) -> CheckpointContents:
    """Return a file with what the options say of it, --net among them; raises `UserError`."""
    from dgn_engine.config import NetConfig

    options = tuple(value_of(text) for text in arguments.option)
    net = NetConfig(name=arguments.net, options=options) if arguments.net else None
    return replace(listing, reading=replace(said_reading(arguments), net=net))


def add_fitting_readings(
    refusal: UserError,
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    x: Tensor | None = None,
    y: Tensor | None = None,
    more: str = "",
) -> UserError:
    """Return the refusal of a file that leaves something open with the readings that fit below it.

    Args:
        x, y: examples (n, *input_shape) and their classes (n,), for the accuracy of each.
        more: how they would come with accuracies, where there are no labels.
    """
    from dgn_engine.importing.fitting_readings import fitting_readings
    from dgn_engine.storage.checkpoints.stated_entries import hints

    found = fitting_readings(listing, input_shape, x, y)
    refusal.details = hints(listing)
    alone = len(found) == 1 and not found[0].examples and not found[0].reading.geometry
    if not found or alone:  # `--activation relu` alone would read like advice
        return refusal
    sides = "×".join(str(side) for side in input_shape)
    examples = found[0].examples
    how = (
        f", with their accuracy on {examples:,} examples"
        if examples
        else ("" if y is not None else more)
    )
    lines = [f"Readings that fit {sides}, among others{how}:"]
    for fitting in found:
        right = "" if fitting.accuracy is None else f"{percent(fitting.accuracy):>7} "
        lines.append(f" {right} {fitting.reading.options}")
    refusal.details = (*refusal.details, *lines)
    return refusal


def part_in_words(listing: CheckpointContents) -> str:
    """Which of several networks in a file was taken, and how to take another; or ''."""
    from dgn_engine.importing.from_file import beside_in_words
    from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside

    if twice := averaged_beside(listing.arrays):
        return f"--part {twice[0]} takes the one, --part {twice[1]} the other."
    if not listing.others:
        return ""
    return f"{beside_in_words(listing)} --part {listing.others[0]} takes those."


def add_expected(parser: Any) -> None:
    parser.add_argument(
        "--expect-accuracy",
        type=_percent,
        metavar="P",
        help="in percent: refuse a reading whose accuracy is another",
    )


def check_expected(
    file: str, found: float | None, expected: float | None, on: str, why: str = ""
) -> None:
    """Refuse a network whose accuracy (0…1) is not the one its owner knows."""
    if expected is None:
        return
    if found is None:
        raise UserError(f"The accuracy of {file} cannot be held against --expect-accuracy: {why}.")
    if abs(found - expected) > TOLERANCE:
        raise UserError(
            f"{file} is right on {percent(found)} of {on}, not on the "
            f"{percent(expected)} expected: how it is read, the preprocessing "
            "(--normalise) or the test examples (--test-indices, --split-seed) are others."
        )


def normalised_when_trained(listing: CheckpointContents) -> str:
    """How the pixels were normalised that a network of ours was trained on."""
    from dgn_engine.importing.saved_network import is_ours, state_of

    return state_of(listing).config.data.normalise if is_ours(listing) else "none"


def _normalise(text: str) -> str:
    from dgn_engine.data._normalisation import normalisation

    if text in _SCALES:
        raise argparse.ArgumentTypeError(
            f"this is of the pixels ({HOW}); what scales kernels is --scale {text}"
        )
    if not text:
        raise argparse.ArgumentTypeError(f"it is empty; none, or {HOW}")
    try:
        normalisation(text)
    except UserError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in (part.strip() for part in text.split(",")) if part)


def _percent(text: str) -> float:
    """'92.9' → 0.929. A share such as 0.929 is refused: it would be less than one in a hundred."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no accuracy in percent, from 1 to 100 (92.9, not 0.929)"
        )
    return value / 100
