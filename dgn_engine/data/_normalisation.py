"""Pixel means and deviations that networks were trained with, by name or as numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dgn_engine.data._dataset import Examples
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.text.written_numbers import format_decimals

Array = npt.NDArray[Any]

LARGEST = 1e6  # of a mean or deviation; 1/LARGEST is the smallest: pixels end at 255 or 65,535
# Mean and standard deviation of each channel over the training pixels in [0, 1]. imagenet: as
# torchvision's reference weights were trained; the others as commonly printed to 3 or 4 digits.
NORMALISATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "mnist": ((0.1307,), (0.3081,)),
}
NONE = "none"


@dataclass(frozen=True)
class Normalisation:
    """Maps pixels to (x - mean) / deviation, with one pair per channel, or one for all.

    `name`: 'imagenet' and so on, for pixels in [0, 1]; '' for custom numbers, of any scale.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    name: str = ""

    def __call__(self, x: Array) -> Array:
        """Normalise (n, C, …) or (n, d); raises `UserError` if the channels do not match."""
        if len(self.mean) > 1 and (x.ndim <= 2 or x.shape[1] != len(self.mean)):
            have = f"images have {x.shape[1]}" if x.ndim > 2 else "examples are vectors"
            raise UserError(
                f"The normalisation {self.text} has {len(self.mean)} channels, but these {have}.",
                kind="other-inputs",
            )
        if self.name and len(x):
            low, high = float(x.min()), float(x.max())
            if low < 0 or high > 1:
                raise UserError(
                    f"The normalisation {self.name} expects pixels in [0, 1], but these range from "
                    f"{low:g} to {high:g}: rescale them, or give the numbers as MEAN/DEVIATION.",
                    kind="out-of-bounds",
                )
        sides = [1, len(self.mean), *[1] * (x.ndim - 2)]
        mean = np.array(self.mean, dtype=x.dtype).reshape(sides)
        deviation = np.array(self.deviation, dtype=x.dtype).reshape(sides)
        return np.asarray((x - mean) / deviation)

    @property
    def text(self) -> str:
        """The normalisation as the user writes it."""
        if self.name:
            return self.name
        return "/".join(",".join(f"{v:g}" for v in part) for part in (self.mean, self.deviation))

    @property
    def in_words(self) -> str:
        """For example 'normalised as cifar10' or 'normalised by 0.5,0.5,0.5/0.25,0.25,0.25'."""
        return f"normalised {'as' if self.name else 'by'} {self.text}"


def parse_normalisation(text: str) -> Normalisation | None:
    """Parse 'imagenet', 'cifar10', 'cifar100', 'mnist' or 'm1,m2,m3/s1,s2,s3'; None for 'none'.

    Raises `UserError`.
    """
    if text in ("", NONE):
        return None
    if text in NORMALISATIONS:
        return Normalisation(*NORMALISATIONS[text], text)
    known = [NONE, *NORMALISATIONS]
    parts = [part.split(",") for part in text.split("/")]
    try:
        numbers = [tuple(float(number) for number in part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 2:
        raise UserError(
            f"The normalisation '{text}' is neither one of {', '.join(known)} nor numbers such as "
            f"0.5,0.5,0.5/0.25,0.25,0.25.{did_you_mean(text, known)}",
            kind="unknown-name",
        )
    mean, deviation = numbers
    sound = all(abs(value) <= LARGEST for value in mean)
    sound = sound and all(1 / LARGEST <= value <= LARGEST for value in deviation)
    if len(mean) != len(deviation) or not sound:
        raise UserError(
            f"The normalisation '{text}' needs as many means as deviations, the means within "
            f"±{format_decimals(LARGEST, 0)} and the deviations from {1 / LARGEST:g} to "
            f"{format_decimals(LARGEST, 0)}.",
            kind="out-of-bounds",
        )
    return Normalisation(mean, deviation)


def normalise_examples(examples: Examples, text: str) -> Examples:
    """Normalise training and test images to (x - mean) / deviation; 'none' keeps them."""
    how = parse_normalisation(text)
    if how is None:
        return examples

    return replace(
        examples.with_variant(f"normalise {how.mean} {how.deviation}"),
        train_x=how(examples.train_x),
        test_x=how(examples.test_x),
        cuts=None,  # they were in the coordinates of before
    )
