"""The hyperplanes in input space at which the gates of a network switch (Yadav et al. 2024).

A unit of a linear feature network has the pre-activation q_l = W_l⋯W_1 x + b, so its gate is open
on a half-space, in every layer. Behind a ReLU or a max pooling this holds only near an example, as
long as no earlier gate switches.

Mahesh Lorik Yadav, Harish Guruprasad Ramaswamy and Chandrashekar Lakshminarayanan, 'Half-Space
Feature Learning in Neural Networks', 2024, arXiv:2404.04312.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_count, check_network, check_tensor
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.model.architecture import FromInput, GlobalMaxPool, MaxPool, is_gated
from dgn_engine.model.network import GatedNetwork


@dataclass(frozen=True)
class Hyperplanes(HtmlFields):
    """The hyperplanes w·x + b = 0 at which the gates of one layer switch.

    Attributes:
        layer: Gate layer of the network that makes the gates, counted from 0.
        units: Unit of each row, as its index in the flattened layer, `(u,)`.
        normals: w, `(u, d)` for inputs of d numbers.
        offsets: b, `(u,)`.
    """

    layer: int
    units: Tensor
    normals: Tensor
    offsets: Tensor

    @property
    def rows(self) -> Tensor:
        """Return (w, b) of each hyperplane, as `cut_distances` takes them.

        Returns:
            `(u, d + 1)`.
        """
        return torch.cat([self.normals, self.offsets[:, None]], dim=1)


def half_space_layers(network: GatedNetwork) -> tuple[int, ...]:
    """Return the gate layers whose gates are open on half-spaces of the whole input space.

    Args:
        network: The network.

    Returns:
        Layers of the network that makes the gates, counted from 0: all before the first max
        pooling if features are linear, all if feature layers are parallel, otherwise at most the
        first. Empty if gates are drawn or always open.
    """
    if not _has_switching_gates(network):
        return ()
    linear = not network.own_gates and network.feature_activation == "linear"
    layers: list[int] = []
    count, is_affine = 0, True  # is_affine: no gate or maximum before
    for node in network.gate_stack.architecture.nodes:
        if isinstance(node, (MaxPool, GlobalMaxPool)):
            is_affine = False
        elif isinstance(node, FromInput):  # parallel feature layers begin again at x
            is_affine = True
        elif is_gated(node):
            if is_affine:
                layers.append(count)
            is_affine = is_affine and linear
            count += 1
    return tuple(layers)


def effective_hyperplanes(
    network: GatedNetwork, example: Tensor | None = None, most: int | None = None
) -> tuple[Hyperplanes, ...]:
    """Compute the hyperplanes at which gates switch, in input space.

    For linear features

        w = (W_l ⋯ W_1)ᵀ e_u,   b = q_l(0)_u,

    with average pooling, skips and folded normalisations included. In a map, the unit of each
    channel at the middle position is taken.

    Args:
        network: The network.
        example: One input, `(1, *input_shape)`. With it, later layers are included, with the
          hyperplanes of the affine function that equals q_l near the example. Default: only the
          layers whose gates are open on half-spaces of the whole space.
        most: Take only the first units of each layer, at most this many. Default: all.

    Returns:
        One entry per layer.

    Raises:
        ArgumentError: The gates are drawn or always open, or an example does not fit, or is given
          although earlier gates are soft, so that q_l is nowhere affine.

    References:
        Yadav, Ramaswamy & Lakshminarayanan 2024, arXiv:2404.04312.

    Examples:
        The second layer of linear features sees the product of both weights:

        >>> import torch
        >>> from dgn_engine.model.architecture import Architecture, Dense
        >>> from dgn_engine.model.network import GatedNetwork
        >>> net = Architecture((2,), (Dense(2, 2), Dense(2, 1), Dense(1, 1, gated=False)))
        >>> network = GatedNetwork(net)
        >>> network.own_gates, network.feature_activation = False, "linear"
        >>> first, second = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0]])
        >>> for weight, value in zip(network.feature.weights, (first, second)):
        ...     _ = weight.data.copy_(value)
        >>> effective_hyperplanes(network)[1].normals.tolist()
        [[1.0, 3.0]]
    """
    check_network(network)
    if most is not None:
        check_count("most", most)
    everywhere = half_space_layers(network)
    if not _has_switching_gates(network):
        raise ArgumentError(
            "The gates are drawn or always open, so there are no hyperplanes at which they switch.",
            kind="drawn-gates",
        )
    stack = network.gate_stack
    shape = stack.architecture.input_shape
    weight = stack.weights[0]
    point = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
    wanted = everywhere
    if example is not None:
        check_tensor("example", example, like=weight)
        if tuple(example.shape) != (1, *shape):
            raise ArgumentError(
                f"example has shape {tuple(example.shape)}; expected {(1, *shape)}.",
                kind="wrong-shape",
            )
        if network.own_gates and network.gate.soft:
            raise ArgumentError(
                "Later layers see soft gates of earlier ones, so they are nowhere affine.",
                kind="not-supported",
            )
        point = example[0].detach().to(point)
        wanted = tuple(range(len(stack.architecture.gated_shapes)))
    return tuple(_hyperplanes_of_layer(network, layer, point, most) for layer in wanted)


def _has_switching_gates(network: GatedNetwork) -> bool:
    """Return whether a network computes the gates from the input."""
    return not network.has_random_gates and not network.gate.open


def _hyperplanes_of_layer(
    network: GatedNetwork, layer: int, point: Tensor, most: int | None
) -> Hyperplanes:
    """Differentiate the pre-activations of one layer at a point, all units in one backward pass."""
    stack = network.value if network.own_gates else network.feature
    units = _shown_units(stack.architecture.gated_shapes[layer], point.device)[:most]
    with torch.enable_grad():
        inputs = point[None].clone().requires_grad_()
        trace = network.trace(inputs)
        made = trace.value if trace.feature is None else trace.feature
        q = made.pre[layer].flatten()[units]
        each = torch.eye(len(units), dtype=q.dtype, device=q.device)
        (normals,) = torch.autograd.grad(q, inputs, each, is_grads_batched=True)
    normals = normals.flatten(1)
    # q(x) = w·x + b near the point
    offsets = q.detach() - normals @ point.flatten()
    return Hyperplanes(layer, units, normals, offsets)


def _shown_units(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the flat indices of all units of a vector, or of each channel's middle position."""
    first = torch.arange(shape[0], device=device)
    if len(shape) == 1:
        return first
    _, rows, columns = shape
    return first * rows * columns + rows // 2 * columns + columns // 2


