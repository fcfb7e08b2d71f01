"""Residual networks taken apart: single sub-networks H^J of the path kernel and their shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_architecture, check_tensor
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import neural_path_kernel
from dgn_engine.model import architecture as arch

MOST_BLOCKS = 12  # 2ᵇ sub-networks are listed one by one


@dataclass(frozen=True)
class SubNetwork:
    """The chain that is left when the skips of the blocks J are removed, with their projections,
    and the other blocks dropped: `gates`, `weights` and `masks` are the places of its gate layers,
    weight layers and max poolings in the whole network, `factor` is
    Γ(J)² = Π_{j∈J} pre_j² · Π_all post_j² ([COMP] Lemma 4.2 is all factors one)."""

    architecture: arch.Architecture
    gates: tuple[int, ...]
    weights: tuple[int, ...]
    masks: tuple[int, ...]
    factor: float


def residual_blocks(architecture: arch.Architecture) -> int:
    """b, the number of residual blocks; refused where they are nested."""
    check_architecture(architecture)
    depth = count = 0
    for node in architecture.nodes:
        depth += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
        count += isinstance(node, arch.Merge)
        if depth > 1:
            raise ArgumentError(
                "Sub-networks are defined for residual blocks that are not nested.",
                kind="not-supported",
            )
    return count


def sub_network(architecture: arch.Architecture, kept: Collection[int]) -> SubNetwork:
    """The sub-network J = `kept`, block numbers from 0."""
    blocks = residual_blocks(architecture)
    if not isinstance(kept, Collection) or not all(type(block) is int for block in kept):
        raise ArgumentError(
            f"kept is of type {type(kept).__name__}; the numbers of blocks are needed, "
            "like (0, 2).",
            kind="wrong-type",
        )
    if not set(kept) <= set(range(blocks)):
        raise ArgumentError(
            f"Blocks {sorted(kept)} (kept) do not exist; the network has {blocks}.",
            kind="out-of-bounds",
        )
    nodes: list[arch.Node] = []
    places: dict[str, list[int]] = {"gates": [], "weights": [], "masks": []}
    seen = dict.fromkeys(places, 0)
    factor, block, present = 1.0, -1, True
    for node in architecture.nodes:
        if isinstance(node, arch.Fork):
            block += 1
            present = block in kept
        elif isinstance(node, arch.Skip):
            present = block not in kept
        elif isinstance(node, arch.Merge):
            factor *= node.post**2 * (node.pre**2 if block in kept else 1.0)
            present = True
        elif present:
            nodes.append(node)
        pooled = isinstance(node, (arch.MaxPool, arch.GlobalMaxPool))
        parts = {"gates": arch.is_gated(node), "weights": arch.is_weighted(node), "masks": pooled}
        for what, there in parts.items():
            if there and present:
                places[what].append(seen[what])
            seen[what] += there
    if not places["gates"]:
        raise ArgumentError(
            "A sub-network without any gate layer has no path kernel of its own.",
            kind="not-supported",
        )
    return SubNetwork(
        arch.Architecture(architecture.input_shape, tuple(nodes)),
        gates=tuple(places["gates"]),
        weights=tuple(places["weights"]),
        masks=tuple(places["masks"]),
        factor=factor,
    )


def sub_network_kernel(
    architecture: arch.Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    kept: Collection[int],
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """H^J (n, n), float64, its factor Γ(J)² included; H is the sum over all 2ᵇ choices of J.
    Against `other` the block (n, m)."""
    check_architecture(architecture)
    check_tensor("x_value", x_value)
    check_path_inputs(architecture, PathInputs(gates, x_value, masks), other)
    part = sub_network(architecture, kept)
    own = [gates[place] for place in part.gates]
    pooled = [masks[place] for place in part.masks]
    if other is not None:
        other = PathInputs(
            [other.gates[place] for place in part.gates],
            other.x_value,
            [other.masks[place] for place in part.masks],
        )
    kernel = neural_path_kernel(part.architecture, own, x_value, masks=pooled, other=other)
    return kernel.mul_(part.factor)


def sub_network_shares(
    architecture: arch.Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    masks: Sequence[Tensor] = (),
) -> dict[tuple[int, ...], float]:
    """trace H^J / trace H for every J, fewest blocks first; the shares add up to one."""
    check_architecture(architecture)
    check_tensor("x_value", x_value)
    check_path_inputs(architecture, PathInputs(gates, x_value, masks))
    blocks = residual_blocks(architecture)
    if blocks > MOST_BLOCKS:
        raise ArgumentError(
            f"{blocks} blocks make 2^{blocks} sub-networks; {MOST_BLOCKS} is the most.",
            kind="too-large",
        )
    choices = [c for size in range(blocks + 1) for c in combinations(range(blocks), size)]
    traces = {
        kept: float(sub_network_kernel(architecture, gates, x_value, kept, masks).trace())
        for kept in choices
    }
    total = sum(traces.values())
    return {kept: trace / total if total else 0.0 for kept, trace in traces.items()}
