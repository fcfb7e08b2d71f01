"""Augment training images differently in each epoch, as for DavidNet: crop, flip, cutout."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import UserError, Where
from dgn_engine.random_streams import random_stream, send_to_device

PAD, HOLE = 8, 4  # a side of 32 is padded by 32 // 8 = 4 and loses a square of 32 // 4 = 8
_PLACE = Where("training.augmentation")
LEAST = 8  # smallest side in pixels that can be padded and cut out


@dataclass(frozen=True)
class AugmentedViews:
    """The augmentation of each of n images in one epoch; every field is (n,).

    Attributes:
        top, left: Start of the crop in the padded image.
        mirrored: Whether left and right are exchanged.
        hole_top, hole_left: Corner of the square cut out of the result.
    """

    top: Tensor
    left: Tensor
    mirrored: Tensor
    hole_top: Tensor
    hole_left: Tensor


class Augmentation:
    """The transforms of D. Page (github.com/davidcpage/cifar10-fast) on images (n, C, H, W).

    Images are padded by reflection with an eighth of the side, cropped back to their size, mirrored
    with probability ½, and a square of a quarter of the side is filled with `fill` (C,), the mean
    pixel: the zero of his normalised images. For 32×32 pixels: pad 4, cutout 8×8. The random
    choices depend on (seed, epoch) alone.

    Raises:
        UserError: The inputs are not suitable images.
    """

    def __init__(self, images: Tensor, seed: int) -> None:
        if images.dim() != 4:
            raise UserError(
                _PLACE + " shifts and mirrors images, but this network takes vectors; choose a "
                "convolutional network or augmentation 'none'.",
                kind="not-images",
            )
        self.height, self.width = (int(side) for side in images.shape[2:])
        side = min(self.height, self.width)
        if side < LEAST:
            raise UserError(
                _PLACE + f" needs images of at least {LEAST}×{LEAST} pixels; these have "
                f"{self.height}×{self.width}.",
                kind="too-small",
            )
        self.pad, self.hole = side // PAD, side // HOLE
        self.fill = images.mean(dim=(0, 2, 3), dtype=torch.float64).to(images.dtype)
        self._seed, self._examples = seed, len(images)
        self._epoch = -1
        self._begun: AugmentedViews | None = None

    def set_seed(self, seed: int) -> None:
        """Use another seed from the next step on."""
        self._seed, self._epoch = seed, -1

    def begin_epoch(self, epoch: int) -> AugmentedViews:
        """Return the views of this epoch, in reused tensors: a captured step reads them."""
        if self._begun is None:
            self._begun = self.draw_views(epoch)
        elif self._epoch != epoch:
            drawn = self.draw_views(epoch)
            for field in fields(AugmentedViews):
                getattr(self._begun, field.name).copy_(getattr(drawn, field.name))
        self._epoch = epoch
        return self._begun

    def augment_images(self, images: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """Return the training examples `rows` (m,), with images (m, C, H, W), as augmented then."""
        views = self.begin_epoch(epoch)
        down = torch.arange(self.height, device=images.device)
        across = torch.arange(self.width, device=images.device)
        flipped = torch.where(views.mirrored[rows][:, None], across.flip(0), across)  # (m, W)
        padded = F.pad(images, (self.pad,) * 4, mode="reflect")
        cropped = padded[
            torch.arange(len(rows), device=images.device)[:, None, None, None],
            torch.arange(images.shape[1], device=images.device)[None, :, None, None],
            (views.top[rows][:, None] + down)[:, None, :, None],
            (views.left[rows][:, None] + flipped)[:, None, None, :],
        ]
        in_rows = self._is_in_hole(views.hole_top[rows], down)
        in_columns = self._is_in_hole(views.hole_left[rows], across)
        hole = (in_rows[:, :, None] & in_columns[:, None, :])[:, None]
        return torch.where(hole, self.fill[None, :, None, None], cropped)

    def _is_in_hole(self, begin: Tensor, places: Tensor) -> Tensor:
        """Return (m, positions): whether the hole that begins there covers the position."""
        offset = places - begin[:, None]
        return (offset >= 0) & (offset < self.hole)

    def draw_views(self, epoch: int) -> AugmentedViews:
        """Draw the augmentation of every training example in this epoch."""
        generator = random_stream("augmentation", self._seed, epoch)

        def draw_integers(choices: int) -> Tensor:
            whole = torch.randint(choices, (self._examples,), generator=generator)
            return send_to_device(whole, self.fill.device)

        shifts = 2 * self.pad + 1
        return AugmentedViews(
            top=draw_integers(shifts),
            left=draw_integers(shifts),
            mirrored=draw_integers(2).bool(),
            hole_top=draw_integers(self.height - self.hole + 1),
            hole_left=draw_integers(self.width - self.hole + 1),
        )
