"""One backward sweep of deltas through a network, for each logit, without a Jacobian (THEORY §4).

Legend: n examples, c logits of this sweep; a delta is ∂(logit)/∂(what leaves a layer), shape
(n, c, ...). The first axis may be 1 as long as the delta is the same for all examples.
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
    """What the tangent kernel needs of one weight layer.

    `parameters`: what of it is trained; `inputs` (n, ...): what the layer was fed; `value`: deltas
    with every gate held constant; `feature`: the deltas that reach the layer through the gates.
    Either may be None.
    """

    layer: arch.Weighted
    parameters: LayerParameters
    inputs: Tensor
    value: Tensor | None
    feature: Tensor | None


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass: the weights and parameters by weight layer, and slopes: of gate layer l
    `slopes[l]` is ∂z_l/∂q_l where gates move with their own q_l."""

    architecture: arch.Architecture
    weights: Sequence[Tensor]
    parameters: Sequence[LayerParameters]
    trace: Trace
    slopes: Sequence[Tensor]


@dataclass(frozen=True)
class BackwardDeltas:
    """Reached at weight layer `place`: the delta of its output; None where it is zero."""

    place: int
    delta: Tensor | None


AtGate = Callable[[int, Tensor], None]
"""Told of a gate layer and E ⊙ q, the sensitivity of the logits to its gate."""


def output_delta(classes: int, logits: slice, summed: bool, like: Tensor) -> Tensor:
    """e_k for each logit of the slice, (1, c, classes); or their sum, (1, 1, classes)."""
    unit = torch.eye(classes, dtype=like.dtype, device=like.device)[logits]
    return unit.sum(0)[None, None] if summed else unit[None]


def value_sweep(
    run: ForwardPass, top: Tensor, at_gate: AtGate | None = None
) -> Iterator[BackwardDeltas]:
    """Deltas with every gate a constant, from the output layer down to the first weight layer;
    `at_gate` is told of every gate that lies behind a layer before its deltas are yielded."""

    def through(gate: int, E: Tensor | None) -> Tensor:
        assert E is not None
        if at_gate is not None:
            at_gate(gate, E * run.trace.pre[gate].unsqueeze(1))
        return E * run.trace.gates[gate].unsqueeze(1)

    return _sweep(run, top, through)


def feature_sweep(run: ForwardPass, sources: Sequence[Tensor | None]) -> Iterator[BackwardDeltas]:
    """Deltas that enter at the gates: `sources[l]` = Σ ∂(logit)/∂G · χ'(q_l) of gate layer l.

    The deltas above the highest source are zero.
    """

    def through(gate: int, E: Tensor | None) -> Tensor | None:
        carried = None if E is None else E * run.slopes[gate].unsqueeze(1)
        return _added(carried, sources[gate])

    return _sweep(run, None, through)


def _sweep(
    run: ForwardPass,
    top: Tensor | None,
    through: Callable[[int, Tensor | None], Tensor | None],
) -> Iterator[BackwardDeltas]:
    """Deltas that begin with `top`; `through` takes them behind a gate layer."""
    E = top
    masks = list(run.trace.masks)
    kept: list[Tensor | None] = []  # of the open blocks: what goes to their ends, then their forks
    for step in _backwards(run.architecture):
        node = step.node
        if arch.is_gated(node):
            E = through(step.gate, E)
        match node:
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                yield BackwardDeltas(step.weight, E)
                if not step.weight:
                    return
                if E is not None:
                    E = weight_adjoint(node, run.weights[step.weight], E, step.shape)
            case arch.Merge():
                kept.append(None if E is None else node.pre * node.post * E)
                E = None if E is None else node.post * E
            case arch.Skip():
                E, kept[-1] = kept[-1], E
            case arch.Fork():
                E = _added(E, kept.pop())
            case arch.Gating():
                pass
            case _ if E is not None:
                E = pool_adjoint(node, E, step.shape, masks)
            case arch.MaxPool() | arch.GlobalMaxPool():
                masks.pop()


def _added(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    if one is None or two is None:
        return two if one is None else one
    return one + two


@dataclass(frozen=True)
class _Step:
    """A node with the number of its weight and of its gate layer, where it has them, and the
    shape that enters it, without batch."""

    node: arch.Node
    weight: int
    gate: int
    shape: tuple[int, ...]


def _backwards(architecture: arch.Architecture) -> Iterator[_Step]:
    steps: list[_Step] = []
    weight = gate = 0
    for node, shape, _ in architecture.steps():
        steps.append(_Step(node, weight, gate, shape))
        weight += arch.is_weighted(node)
        gate += arch.is_gated(node)
    return reversed(steps)


def pool_adjoint(
    node: arch.Node, delta: Tensor, shape: tuple[int, ...], masks: list[Tensor]
) -> Tensor:
    """The transpose of a pooling or flattening; `shape` is what entered it, without batch.

    Max pooling uses up the last of `masks`.
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
    raise AssertionError(f"{node} is not a pooling")


def weight_adjoint(
    layer: arch.Weighted, weight: Tensor, delta: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """The transpose of a weight layer on deltas (n, c, ...); `shape` is what entered it."""
    if isinstance(layer, arch.Dense):
        return delta @ weight
    if isinstance(layer, arch.ChannelScale):
        return delta * weight.reshape(-1, *[1] * (delta.dim() - 3))
    flat = delta.reshape(-1, *delta.shape[2:])
    margin = layer.padding
    # Positions that no window reached when the stride left a remainder get a zero delta.
    rest = [(side + 2 * margin - layer.kernel) % layer.stride for side in shape[1:]]
    cut = 0 if layer.circular else margin
    back = F.conv_transpose2d(flat, weight, None, layer.stride, cut, rest)
    if layer.circular:
        back = _unwrap(back, margin)
    return back.reshape(*delta.shape[:2], *shape)


def _unwrap(back: Tensor, margin: int) -> Tensor:
    """Add what circular padding copied to the margins back to where it came from."""
    if not margin:
        return back
    for axis in (2, 3):
        side = back.shape[axis] - 2 * margin
        core = back.narrow(axis, margin, side).clone()
        core.narrow(axis, side - margin, margin).add_(back.narrow(axis, 0, margin))
        core.narrow(axis, 0, margin).add_(back.narrow(axis, margin + side, margin))
        back = core
    return back
