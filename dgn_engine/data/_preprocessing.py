"""Convert images to the size, channels and scale that a network was trained on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import Examples, Images
from dgn_engine.data._normalisation import NONE, parse_normalisation
from dgn_engine.errors import UserError, Where
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.text.byte_counts import binary_size_in_words

AT_ONCE = 256  # images resized together
VALUES = 1 << 30  # limit for all images together; four bytes each


@dataclass(frozen=True)
class Preprocessing:
    """Settings for preparing images.

    Attributes:
        size: Side of the images; 0 keeps it.
        normalise: As for `parse_normalisation`.
        channels: Channels that the network takes; 0 for any.
    """

    size: int = 0
    normalise: str = NONE
    channels: int = 0

    def __call__(self, images: Tensor) -> Tensor:
        """Map images (n, C, H, W) in [0, 1] to (n, C', H', W'); raises `UserError` on a misfit.

        The shorter side becomes `size` (bilinear, with antialiasing), then the centre is cropped.
        Grey images are copied to all channels. Vectors (n, d) can only be normalised by one number.
        """
        how = parse_normalisation(self.normalise)
        if images.dim() != 4 and self.size:
            raise UserError(
                "Only images can be resized; these examples are vectors.", kind="not-images"
            )
        if images.dim() == 4 and self.channels > 1 and images.shape[1] == 1:
            images = images.expand(-1, self.channels, -1, -1)
        if how is not None:  # before resizing, which is linear but may leave [0, 1] by rounding
            images = torch.from_numpy(how(images.cpu().numpy())).to(images)
        if self.size and min(images.shape[2:]) != self.size:
            scale = self.size / min(images.shape[2:])
            sides = [max(self.size, round(side * scale)) for side in images.shape[2:]]
            images = F.interpolate(
                images, sides, mode="bilinear", align_corners=False, antialias=True
            )
        if self.size:
            top, left = ((side - self.size) // 2 for side in images.shape[2:])
            images = images[:, :, top : top + self.size, left : left + self.size]
        return images.contiguous()

    def in_words(self, shape: tuple[int, ...]) -> str:
        """Describe what happens to images of shape (C, H, W), for example 'resized to 64×64, …'."""
        words = []
        if self.channels > 1 and shape[0] == 1:
            words.append(f"grey copied to all {self.channels} channels")
        if self.size:
            words.append(f"shorter side resized to {self.size}, centre cropped")
        how = parse_normalisation(self.normalise)
        return ", ".join([*words, "pixels in [0, 1]" if how is None else how.in_words])


def preprocessing_of(config: DataConfig) -> Preprocessing:
    """Return the preprocessing in a configuration: channels, normalisation and size."""
    return Preprocessing(config.image_size, config.normalise, config.image_channels)


def without_preprocessing(config: DataConfig) -> DataConfig:
    """Return the configuration without any preprocessing."""
    return replace(config, image_size=0, image_channels=0, normalise=NONE)


def convert_channels(examples: Examples, channels: int) -> Examples:
    """Copy grey images to this many channels; 0 and matching channels keep them.

    Raises:
        UserError: They are vectors, or have another number of channels than one.
    """
    shape = examples.train_x.shape[1:]
    if not channels or (len(shape) == 3 and shape[0] == channels):
        return examples
    if len(shape) != 3 or shape[0] != 1:
        have = f"have {shape[0]}" if len(shape) == 3 else "are vectors"
        raise UserError(
            Where("data.image_channels")
            + f" is {channels}, but only grey images can be given more channels; these {have}.",
            value=channels,
            kind="other-inputs",
        )

    def repeat_channels(images: Images) -> Images:
        return np.repeat(images, channels, axis=1)

    return _map_images(
        examples, f"grey in {channels} channels", repeat_channels, (channels, *shape[1:])
    )


def resize_examples(
    examples: Examples, size: int, *, at_once: int = AT_ONCE, most: int = VALUES
) -> Examples:
    """Resize the shorter side to `size` pixels and crop the centre; 0 keeps the images.

    Args:
        at_once: Images resized together.
        most: Limit for the values of all images.

    Raises:
        UserError: They are vectors, or would not fit in memory together.
    """
    shape = examples.train_x.shape[1:]
    if not size or shape[1:] == (size, size):
        return examples
    if len(shape) != 3:
        raise UserError(
            "Only images can be resized; these examples are vectors.", kind="not-images"
        )
    prepare = Preprocessing(size)

    def resize_images(images: Images) -> Images:
        resized_images = np.empty((len(images), shape[0], size, size), np.float32)
        for start in range(0, len(images), at_once):
            part = slice(start, start + at_once)
            resized_images[part] = prepare(
                torch.from_numpy(np.ascontiguousarray(images[part]))
            ).numpy()
        return resized_images

    return _map_images(examples, f"resized to {size}", resize_images, (shape[0], size, size), most)


def _map_images(
    examples: Examples,
    how: str,
    change: Callable[[Images], Images],
    shape: tuple[int, ...],
    most: int = VALUES,
) -> Examples:
    count = len(examples.train_y) + len(examples.test_y)
    if count * math.prod(shape) > most:
        raise UserError(
            f"{count:,} images of {'×'.join(str(side) for side in shape)} need "
            f"{binary_size_in_words(4 * count * math.prod(shape))} of memory; use fewer of them "
            "(data.train_limit, data.test_limit) or a smaller data.image_size.",
            kind="too-large",
        )
    return replace(
        examples.with_variant(how), train_x=change(examples.train_x), test_x=change(examples.test_x)
    )


def channels_wanted(listing: CheckpointContents) -> int:
    """Return the input channels of the file's first convolution; 0 if it has none."""
    return next((a.shape[1] for a in listing.arrays.values() if a.ndim == 4), 0)
