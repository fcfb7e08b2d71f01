"""Which gate layer may serve which value layer, and how it may be turned."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.routing import Route
from dgn_engine.regimes import Regime


def need_wires(regime: Regime, what: str) -> None:
    """Raise `UserError` where the network makes its own gates."""
    if regime.own_gates:
        raise UserError(
            f"In {regime.name} the network uses its own gates: there is nothing to {what}; "
            "choose FR-II, FR-DI, FL or DL first."
        )


def check_wiring(architecture: Architecture, order: tuple[int, ...]) -> None:
    """Raise `UserError` unless `order` is a permutation that respects the shapes of the layers."""
    shapes = architecture.gated_shapes
    if sorted(order) != list(range(len(shapes))):
        raise UserError(
            f"The order {list(order)} does not name each of the {len(shapes)} gate layers once."
        )
    for layer, source in enumerate(order):
        if shapes[source] != shapes[layer]:
            raise UserError(
                f"Gate layer {source + 1} ({_words(shapes[source])}) does not fit "
                f"value layer {layer + 1} ({_words(shapes[layer])})."
            )


def check_shifts(architecture: Architecture, routes: Sequence[Route]) -> None:
    """Raise `UserError` where a layer that is no map would be shifted in space."""
    shapes = architecture.gated_shapes
    for layer, (route, shape) in enumerate(zip(routes, shapes, strict=True)):
        if route.shift != (0, 0) and len(shape) == 1:
            raise UserError(
                f"Gate layer {layer + 1} ({_words(shape)}) is no map: its shift must be 0."
            )


def _words(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} units"
    return f"{shape[0]} channels of {shape[1]}×{shape[2]}"
