"""The options with which commands read a network of a file and show it its data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dgn_engine.errors import UserError

if TYPE_CHECKING:
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


def part_in_words(listing: CheckpointContents) -> str:
    """Which of several networks in a file was taken, and how to take another; or ''."""
    from dgn_engine.model.importing.from_file import beside_in_words
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
            f"{file} is right on {found:.1%} of {on}, not on the {expected:.1%} expected: its "
            "activations, the preprocessing (--normalise) or the test examples (--test-indices, "
            "--split-seed) are others."
        )


def normalised_when_trained(listing: CheckpointContents) -> str:
    """How the pixels were normalised that a network of ours was trained on."""
    from dgn_engine.model.importing.saved_network import is_ours, state_of

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