@dataclass(frozen=True)
class CutDistances(HtmlFields):
    """How far hyperplanes are from others, `(u, m)` float64 each; NaN for a row without normal.

    Attributes:
        angles: Angle between the hyperplanes, in degrees, 0 to 90.
        offsets: Difference of their distances from the origin, measured to the same side.
        distances: √(‖n − n'‖² + (o − o')²) of the unit normals and offsets, whichever of the two
          orientations is nearer in angle.
    """

    angles: Tensor
    offsets: Tensor
    distances: Tensor


def cut_distances(hyperplanes: Tensor, cuts: Tensor) -> CutDistances:
    """Measure how far hyperplanes are from the cuts of the labels; orientation does not matter.

    Args:
        hyperplanes: Rows (w, b) of hyperplanes w·x + b = 0, `(u, d + 1)`.
        cuts: The same of the cuts, `(m, d + 1)`.

    Returns:
        Angles, offsets and distances of all pairs.

    Raises:
        ArgumentError: The shapes do not fit.

    Examples:
        >>> import torch
        >>> one = torch.tensor([[1.0, 0.0, 0.5]])
        >>> cut_distances(one, torch.tensor([[-2.0, 0.0, -1.0], [0.0, 1.0, 0.0]])).angles.tolist()
        [[0.0, 90.0]]
    """
    check_tensor("hyperplanes", hyperplanes)
    check_tensor("cuts", cuts)
    if hyperplanes.dim() != 2 or cuts.dim() != 2 or hyperplanes.shape[1] != cuts.shape[1]:
        raise ArgumentError(
            f"hyperplanes has shape {tuple(hyperplanes.shape)} and cuts {tuple(cuts.shape)}; "
            "expected (u, d + 1) and (m, d + 1).",
            kind="wrong-shape",
        )
    one, other = (unit_rows(rows.detach().to("cpu", torch.float64)) for rows in (hyperplanes, cuts))
    cosine = one[:, :-1] @ other[:, :-1].T
    side = torch.where(cosine < 0, -1.0, 1.0).to(cosine)
    size = cosine.abs().clamp(max=1.0)
    offsets = (one[:, -1:] - side * other[:, -1]).abs()
    distances = (2.0 - 2.0 * size + offsets**2).sqrt()
    return CutDistances(size.arccos().rad2deg(), offsets, distances)


def unit_rows(rows: Tensor) -> Tensor:
    """Divide the rows (w, b) of hyperplanes by ‖w‖.

    Args:
        rows: `(u, d + 1)`.

    Returns:
        The same hyperplanes with unit normals, NaN if w is zero.
    """
    norms = rows[:, :-1].norm(dim=1, keepdim=True)
    return torch.where(norms > 0, rows / norms, torch.nan)
