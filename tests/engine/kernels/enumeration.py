"""The slow, obvious twin: every bundle of paths, walked one by one through the real network.

A bundle is one weight per layer that chains from input to logit 0; with these weights one and all
others zero, the network computes its feature φ_x(bundle), pooled positions included.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Skip,
    is_gated,
    weight_shape,
)
from dgn_engine.model.stack import run_chain


def bundles(architecture: Architecture) -> list[tuple[tuple[int, ...], ...]]:
    """The index of the one weight in each layer, for every bundle that ends in logit 0."""
    chains: list[tuple[tuple[int, ...], ...]] = [()]
    spread = 0  # positions behind one channel when a map was just flattened; 0: not flattened
    shape = architecture.input_shape
    for node, after in architecture.shapes():
        if isinstance(node, Flatten) and len(shape) == 3:
            spread = shape[1] * shape[2]
        if isinstance(node, (Conv, Dense)):
            outputs = range(1) if node is architecture.nodes[-1] else range(node.outputs)
            window = [range(node.kernel)] * 2 if isinstance(node, Conv) else []
            longer = []
            for chain in chains:
                inputs = range(node.inputs)
                if chain:
                    unit = chain[-1][0]
                    inputs = range(unit * spread, (unit + 1) * spread) if spread else [unit]
                longer += [(*chain, index) for index in product(outputs, inputs, *window)]
            chains, spread = longer, 0
        shape = after
    return chains


def without_skips(
    architecture: Architecture,
) -> Iterator[tuple[Architecture, list[int], list[int], float]]:
    """Every choice of block or skip as a plain chain: its gate layers, its max poolings, and the
    product of pre and post."""
    blocks = sum(isinstance(node, Merge) for node in architecture.nodes)
    for keep in product((False, True), repeat=blocks):
        nodes, gates, masks, scale, block = [], [], [], 1.0, -1
        gate = mask = 0
        used = True
        for node in architecture.nodes:
            match node:
                case Fork():
                    block += 1
                    used = keep[block]
                case Skip():
                    used = not keep[block]
                case Merge():
                    scale *= node.post * (node.pre if keep[block] else 1.0)
                    used = True
                case _:
                    nodes += [node] if used else []
            gates += [gate] if used and is_gated(node) else []
            gate += is_gated(node)
            pools = isinstance(node, (MaxPool, GlobalMaxPool))
            masks += [mask] if used and pools else []
            mask += pools
        yield Architecture(architecture.input_shape, tuple(nodes)), gates, masks, scale


def features(
    architecture: Architecture,
    gates: list[Tensor],
    x: Tensor,
    masks: list[Tensor] | None = None,
) -> Tensor:
    """φ (n, bundles of all sub-networks) for x (n, *input_shape); pooling sums."""
    parts = []
    for chain, places, pooled, scale in without_skips(architecture):
        own = None if masks is None else [masks[place] for place in pooled]
        parts.append(scale * chain_features(chain, [gates[p] for p in places], x, own))
    return torch.cat(parts, dim=1)


def chain_features(
    architecture: Architecture,
    gates: list[Tensor],
    x: Tensor,
    masks: list[Tensor] | None = None,
) -> Tensor:
    """φ (n, bundles) for x (n, *input_shape); pooling sums, it does not average."""
    chains = bundles(architecture)
    weights = []
    for place, layer in enumerate(architecture.weight_layers):
        stack = torch.zeros((len(chains), *weight_shape(layer)), dtype=x.dtype)
        for number, chain in enumerate(chains):
            stack[(number, *chain[place])] = 1.0
        weights.append(stack)
    nothing: list[Tensor | None] = [None] * len(weights)

    def walk(chosen: list[Tensor]) -> Tensor:
        trace = run_chain(architecture, chosen, nothing, x, lambda place, _: gates[place], masks)
        return trace.output[:, 0]

    return torch.func.vmap(walk)(weights).T * architecture.pooled_paths
