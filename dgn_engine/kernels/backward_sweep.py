"""Backward sweeps of deltas through a network, per logit and without a Jacobian (theory §4).

Legend: n examples, c logits per sweep; a delta is ∂(logit)/∂(layer output), `(n, c, ...)`. The
first axis is 1 as long as the delta is the same for all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import LayerParameters, Trace


@dataclass(frozen=True)
class LayerFactors:
    """Inputs and deltas of one weight layer: its share of the tangent kernel.

    Attributes:
        layer: The weight layer.
        parameters: Which of its parameters are trained.
        inputs: Inputs of the layer, `(n, ...)`.
        value: Deltas with every gate held constant, or `None`.
        feature: Deltas that reach the layer through the gates, or `None`.
    """

    layer: arch.Weighted
    parameters: LayerParameters
    inputs: Tensor
    value: Tensor | None
    feature: Tensor | None


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass and what a backward sweep needs of it.

    Attributes:
        architecture: The architecture.
        weights: Weight tensors, one per weight layer.
        parameters: Trained parameters, one entry per weight layer.
        trace: Intermediate values of the pass.
        slopes: ∂z_l/∂q_l of each gate layer, if gates depend on their own q_l.
    """

    architecture: arch.Architecture
    weights: Sequence[Tensor]
    parameters: Sequence[LayerParameters]
    trace: Trace
    slopes: Sequence[Tensor]


@dataclass(frozen=True)
class BackwardDeltas:
    """The delta at the output of weight layer `place`; `None` stands for zero."""

    place: int
    delta: Tensor | None


AtGate = Callable[[int, Tensor], None]
"""Callback with a gate layer l and E_l = ∂(logit)/∂z_l."""


def output_delta(classes: int, logits: slice, summed: bool, like: Tensor) -> Tensor:
    """Return the deltas that a backward sweep starts with.

    Args:
        classes: Number of logits C.
        logits: The logits of this sweep.
        summed: Whether to sweep their sum instead of each of them.
        like: Tensor that gives dtype and device.

    Returns:
        Unit vectors e_k, `(1, c, C)`; or their sum, `(1, 1, C)`.
    """
    unit = torch.eye(classes, dtype=like.dtype, device=like.device)[logits]
    return unit.sum(0)[None, None] if summed else unit[None]


def value_sweep(
    run: ForwardPass, top: Tensor, at_gate: AtGate | None = None
) -> Iterator[BackwardDeltas]:
    """Propagate deltas down through a network whose gates are held constant.

    With E_d the deltas at the output,

        Δ_l = E_l ⊙ G_l,   E_{l-1} = Δ_l W_l.

    Args:
        run: The forward pass.
        top: Deltas of the logits, `(1, c, C)`, as from `output_delta`.
        at_gate: Called with each gate layer l and E_l before the deltas of its layer are yielded.

    Returns:
        Deltas from the output layer down to the first weight layer.
    """

    def backpropagate_gate(gate: int, E: Tensor | None) -> Tensor:
        """Multiply a delta by the gate: Δ_l = E_l ⊙ G_l."""
        assert E is not None
        # z = q ⊙ G:  ∂/∂G = E ⊙ q,  ∂/∂q = E ⊙ G
        if at_gate is not None:
            at_gate(gate, E)
        return E * run.trace.gates[gate].unsqueeze(1)

    return _sweep_deltas(run, top, backpropagate_gate)


def feature_sweep(run: ForwardPass, sources: Sequence[Tensor | None]) -> Iterator[BackwardDeltas]:
    """Propagate deltas that enter a network at its gates.

    With γ_l = `sources[l]` and slopes s_l = ∂z_l/∂q_l,

        Δ_l = γ_l + (Δ_{l+1} W_{l+1}) ⊙ s_l.

    Args:
        run: The forward pass of the network that produces the gates.
        sources: Σ ∂(logit)/∂G_l · χ'(q_l) for each gate layer, `(n, c, ...)`, or `None` for zero.

    Returns:
        Deltas from the output layer down to the first weight layer; `None` above the highest
        source, where they are zero.
    """

    def backpropagate_gate(gate: int, E: Tensor | None) -> Tensor | None:
        """Add the source of a gate layer to the delta from above."""
        source, slope = sources[gate], run.slopes[gate].unsqueeze(1)
        if E is None or source is None:
            return source if E is None else E * slope
        return torch.addcmul(source, E, slope)

    return _sweep_deltas(run, None, backpropagate_gate)


