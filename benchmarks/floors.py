"""Lower bounds on the time a device needs for a piece of work, from its measured rates.

    floor = max(FLOPs / rate of their arithmetic, counted words / rate of counting their bits,
                bytes / rate of a copy)

A multiply-add counts as two operations, an addition as one. Only products, and the sums and
products between positions of path kernels, are counted; of a symmetric result the upper half,
diagonal included. Bytes count what must be read and written at least once: weights, optimiser
state, inputs and results. Data that fits in the cache of the device may move faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from benchmarks.case import Amounts, Arithmetic
from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    GlobalAveragePool,
    weight_shape,
)
from dgn_engine.regimes import find_regime
from dgn_engine.training.steps.optimizer import count_moments

ITEM = 4  # bytes of a float32
WORD = 64  # gates in a word whose bits are counted
Bound = Literal["arithmetic", "popcount", "memory"]


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
    written = 2 * (1 + count_moments(config.training))  # weights and moments, after being read
    moved = written * weights
    if not (regime.own_gates or regime.open_gates or regime.drawn_gates):
        # The feature network ends at the last gate.
        last = layers[-1]
        flops += trained - 3 * last if regime.trains_feature else forward - last
        weights -= math.prod(weight_shape(architecture.weight_layers[-1]))
        moved += (written if regime.trains_feature else 1) * weights
    inputs = count_inputs(architecture, examples)
    return Amounts(networks * flops * examples, ITEM * (networks * moved * steps + inputs))


def count_tangent_work(
    architecture: Architecture, n: int, full: bool = False, feature: bool = False
) -> Amounts:
    """Return the least work of tangent kernels of n examples, by one backward pass per logit.

    The weight layers are l = 1 … L, F_l = 2 |W_l| positions_l, and there are C logits. A symmetric
    Gram matrix of m vectors of length k costs m (m + 1) k. One network needs

        n Σ_{l<L} F_l        its forward pass: only the logits are not needed
        C n Σ_{1<l<L} F_l    deltas; those below the logits are rows of W_L
        C n F_l              gradients of each convolution, and their Gram matrix, k = |W_l|
        k = a and k = b      (ZZᵀ) ⊙ (ΔΔᵀ) of each dense layer a → b; of the last one only ZZᵀ

    with m = n for ZZᵀ. The C gradients or deltas of each example are one vector of length C k for
    the mean over logits, and C vectors with `full`.

    Args:
        architecture: A chain of dense layers and convolutions.
        n: Number of examples.
        full: Whether the result has all pairs of logits, instead of their mean.
        feature: K^V and K^F of a network with soft gates, instead of K^V alone; the feature network
            has no last layer.
    """
    layers, classes = architecture.weight_layers, architecture.classes
    each = count_layer_flops(architecture)
    gram = n * (n + 1)
    gram_of_logits = classes * n * (classes * n + 1) if full else classes * gram
    network = n * sum(each[:-1]) + classes * n * sum(each[1:-1])
    for layer, flops in zip(layers[:-1], each[:-1], strict=True):
        if isinstance(layer, Conv):
            network += classes * n * flops + gram_of_logits * math.prod(weight_shape(layer))
        else:
            network += gram * layer.inputs + gram_of_logits * layer.outputs
    flops = (1 + feature) * network + gram * layers[-1].inputs
    weights = count_weights(architecture)
    if feature:
        weights += weights - math.prod(weight_shape(layers[-1]))
    results = (1 + feature) * n * n * (classes**2 if full else 1)
    return Amounts(flops, ITEM * (weights + count_inputs(architecture, n) + results))


def count_path_work(architecture: Architecture, n: int, bits: bool) -> Amounts:
    """Return the least work of the neural path kernel of n examples.

    Each of the n (n + 1)/2 pairs of examples needs, for P positions and layers of width w,

        2 w P²         ⟨x, x'⟩ of the inputs, and τ of each gate layer; with `bits` a layer's τ is
                       P² ⌈w / 64⌉ words instead: and, count, add
        2 (k - 1) P²   the sums over a window of k², first over rows, then over columns
        P²             the products with τ, the sum over all pairs of positions at the end

    and of a dense network, where P = 1 and no window is summed, the same.

    Args:
        architecture: A chain of dense layers, or of convolutions that keep the side, with global
            average pooling.
        n: Number of examples.
        bits: Whether gates are hard and a layer's are packed into bits.
    """
    pairs = n * (n + 1) / 2
    positions = math.prod(architecture.input_shape[1:])
    flops, words = 2.0 * architecture.input_shape[0] * positions**2, 0.0
    gates = 0
    for node, shape in architecture.shapes():
        if isinstance(node, GlobalAveragePool):
            flops += positions**2
            positions = 1
            continue
        assert isinstance(node, (Conv, Dense)), node
        assert math.prod(shape[1:]) == positions, node
        if isinstance(node, Conv):
            flops += 2 * (node.kernel - 1) * positions**2
        if not node.gated:
            continue
        flops += positions**2 + (0.0 if bits else 2.0 * node.outputs * positions**2)
        words += math.ceil(node.outputs / WORD) * positions**2 if bits else 0.0
        gates += math.prod(shape)
    numbers = n * gates + count_inputs(architecture, n)
    return Amounts(pairs * flops, ITEM * (numbers + 2 * n * n), pairs * words)


def compute_floor(
    amounts: Amounts, arithmetic: Arithmetic, rates: Mapping[str, float]
) -> tuple[float, Bound]:
    """Return the floor in seconds and what bounds it.

    Args:
        arithmetic: Number format of the operations; a CPU, where a dry run is, has no TF32.
        rates: Of the device, as `measure_rates` returns them.
    """
    known = arithmetic if arithmetic in rates else "float32"
    bounds: dict[Bound, float] = {
        "arithmetic": amounts.flops / rates[known],
        "memory": amounts.bytes / rates["copy"],
        "popcount": amounts.words / rates["popcount"] if amounts.words else 0.0,
    }
    bound = max(bounds, key=lambda name: bounds[name])
    return bounds[bound], bound


def add_floors(row: dict[str, Any], rates: Mapping[str, float]) -> None:
    """Add to each method of a JSON row whose work is known: the floor, what bounds it, and the
    share of the floor in the median ('reached'). No card's rate of counting bits is known."""
    for method in row["methods"]:
        needs = method["needs"]
        if needs is not None and ("popcount" in rates or not needs["words"]):
            floor, bound = compute_floor(Amounts(**needs), method["arithmetic"], rates)
            reached = floor / method["median_seconds"]
            method |= {"floor_seconds": floor, "bound": bound, "reached": reached}
