"""How gate layers reach value layers: permutation, rotation, spatial shift and tiling (THEORY §1).

The papers name rotation and tiling without defining them; these are our definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import UserError, Where
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import Regime


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
                Where(f"gating.{name}")
                + f" is {list(given)}; it needs one number for each of the {layers} gate layers.",
                kind="wrong-length",
                value=list(given),
            )
    none = (0,) * layers
    rows = zip(rotation or none, shift or none, tiling or (1,) * layers, strict=True)
    return tuple(Route(turn, (step, step), copies) for turn, step, copies in rows)


def need_wires(regime: Regime, what: str) -> None:
    """Raise `UserError` where the network makes its own gates."""
    if regime.own_gates:
        raise UserError(
            f"In {regime.name} the network uses its own gates: there is nothing to {what}; "
            "choose FR-II, FR-DI, FL or DL first.",
            kind="own-gates",
        )


def check_wiring(
    architecture: Architecture, order: tuple[int, ...], name: str = "The order"
) -> None:
    """Raise `UserError` unless `order` is a permutation that respects the shapes of the layers.

    `name`: what the refusal calls it.
    """
    shapes = architecture.gated_shapes
    if sorted(order) != list(range(len(shapes))):
        raise UserError(
            Where(name)
            + f" {list(order)} does not name each of the {len(shapes)} gate layers once.",
            kind="wrong-length",
        )
    for layer, source in enumerate(order):
        if shapes[source] != shapes[layer]:
            raise UserError(
                f"Gate layer {source + 1} ({_words(shapes[source])}) does not fit "
                f"value layer {layer + 1} ({_words(shapes[layer])}).",
                kind="other-inputs",
            )


def check_shifts(architecture: Architecture, routes: Sequence[Route]) -> None:
    """Raise `UserError` where a layer that is no map would be shifted in space."""
    shapes = architecture.gated_shapes
    for layer, (route, shape) in enumerate(zip(routes, shapes, strict=True)):
        if route.shift != (0, 0) and len(shape) == 1:
            raise UserError(
                f"Gate layer {layer + 1} ({_words(shape)}) is no map: its shift must be 0.",
                kind="other-inputs",
            )


def _words(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} units"
    return f"{shape[0]} channels of {shape[1]}×{shape[2]}"
