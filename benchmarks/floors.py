"""Lower bounds on the time a device needs for a piece of work, from its measured rates.

    floor = max(FLOPs / rate of their arithmetic, bytes / rate of a copy)

A multiply-add counts as two operations. Bytes count what must be read and written at least once:
weights, optimiser state and inputs. Data that fits in the cache of the device may move faster.
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


def count_layer_flops(architecture: Architecture) -> list[float]:
    """Return the FLOPs of the forward pass of one example, per weight layer."""
    return [
        2.0 * math.prod(weight_shape(node)) * at for node, at in _list_weight_layers(architecture)
    ]


def count_weights(architecture: Architecture) -> int:
    """Return the number of weights of one network."""
    return sum(math.prod(weight_shape(node)) for node, _ in _list_weight_layers(architecture))


def count_inputs(architecture: Architecture, examples: int) -> int:
    """Return the number of values in so many inputs."""
    return examples * math.prod(architecture.input_shape)


def _list_weight_layers(architecture: Architecture) -> list[tuple[Any, int]]:
    """Return each weight layer with the number of positions it is applied to."""
    weighted = set(map(id, architecture.weight_layers))
    shapes = architecture.shapes()
    return [(node, math.prod(shape[1:])) for node, shape in shapes if id(node) in weighted]


def count_training_work(
    config: RunConfig, architecture: Architecture, examples: int, steps: int, networks: int = 1
) -> Amounts:
    """Return the least work of training steps.

    A forward pass costs F = Σ_l 2 |W_l| positions_l, the gradients of the weights cost F again, and
    those of the activations F without the first layer. A frozen feature network costs only its
    forward pass.

    Args:
        examples: total number over all steps.
        networks: number of networks trained on the same examples.
    """
    regime = find_regime(config.gating.regime)
    layers = count_layer_flops(architecture)
    forward, trained = sum(layers), 3 * sum(layers) - layers[0]
    flops, weights = trained, count_weights(architecture)
    moved = weights * 2 * (1 + count_moments(config.training))  # read and written
    if not (regime.own_gates or regime.open_gates or regime.drawn_gates):
        # The feature network ends at the last gate.
        last = layers[-1]
        flops += trained - 3 * last if regime.trains_feature else forward - last
        moved *= 2 if regime.trains_feature else 1
        moved += 0 if regime.trains_feature else weights
    inputs = count_inputs(architecture, examples)
    return Amounts(networks * flops * examples, ITEM * (networks * moved * steps + inputs))


def compute_least_seconds(amounts: Mapping[str, float], rate: float, bandwidth: float) -> float:
    """Return the floor in seconds, for rates in FLOP/s and bytes/s."""
    return max(amounts["flops"] / rate, amounts["bytes"] / bandwidth)


def add_floors(row: dict[str, Any], rates: Mapping[str, float]) -> None:
    """Add floor, bound and ratio to each method of a JSON row whose work is known."""
    for method in row["methods"]:
        if (needs := method["needs"]) is not None:
            floor = compute_least_seconds(needs, rates[method["arithmetic"]], rates["copy"])
            bound: Bound = "memory" if needs["bytes"] / rates["copy"] == floor else "arithmetic"
            ratio = method["median_seconds"] / floor
            method |= {"floor_seconds": floor, "bound": bound, "ratio_to_floor": ratio}
