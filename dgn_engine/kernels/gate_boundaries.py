"""Local complexity: how many gate boundaries of a network cross a small neighbourhood of an input.

The neighbourhood is the cross-polytope with vertices x ± r·v_i, v_i orthonormal. A unit crosses it
if its pre-activation has both signs among the vertices, so that at least two linear regions meet
inside (Humayun, Balestriero, Baraniuk 2023, arXiv:2310.12977, as in their code). This is exact for
the first layer, whose boundaries are hyperplanes; a boundary that bends may cross the neighbourhood
and leave all its vertices on one side, which is not counted.

Their code counts sign changes of the outputs, too. An output has no gate and is left out here.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_network_inputs,
    check_number,
    check_sequence,
    check_tensor,
)
from dgn_engine.kernels.precision import full_precision
from dgn_engine.model.network import GatedNetwork

VERTICES_AT_ONCE = 1024  # per forward pass


def orthonormal_directions(shape: tuple[int, ...], count: int, seed: int = 0) -> Tensor:
    """Draw orthonormal directions of the input space for `local_complexity`.

    Args:
        shape: Shape of an input.
        count: How many; no more than the dimension are drawn.
        seed: Source of randomness; equal seeds give equal directions.

    Returns:
        Directions v_i, `(p, *shape)`, float64, p = min(count, dimension).

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_sequence("shape", shape)
    for size in shape:
        check_count("shape", size)
    check_count("count", count)
    check_count("seed", seed, least=0, most=2**63 - 1)
    dimension = prod(shape)
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(
        (dimension, min(count, dimension)), generator=generator, dtype=torch.float64
    )
    columns: Tensor = torch.linalg.qr(normal).Q
    return columns.T.reshape(-1, *shape)


def input_spread(x: Tensor) -> float:
    """Compute the root mean square distance of inputs from their mean.

    Args:
        x: Inputs, `(n, *input_shape)`.

    Returns:
        √(Σ_s ‖x_s − x̄‖²/n), in whose units radii for different data can be compared.

    Raises:
        ArgumentError: The inputs are no tensor of finite numbers.
    """
    check_tensor("x", x)
    flat = x.flatten(1).double()
    return float((flat - flat.mean(0)).square().sum(1).mean().sqrt())


@torch.no_grad()
@full_precision
def local_complexity(
    network: GatedNetwork, x: Tensor, directions: Tensor, radius: float
) -> tuple[Tensor, ...]:
    """Count the units whose gate boundary crosses a cross-polytope around each input.

        LC_l(x) = #{u : q_l,u(x + s·r·v_i) > 0 for some but not all i and s = ±1}

    The q_l are those of the network that makes the gates, before wiring and tiling. Each channel
    and position of a convolution counts. Switches of a max pooling do not.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        directions: Orthonormal directions v_i, `(p, *input_shape)`, as from
          `orthonormal_directions`, on the device of the inputs.
        radius: r, in units of the input.

    Returns:
        Counts of each gate layer, `(n,)` int64.

    Raises:
        ArgumentError: No network makes the gates (FRG), all are open (DLN), or an argument does not
          fit.

    References:
        Humayun, Balestriero & Baraniuk 2023, arXiv:2310.12977. Defined in theory §5.

    Examples:
        The first unit switches at x_1 = 0 and the second at x_2 = 3, too far away:

        >>> from dgn_engine.kernels import adapt
        >>> layers = torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)
        >>> with torch.no_grad():
        ...     _ = layers[0].weight.copy_(torch.eye(2))
        ...     _ = layers[0].bias.copy_(torch.tensor([0.0, -3.0]))
        >>> network = adapt(torch.nn.Sequential(*layers), input_shape=(2,))
        >>> x, directions = torch.tensor([[0.1, 0.0]]), orthonormal_directions((2,), 2)
        >>> [counts.tolist() for counts in local_complexity(network, x, directions, 0.5)]
        [[1]]
    """
    check_network_inputs(network, x)
    check_tensor("directions", directions, like=x)
    if directions.shape[1:] != x.shape[1:]:
        raise ArgumentError(
            f"directions has shape {tuple(directions.shape)}; expected (p, *{tuple(x.shape[1:])}).",
            kind="wrong-shape",
            value=tuple(directions.shape),
        )
    check_number("radius", radius, above=0.0)
    if why := reason_without_boundaries(network):
        raise ArgumentError(why, kind="not-supported")
    offsets = radius * torch.cat([directions, -directions]).to(x)
    at_once = max(1, VERTICES_AT_ONCE // len(offsets))
    counts = [_count_crossing(network, part, offsets) for part in torch.split(x, at_once)]
    return tuple(torch.cat(layer) for layer in zip(*counts, strict=True))


def reason_without_boundaries(network: GatedNetwork) -> str:
    """Return why the gates of a network have no boundaries in the input space, or ''.

    Args:
        network: The network.

    Returns:
        A sentence, or ''.
    """
    if not network.architecture.gated_shapes:
        return "This network has no gate layer."
    if network.has_random_gates:
        return "No network makes these gates (FRG): they have no boundaries between inputs."
    if network.gate.open:
        return "Every gate is 1 (DLN), so no boundary divides the input space."
    return ""


def _count_crossing(network: GatedNetwork, x: Tensor, offsets: Tensor) -> list[Tensor]:
    """Return the counts of each layer for a few inputs, from the pass of all their vertices."""
    vertices = x.unsqueeze(1) + offsets
    counts = []
    for q in network.trace(vertices.flatten(0, 1)).gate_pass.pre:
        is_open = (q > 0).reshape(len(x), len(offsets), -1)
        counts.append((is_open.any(1) & ~is_open.all(1)).sum(1))
    return counts