def _sweep_deltas(
    run: ForwardPass,
    top: Tensor | None,
    through: Callable[[int, Tensor | None], Tensor | None],
) -> Iterator[BackwardDeltas]:
    """Propagate deltas from `top` down; `through` takes a delta through a gate layer."""
    E = top
    masks = list(run.trace.masks)
    # For each open block, the delta of its end, replaced at its Skip by that of its Fork.
    pending: list[Tensor | None] = []
    for step in _reversed_steps(run.architecture):
        node = step.node
        if arch.is_gated(node):
            E = through(step.gate, E)
        match node:
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                yield BackwardDeltas(step.weight, E)
                if not step.weight:
                    return
                if step.sees_input:  # ∂x/∂θ = 0
                    E = None
                elif E is not None:
                    E = weight_adjoint(node, run.weights[step.weight], E, step.shape)
            case arch.Merge():
                # z = γ_post·(γ_pre·block + skip)
                pending.append(None if E is None else node.pre * node.post * E)
                E = None if E is None else node.post * E
            case arch.Skip():
                E, pending[-1] = pending[-1], E
            case arch.Fork():
                # Both branches read z, so their deltas add.
                E = _add_optional(E, pending.pop())
            case arch.Gating() | arch.FromInput():
                pass
            case _ if E is not None:
                E = pool_adjoint(node, E, step.shape, masks)
            case arch.MaxPool() | arch.GlobalMaxPool():
                masks.pop()


def _add_optional(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    """Add two deltas, of which `None` stands for zero."""
    if one is None or two is None:
        return two if one is None else one
    return one + two


@dataclass(frozen=True)
class _Step:
    """A node with the indices of its weight and gate layers and its input shape (no batch axis).

    `sees_input` says that a `FromInput` precedes it.
    """

    node: arch.Node
    weight: int
    gate: int
    shape: tuple[int, ...]
    sees_input: bool


def _reversed_steps(architecture: arch.Architecture) -> Iterator[_Step]:
    """Return the nodes of an architecture from the output to the input."""
    steps: list[_Step] = []
    weight = gate = 0
    for node, shape, _ in architecture.shape_steps():
        sees_input = bool(steps) and isinstance(steps[-1].node, arch.FromInput)
        steps.append(_Step(node, weight, gate, shape, sees_input))
        weight += arch.is_weighted(node)
        gate += arch.is_gated(node)
    return reversed(steps)


def pool_adjoint(
    node: arch.Node, delta: Tensor, shape: tuple[int, ...], masks: list[Tensor]
) -> Tensor:
    """Apply the transpose of a pooling or flattening layer.

    Args:
        node: The layer.
        delta: Delta of its output, `(n, c, ...)`.
        shape: Shape of its input, without the batch axis.
        masks: Arg-max positions of the max poolings so far; max pooling pops the last one.

    Returns:
        Delta of its input, `(n, c, *shape)`.
    """
    match node:
        case arch.GlobalAveragePool():
            mean = delta / (shape[1] * shape[2])
            return mean[..., None, None].expand(*delta.shape, *shape[1:])
        case arch.AveragePool():
            window = delta.new_full((1, 1, node.kernel, node.kernel), node.kernel**-2)
            rest = [(side - node.kernel) % node.stride for side in shape[1:]]
            flat = delta.reshape(-1, 1, *delta.shape[3:])
            back = F.conv_transpose2d(flat, window, None, node.stride, 0, rest)
            return back.reshape(*delta.shape[:2], *shape)
        case arch.MaxPool() | arch.GlobalMaxPool():
            mask = masks.pop().flatten(2)[:, None]
            flat = delta.reshape(*delta.shape[:3], -1)
            flat = flat.expand(mask.shape[0], -1, -1, -1)
            back = flat.new_zeros((*flat.shape[:3], shape[1] * shape[2]))
            back.scatter_add_(3, mask.expand_as(flat), flat)
            return back.reshape(*back.shape[:2], *shape)
        case arch.Flatten():
            return delta.reshape(*delta.shape[:2], *shape)
    raise AssertionError(f"{node} is not a pooling layer")


def weight_adjoint(
    layer: arch.Weighted, weight: Tensor, delta: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Apply the transpose of a weight layer to deltas: Δ W, or a transposed convolution.

    Args:
        layer: The layer.
        weight: Its weight tensor.
        delta: Delta of its output, `(n, c, ...)`.
        shape: Shape of its input, without the batch axis.

    Returns:
        Delta of its input, `(n, c, *shape)`.
    """
    if isinstance(layer, arch.Dense):
        return delta @ weight
    if isinstance(layer, arch.ChannelScale):
        return delta * weight.reshape(-1, *[1] * (delta.dim() - 3))
    flat = delta.reshape(-1, *delta.shape[2:])
    margin = layer.padding
    # Positions that no window reaches because of the stride get a zero delta.
    rest = [(side + 2 * margin - layer.kernel) % layer.stride for side in shape[1:]]
    cut = 0 if layer.circular else margin
    back = F.conv_transpose2d(flat, weight, None, layer.stride, cut, rest)
    if layer.circular:
        back = _unwrap_padding(back, margin)
    return back.reshape(*delta.shape[:2], *shape)


def _unwrap_padding(back: Tensor, margin: int) -> Tensor:
    """Add the circular padding of a gradient back to the positions that it was copied from."""
    if not margin:
        return back
    for axis in (2, 3):
        side = back.shape[axis] - 2 * margin
        core = back.narrow(axis, margin, side).clone()
        core.narrow(axis, side - margin, margin).add_(back.narrow(axis, 0, margin))
        core.narrow(axis, 0, margin).add_(back.narrow(axis, margin + side, margin))
        back = core
    return back
