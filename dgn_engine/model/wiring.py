"""Wiring of gate layers to value layers: permutation, rotation, shift and tiling (theory §1).

The papers mention rotation and tiling without defining them; these are our definitions. The path
kernel of a dense network depends on none of them, but for the factor of tiling; that of a
convolutional network changes with the permutation and the shift.
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
    """The route of gates from a feature layer to a value layer, the same for every example.

    Attributes:
        rotate: Cyclic shift along the unit (channel) axis.
        shift: Cyclic shift along height and width of a map.
        tile: Number of repetitions k of the w units, `(n, k·w, ...)`.
    """

    rotate: int = 0
    shift: tuple[int, int] = (0, 0)
    tile: int = 1

    def __call__(self, q: Tensor) -> Tensor:
        """Route pre-activations, gates or anything of their shape.

        Args:
            q: Tensor of the feature layer, `(n, w, ...)`.

        Returns:
            Tensor for the value layer, `(n, tile·w, ...)`.
        """
        if self.rotate:
            q = torch.roll(q, self.rotate, dims=1)
        if self.shift != (0, 0):
            q = torch.roll(q, self.shift, dims=(2, 3))
        if self.tile > 1:
            q = q.repeat(1, self.tile, *([1] * (q.dim() - 2)))
        return q

    def route_mask(self, mask: Tensor) -> Tensor:
        """Route the mask of a max pooling: its units move, but the positions in it do not.

        Args:
            mask: Arg-max positions, `(n, w, H, W)`.

        Returns:
            The routed mask, `(n, tile·w, H, W)`.
        """
        return Route(self.rotate, tile=self.tile)(mask)

    def transpose(self, delta: Tensor, axis: int = 1) -> Tensor:
        """Apply the transpose of the route, which sends gradients back.

        Args:
            delta: Gradients at the value layer.
            axis: Axis of the units.

        Returns:
            Gradients at the feature layer.
        """
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


def rotations_and_shifts(
    layer_routes: tuple[Route, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Collect the rotation and shift of all routes.

    Args:
        layer_routes: One route per value layer.

    Returns:
        Rotations and shifts; an empty tuple if all are zero.
    """
    rotation = tuple(route.rotate for route in layer_routes)
    shift = tuple(route.shift[0] for route in layer_routes)
    return rotation if any(rotation) else (), shift if any(shift) else ()


def make_routes(
    layers: int, rotation: tuple[int, ...], shift: tuple[int, ...], tiling: tuple[int, ...]
) -> tuple[Route, ...]:
    """Create one route per value layer.

    Args:
        layers: Number of value layers.
        rotation: Rotation of each layer, or empty for none.
        shift: Shift along height and width of each layer, or empty for none.
        tiling: Repetitions of each layer, or empty for one.

    Returns:
        The routes.

    Raises:
        UserError: A list has another length.
    """
    for name, given in (("rotation", rotation), ("shift", shift), ("tiling", tiling)):
        if given and len(given) != layers:
            raise UserError(
                Where(f"gating.{name}")
                + f" is {list(given)}; expected one number for each of the {layers} gate layers.",
                kind="wrong-length",
                value=list(given),
            )
    zeros = (0,) * layers
    rows = zip(rotation or zeros, shift or zeros, tiling or (1,) * layers, strict=True)
    return tuple(
        Route(rotation_of_layer, (step, step), copies) for rotation_of_layer, step, copies in rows
    )


def require_feature_gates(regime: Regime, action: str) -> None:
    """Check that a regime has gates that can be rewired.

    Args:
        regime: The regime.
        action: What the user wants to do, as a verb, for the message.

    Raises:
        UserError: The network makes its own gates.
    """
    if regime.own_gates:
        raise UserError(
            f"In {regime.name} the network uses its own gates, so there is nothing to {action}; "
            "switch to FR-II, FR-DI, FL or DL first.",
            kind="own-gates",
        )


def check_wiring(
    architecture: Architecture, order: tuple[int, ...], name: str = "The order"
) -> None:
    """Check a permutation of the gate layers.

    Args:
        architecture: The network.
        order: Feature layer of each value layer.
        name: Name of `order` in messages.

    Raises:
        UserError: It is not a permutation, or connects layers of different shape.
    """
    shapes = architecture.gated_shapes
    if sorted(order) != list(range(len(shapes))):
        raise UserError(
            Where(name)
            + f" {list(order)} must list each of the {len(shapes)} gate layers exactly once.",
            kind="wrong-length",
        )
    for layer, source in enumerate(order):
        if shapes[source] != shapes[layer]:
            raise UserError(
                f"Gate layer {source + 1} ({_describe_shape(shapes[source])}) does not fit "
                f"value layer {layer + 1} ({_describe_shape(shapes[layer])}).",
                kind="other-inputs",
            )


def check_shifts(architecture: Architecture, routes: Sequence[Route]) -> None:
    """Check that only maps are shifted in space.

    Args:
        architecture: The network.
        routes: One route per value layer.

    Raises:
        UserError: A layer that is not a map has a shift.
    """
    shapes = architecture.gated_shapes
    for layer, (route, shape) in enumerate(zip(routes, shapes, strict=True)):
        if route.shift != (0, 0) and len(shape) == 1:
            raise UserError(
                f"Gate layer {layer + 1} ({_describe_shape(shape)}) is not a map, so its "
                "shift must be 0.",
                kind="other-inputs",
            )


def _describe_shape(shape: tuple[int, ...]) -> str:
    """Describe the shape of a gate layer."""
    if len(shape) == 1:
        return f"{shape[0]} units"
    return f"{shape[0]} channels of {shape[1]}×{shape[2]}"
