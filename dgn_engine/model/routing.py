"""How a gate layer reaches a value layer: rotation, spatial shift and tiling (THEORY §1).

The papers name rotation and tiling without defining them; these are our definitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import UserError


@dataclass(frozen=True)
class Route:
    """From the feature layer's pre-activation (n, w, ...) to the one a value layer's gate uses.

    `rotate`: cyclic shift along the unit (channel) axis; `shift`: along height and width of a
    map; both the same for every example. `tile` k: the w units are seen k times, (n, k·w, ...).
    """

    rotate: int = 0
    shift: tuple[int, int] = (0, 0)
    tile: int = 1

    def __call__(self, q: Tensor) -> Tensor:
        """Send pre-activations (or anything of their shape) along."""
        if self.rotate:
            q = torch.roll(q, self.rotate, dims=1)
        if self.shift != (0, 0):
            q = torch.roll(q, self.shift, dims=(2, 3))
        if self.tile > 1:
            q = q.repeat(1, self.tile, *([1] * (q.dim() - 2)))
        return q

    def units(self, mask: Tensor) -> Tensor:
        """The mask of a max pooling (n, w, H, W): its units move, the positions it names do not."""
        return Route(self.rotate, tile=self.tile)(mask)

    def transpose(self, delta: Tensor, axis: int = 1) -> Tensor:
        """Send gradients back: the transpose of the call; units lie along `axis`."""
        if self.tile > 1:
            shape = delta.shape
            copies = (*shape[:axis], self.tile, shape[axis] // self.tile, *shape[axis + 1 :])
            delta = delta.reshape(copies).sum(dim=axis)
        if self.shift != (0, 0):
            back = (-self.shift[0], -self.shift[1])
            delta = torch.roll(delta, back, dims=(axis + 1, axis + 2))
        if self.rotate:
            delta = torch.roll(delta, -self.rotate, dims=axis)
        return delta


STRAIGHT = Route()


def turned(found: tuple[Route, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rotation and shift of each route; an empty list where none is turned so."""
    rotation = tuple(route.rotate for route in found)
    shift = tuple(route.shift[0] for route in found)
    return rotation if any(rotation) else (), shift if any(shift) else ()


def routes(
    layers: int, rotation: tuple[int, ...], shift: tuple[int, ...], tiling: tuple[int, ...]
) -> tuple[Route, ...]:
    """One route for each value layer; an empty list leaves all of them as they are.

    Raises `UserError` where a list has another length.
    """
    for name, given in (("rotation", rotation), ("shift", shift), ("tiling", tiling)):
        if given and len(given) != layers:
            raise UserError(
                f"gating.{name} is {list(given)}; it needs one number for each of the "
                f"{layers} gate layers."
            )
    none = (0,) * layers
    rows = zip(rotation or none, shift or none, tiling or (1,) * layers, strict=True)
    return tuple(Route(turn, (step, step), copies) for turn, step, copies in rows)
