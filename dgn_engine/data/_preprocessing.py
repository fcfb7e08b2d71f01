"""Images brought into the size, the channels and the scale that a network was trained on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.data._normalisation import NONE, normalisation
from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.contents import CheckpointContents


@dataclass(frozen=True)
class Preprocessing:
    """`size`: side of the images, 0 leaves it; `normalise`: as `normalisation` reads it;
    `channels` that the network takes, 0 for any."""

    size: int = 0
    normalise: str = NONE
    channels: int = 0

    def __call__(self, images: Tensor) -> Tensor:
        """Images (n, C, H, W) in [0, 1] → (n, C', H', W'); raises `UserError` if they do not fit.

        The shorter side becomes `size` (bilinear, with antialiasing), then the middle is cut out.
        Grey images go to all channels alike. Vectors (n, d) can only be normalised by one number.
        """
        how = normalisation(self.normalise)
        if images.dim() != 4 and self.size:
            raise UserError("Only images can be resized; these examples are vectors.")
        if images.dim() == 4 and self.channels > 1 and images.shape[1] == 1:
            images = images.expand(-1, self.channels, -1, -1)
        if how is not None:  # before resizing, which is linear but may leave [0, 1] by a rounding
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
        """What becomes of images of this shape (C, H, W), for example 'resized to 64×64, …'."""
        words = []
        if self.channels > 1 and shape[0] == 1:
            words.append(f"grey in all {self.channels} channels")
        if self.size:
            words.append(f"shorter side resized to {self.size}, the middle cut out")
        how = normalisation(self.normalise)
        return ", ".join([*words, "pixels in [0, 1]" if how is None else how.in_words])


def channels_wanted(listing: CheckpointContents) -> int:
    """The input channels of the file's first convolution; 0 where there is none."""
    return next((a.shape[1] for a in listing.arrays.values() if a.ndim == 4), 0)
