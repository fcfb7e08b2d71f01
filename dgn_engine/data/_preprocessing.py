"""Images brought into the size, the channels and the scale that a network was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.contents import CheckpointContents

Normalise = Literal["none", "imagenet"]

# Of the training images in [0, 1], as torchvision's reference weights were trained.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """`size`: side of the images, 0 leaves it; `channels` that the network takes, 0 for any."""

    size: int = 0
    normalise: Normalise = "none"
    channels: int = 0

    def __call__(self, images: Tensor) -> Tensor:
        """Images (n, C, H, W) in [0, 1] → (n, C', H', W'); raises `UserError` if they do not fit.

        The shorter side becomes `size` (bilinear, with antialiasing), then the middle is cut out.
        Grey images go to all channels alike.
        """
        if images.dim() != 4:
            raise UserError("Only images can be resized or normalised; these examples are vectors.")
        if self.channels > 1 and images.shape[1] == 1:
            images = images.expand(-1, self.channels, -1, -1)
        if self.size and min(images.shape[2:]) != self.size:
            scale = self.size / min(images.shape[2:])
            sides = [max(self.size, round(side * scale)) for side in images.shape[2:]]
            images = F.interpolate(
                images, sides, mode="bilinear", align_corners=False, antialias=True
            )
        if self.size:
            top, left = ((side - self.size) // 2 for side in images.shape[2:])
            images = images[:, :, top : top + self.size, left : left + self.size]
        if self.normalise == "imagenet":
            if images.shape[1] != 3:
                raise UserError(
                    f"ImageNet's normalisation is of 3 channels; these images have "
                    f"{images.shape[1]}."
                )
            mean, deviation = (
                torch.tensor(values, dtype=images.dtype, device=images.device).reshape(3, 1, 1)
                for values in (IMAGENET_MEAN, IMAGENET_DEVIATION)
            )
            images = (images - mean) / deviation
        return images.contiguous()

    def in_words(self, shape: tuple[int, ...]) -> str:
        """What becomes of images of this shape (C, H, W), for example 'resized to 64×64, …'."""
        words = []
        if self.channels > 1 and shape[0] == 1:
            words.append(f"grey in all {self.channels} channels")
        if self.size:
            words.append(f"shorter side resized to {self.size}, the middle cut out")
        scale = "normalised as ImageNet" if self.normalise == "imagenet" else "pixels in [0, 1]"
        return ", ".join([*words, scale])


def channels_wanted(listing: CheckpointContents) -> int:
    """The input channels of the file's first convolution; 0 where there is none."""
    return next((a.shape[1] for a in listing.arrays.values() if a.ndim == 4), 0)
