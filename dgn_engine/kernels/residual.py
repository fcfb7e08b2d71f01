"""Sub-networks H^J of residual networks and their shares of the path kernel."""

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

MOST_BLOCKS = 12  # 2ᵇ sub-networks are enumerated


@dataclass(frozen=True)
class SubNetwork:
    """The chain that remains without the skips of blocks J and without the other blocks.

    Attributes:
        architecture: The chain.
        gates, weights, masks: Indices of its gate layers, weight layers and max poolings in the
          whole network.
        factor: Γ(J)² = Π_{j∈J} pre_j² · Π_all post_j² ([COMP] Lemma 4.2 has all factors one).
    """

    architecture: arch.Architecture
    gates: tuple[int, ...]
    weights: tuple[int, ...]
    masks: tuple[int, ...]
    factor: float


def residual_blocks(architecture: arch.Architecture) -> int:
    """Count the residual blocks b.

    Args:
        architecture: The network.

    Returns:
        b.

    Raises:
        ArgumentError: Blocks are nested.
    """
    check_architecture(architecture)
    depth = count = 0
    for node in architecture.nodes:
        depth += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
        count += isinstance(node, arch.Merge)
        if depth > 1:
            raise ArgumentError(
                "Sub-networks are not defined for nested residual blocks.",
                kind="not-supported",
            )
    return count


def sub_network(architecture: arch.Architecture, kept: Collection[int]) -> SubNetwork:
    """Extract a sub-network.

    Args:
        architecture: The network.
        kept: The blocks J to keep, numbered from 0.

    Returns:
        The sub-network.

    Raises:
        ArgumentError: A block does not exist, blocks are nested, or no gate layer remains.
    """
    blocks = residual_blocks(architecture)
    if not isinstance(kept, Collection) or not all(type(block) is int for block in kept):
        raise ArgumentError(
            f"kept is of type {type(kept).__name__}; expected block numbers such as (0, 2).",
            kind="wrong-type",
        )
    if not set(kept) <= set(range(blocks)):
        raise ArgumentError(
            f"kept is {sorted(kept)}, but the network has only {blocks} blocks, numbered from 0.",
            kind="out-of-bounds",
        )
    nodes: list[arch.Node] = []
    indices: dict[str, list[int]] = {"gates": [], "weights": [], "masks": []}
    counts = dict.fromkeys(indices, 0)
    factor, block, present = 1.0, -1, True
    for node in architecture.nodes:
        if isinstance(node, arch.Fork):
            block += 1
            present = block in kept
        elif isinstance(node, arch.Skip):
            present = block not in kept
        elif isinstance(node, arch.Merge):
            # Γ(J)² = Π_{j∈J} γ_pre_j² · Π_all γ_post_j²
            factor *= node.post**2 * (node.pre**2 if block in kept else 1.0)
            present = True
        elif present:
            nodes.append(node)
        pooled = isinstance(node, (arch.MaxPool, arch.GlobalMaxPool))
        parts = {"gates": arch.is_gated(node), "weights": arch.is_weighted(node), "masks": pooled}
        for kind, is_there in parts.items():
            if is_there and present:
                indices[kind].append(counts[kind])
            counts[kind] += is_there
    if not indices["gates"]:
        raise ArgumentError(
            "A sub-network without gate layers has no path kernel.",
            kind="not-supported",
        )
    return SubNetwork(
        arch.Architecture(architecture.input_shape, tuple(nodes)),
        gates=tuple(indices["gates"]),
        weights=tuple(indices["weights"]),
        masks=tuple(indices["masks"]),
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
    """Compute the path kernel H^J of one sub-network, including its factor Γ(J)².

    H is the sum of H^J over all 2ᵇ choices of J.

    Args:
        architecture: The network.
        gates: Gates of the whole network.
        x_value: Value input x^v, `(n, *input_shape)`.
        kept: The blocks J, numbered from 0.
        masks: Arg-max positions of the max poolings.
        other: Second set of inputs.

    Returns:
        H^J, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_architecture(architecture)
    check_tensor("x_value", x_value)
    check_path_inputs(architecture, PathInputs(gates, x_value, masks), other)
    part = sub_network(architecture, kept)
    part_gates = [gates[index] for index in part.gates]
    pooled = [masks[index] for index in part.masks]
    if other is not None:
        other = PathInputs(
            [other.gates[index] for index in part.gates],
            other.x_value,
            [other.masks[index] for index in part.masks],
        )
    kernel = neural_path_kernel(part.architecture, part_gates, x_value, masks=pooled, other=other)
    return kernel.mul_(part.factor)


def sub_network_shares(
    architecture: arch.Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    masks: Sequence[Tensor] = (),
) -> dict[tuple[int, ...], float]:
    """Compute trace H^J / trace H for every sub-network J.

    Args:
        architecture: The network.
        gates: Gates of the whole network.
        x_value: Value input x^v, `(n, *input_shape)`.
        masks: Arg-max positions of the max poolings.

    Returns:
        Shares by J, fewest blocks first; they sum to one, or are all 0 if H is zero.

    Raises:
        ArgumentError: There are more than 12 blocks, a sub-network has no gate layer, or an
          argument does not fit.
    """
    check_architecture(architecture)
    check_tensor("x_value", x_value)
    check_path_inputs(architecture, PathInputs(gates, x_value, masks))
    blocks = residual_blocks(architecture)
    if blocks > MOST_BLOCKS:
        raise ArgumentError(
            f"{blocks} blocks give 2^{blocks} sub-networks; at most {MOST_BLOCKS} blocks are "
            "supported.",
            kind="too-large",
        )
    choices = [c for size in range(blocks + 1) for c in combinations(range(blocks), size)]
    traces = {
        blocks_kept: float(
            sub_network_kernel(architecture, gates, x_value, blocks_kept, masks).trace()
        )
        for blocks_kept in choices
    }
    total = sum(traces.values())
    return {blocks_kept: trace / total if total else 0.0 for blocks_kept, trace in traces.items()}
