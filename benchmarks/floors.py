"""The least seconds that hardware needs for a piece of work, by rates measured on it.

    floor = max(FLOPs / rate of their arithmetic, bytes / rate of a copy)

A multiply-add is two operations. Bytes count what must be read and written at least once: weights
with what the optimiser keeps, and inputs. What fits in the cache of a card may move faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from benchmarks.case import Amounts
from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.regimes import find_regime
from dgn_engine.training.steps.optimizer import count_moments

ITEM = 4  # bytes of a float32
Bound = Literal["arithmetic", "memory"]


def layer_flops(architecture: Architecture) -> list[float]:
    """Return the operations of each weight layer for one example, forward."""
    return [2.0 * math.prod(weight_shape(node)) * at for node, at in _weighted(architecture)]


def weight_count(architecture: Architecture) -> int:
    """Return how many weights one network has."""
    return sum(math.prod(weight_shape(node)) for node, _ in _weighted(architecture))


def input_count(architecture: Architecture, examples: int) -> int:
    """Return how many numbers so many inputs have."""
    return examples * math.prod(architecture.input_shape)


def _weighted(architecture: Architecture) -> list[tuple[Any, int]]:
    """Return each weight layer with the number of positions that it is applied at."""
    weighted = set(map(id, architecture.weight_layers))
    shapes = architecture.shapes()
    return [(node, math.prod(shape[1:])) for node, shape in shapes if id(node) in weighted]


def training_amounts(
    config: RunConfig, architecture: Architecture, examples: int, steps: int, networks: int = 1
) -> Amounts:
    """Return the work of training steps that take so many examples together.

    A forward pass costs F = Σ_l 2 |W_l| positions_l, the gradients of the weights F again, and
    those of activations F without the first layer. A frozen feature network costs its forward pass.

    Args:
        networks: how many are trained on the same examples.
    """
    regime = find_regime(config.gating.regime)
    layers = layer_flops(architecture)
    forward, trained = sum(layers), 3 * sum(layers) - layers[0]
    flops, weights = trained, weight_count(architecture)
    moved = weights * 2 * (1 + count_moments(config.training))  # read and written
    if not (regime.own_gates or regime.open_gates or regime.drawn_gates):
        # The feature network ends at the last gate.
        last = layers[-1]
        flops += trained - 3 * last if regime.trains_feature else forward - last
        moved *= 2 if regime.trains_feature else 1
        moved += 0 if regime.trains_feature else weights
    inputs = input_count(architecture, examples)
    return Amounts(networks * flops * examples, ITEM * (networks * moved * steps + inputs))


def least_seconds(amounts: Mapping[str, float], rate: float, bandwidth: float) -> float:
    """Return the floor in seconds. Rates are in operations and bytes a second."""
    return max(amounts["flops"] / rate, amounts["bytes"] / bandwidth)


def add_floors(row: dict[str, Any], rates: Mapping[str, float]) -> None:
    """Write floor, bound and ratio of each method whose work is counted into a row of JSON."""
    for method in row["methods"]:
        if (needs := method["needs"]) is not None:
            floor = least_seconds(needs, rates[method["arithmetic"]], rates["copy"])
            bound: Bound = "memory" if needs["bytes"] / rates["copy"] == floor else "arithmetic"
            ratio = method["median_seconds"] / floor
            method |= {"floor_seconds": floor, "bound": bound, "ratio_to_floor": ratio}
