"""The backward sweep in which tangent kernels are summed, layer by layer (theory §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.backward_sweep import (
    AtGate,
    ForwardPass,
    LayerFactors,
    feature_sweep,
    value_sweep,
)
from dgn_engine.kernels.contraction import (
    Contraction,
    KernelSum,
    LayerTerm,
    add_layer,
    contraction_factor,
    contraction_side,
    is_pairwise,
)
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.model.stack import NormParameters, Stack, Trace, apply_weight
from dgn_engine.model.wiring import STRAIGHT, Route
from dgn_engine.regimes import Trained


@dataclass(frozen=True)
class TangentKernels(HtmlFields):
    """The tangent kernels K^V, K^F and K^X (theory §4).

    A part is `None` if it is identically zero, as it is over weights that do not train. For n
    examples and C logits the shapes are (n, n) for 'mean' and 'sumlogit', (C, n, n) for 'perclass'
    and (n, C, n, C) for 'full'. K^V, K^F and K are positive semi-definite, as Gram matrices of
    gradients; K^X need not be.

    Attributes:
        value: K^V.
        feature: K^F.
        cross: K^X.
    """

    value: Tensor | None
    feature: Tensor | None
    cross: Tensor | None

    @property
    def total_kernel(self) -> Tensor:
        """The tangent kernel K = K^V + K^F + K^X.

        Returns:
            The sum of the parts that exist.
        """
        parts = (self.value, self.feature, self.cross)
        total: Tensor = reduce(add, [part for part in parts if part is not None])
        return total


@dataclass(frozen=True)
class ExampleBlock:
    """One block of examples after its forward pass.

    Attributes:
        value: Pass of the value network.
        feature: Pass of the feature network, if it makes the gates and is trained.
        pull: q^v ⊙ χ'(q) of each gate, if gates are soft and count: what takes ∂ŷ/∂z to the
          feature layer that makes the gate.
        wires: For each gate, the feature layer that makes it and its route.
        value_counts: Whether Θ^v is trained.
        trained_slopes: For each of the network's own gates, the number of trained slopes (PReLU).
    """

    value: ForwardPass
    feature: ForwardPass | None
    pull: tuple[Tensor, ...] | None
    wires: tuple[tuple[int, Route], ...]
    value_counts: bool = True
    trained_slopes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        passes = [self.value] if self.value_counts else []
        passes += [] if self.feature is None else [self.feature]
        layers = [layer for forward_pass in passes for layer in forward_pass.parameters]
        if not (any(self.trained_slopes) or any(layer.any_trained for layer in layers)):
            raise ArgumentError(
                "All parameters are frozen (requires_grad is False), so there is no tangent "
                "kernel.",
                kind="frozen",
            )


@dataclass(frozen=True)
class SlopeFactors:
    """Gradients `(n, c, slopes)` of a gate layer whose slopes train."""

    gradients: Tensor


def prepare_examples(
    network: GatedNetwork, trace: NetworkTrace, trains: Trained | None, folded: bool
) -> ExampleBlock:
    """Collect what the sweeps need of a forward pass.

    Args:
        network: The network.
        trace: Its forward pass.
        trains: Which of the two networks train. Default: `network.trains`, or both.
        folded: Whether to differentiate by folded weights.

    Returns:
        The block of examples.

    Raises:
        ArgumentError: Nothing that trains affects the output.
    """
    if trains is None:
        trains = ("value", "feature") if network.trains is None else network.trains
    gate, pre = network.gate, trace.gate_pre
    soft = gate.soft and (network.own_gates or "feature" in trains)
    slope = tuple(gate.derivative(q) for q in pre) if soft else None
    gates = trace.value.gates
    if "value" not in trains and (network.own_gates or trace.feature is None or slope is None):
        raise ArgumentError(
            f"trains is {trains}, but nothing in it affects the output of this network.",
            kind="frozen",
        )
    if network.own_gates and slope is not None:
        # z = qγ(q):  ∂z/∂q = γ + q∂γ
        slopes = tuple(g + q * s for g, q, s in zip(gates, pre, slope, strict=True))
        value = _forward_pass(network.value, trace.value, slopes, folded)
        return ExampleBlock(
            value,
            None,
            _pull(trace, slope),
            tuple((layer, STRAIGHT) for layer in range(len(gates))),
        )
    value = _forward_pass(network.value, trace.value, gates, folded)
    wires = tuple(zip(network.wiring, network.routes, strict=True))
    if network.own_gates:
        return ExampleBlock(value, None, None, wires, trained_slopes=_trained_slopes(network.value))
    if trace.feature is None or slope is None:
        return ExampleBlock(value, None, None, wires)
    # For a ReLU or linear feature network, its gate 1{q > 0} or 1 is also the slope χ'.
    feature = _forward_pass(network.feature, trace.feature, trace.feature.gates, folded)
    return ExampleBlock(value, feature, _pull(trace, slope), wires, "value" in trains)


def _pull(trace: NetworkTrace, slope: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return q^v ⊙ χ'(q) of each gate."""
    return tuple(q * s for q, s in zip(trace.value.pre, slope, strict=True))


def _trained_slopes(stack: Stack) -> tuple[int, ...]:
    """Count the trained slopes of each gate layer."""
    slopes = stack.slopes() or ()
    return tuple(
        slope.numel() if trained else 0
        for slope, trained in zip(slopes, stack.trained_slopes(), strict=True)
    )


def _forward_pass(
    stack: Stack, trace: Trace, slopes: tuple[Tensor, ...], folded: bool
) -> ForwardPass:
    """Combine a pass with the weights and trained parameters of its network."""
    parameters = stack.layer_parameters(folded)
    return ForwardPass(stack.architecture, stack.folded_tensors()[0], parameters, trace, slopes)


def _layer_factors(block: ExampleBlock, top: Tensor) -> Iterator[LayerFactors | SlopeFactors]:
    """Yield every trained weight layer with its deltas, in an order fixed by the network."""
    run, layers = block.value, block.value.architecture.weight_layers
    sources: list[Tensor | None] = [None] * len(block.wires)
    into = None if block.pull is None else _collect_gate_sources(sources, block.pull, block.wires)
    slopes: list[Tensor] = []
    if any(block.trained_slopes):
        into = _collect_slope_gradients(slopes, block)
    # If the network makes its own gates, both sweeps run in lockstep: a source is filled just
    # before the feature sweep reads it.
    makes_own_gates = block.pull is not None and block.feature is None
    feature_deltas = feature_sweep(run, sources) if makes_own_gates else None
    for step in value_sweep(run, top, into):
        index = step.place
        feature = next(feature_deltas).delta if feature_deltas is not None else None
        if block.value_counts:
            parameters, inputs = run.parameters[index], run.trace.inputs[index]
            yield LayerFactors(layers[index], parameters, inputs, step.delta, feature)
    yield from map(SlopeFactors, slopes)
    if block.feature is None:
        return
    layers = block.feature.architecture.weight_layers
    for step in feature_sweep(block.feature, sources):
        if step.delta is not None:
            parameters = block.feature.parameters[step.place]
            inputs = block.feature.trace.inputs[step.place]
            yield LayerFactors(layers[step.place], parameters, inputs, None, step.delta)


def _collect_gate_sources(
    sources: list[Tensor | None], pull: tuple[Tensor, ...], wires: tuple[tuple[int, Route], ...]
) -> AtGate:
    """Return a callback that adds ∂ŷ/∂G ⊙ χ'(q), routed back, to its feature layer's source."""

    def at_gate(gate: int, E: Tensor) -> None:
        # z = q^v ⊙ G, and dL/dG through the routing: Δq = Rᵀ(E ⊙ q^v ⊙ χ'(q))
        target, route = wires[gate]
        source = route.transpose(E * pull[gate].unsqueeze(1), axis=2)
        total = sources[target]
        sources[target] = source if total is None else total + source

    return at_gate


def _collect_slope_gradients(slopes: list[Tensor], block: ExampleBlock) -> AtGate:
    """Return a callback that collects the gradients of slopes that train: z = aq for q ≤ 0."""

    def at_gate(gate: int, E: Tensor) -> None:
        count = block.trained_slopes[gate]
        if count:
            # ∂ŷ/∂a = Σ_p ∂ŷ/∂z · q 1{q ≤ 0}
            below = E * block.value.trace.pre[gate].clamp(max=0.0).unsqueeze(1)
            by_channel = below.reshape(*below.shape[:3], -1).sum(3)
            slopes.append(by_channel if count > 1 else by_channel.sum(2, keepdim=True))

    return at_gate


def sweep_kernels(
    one: ExampleBlock, two: ExampleBlock, top: Tensor, how: Contraction
) -> TangentKernels:
    """Sum the shares of all layers to the tangent kernels of some logits.

    Args:
        one: Block of the rows.
        two: Block of the columns; the same object for a symmetric kernel.
        top: Output deltas, `(1, c, C)`.
        how: How logits are combined.

    Returns:
        The kernels.
    """
    *_, kernels = sweep_layers(one, two, top, how)
    assert kernels is not None
    return kernels


def sweep_layers(
    one: ExampleBlock, two: ExampleBlock, top: Tensor, how: Contraction
) -> Iterator[TangentKernels | None]:
    """Run `sweep_kernels` layer by layer.

    Args:
        one: Block of the rows.
        two: Block of the columns.
        top: Output deltas, `(1, c, C)`.
        how: How logits are combined.

    Yields:
        `None` before each layer, and the kernels at the end.
    """
    same = two is one
    shape = (len(one.value.trace.inputs[0]), len(two.value.trace.inputs[0]))
    kernels = KernelSum(how, shape, same), KernelSum(how, shape, same), KernelSum(how, shape, same)
    pairs = zip(_layer_factors(one, top), _layer_factors(two, top), strict=True)
    for a, b in ((a, a) for a in _layer_factors(one, top)) if same else pairs:
        yield None
        if isinstance(a, SlopeFactors) or isinstance(b, SlopeFactors):
            assert isinstance(a, SlopeFactors)
            assert isinstance(b, SlopeFactors)
            add_layer([(kernels[0], LayerTerm(None, None, a.gradients, b.gradients))])
            continue
        positions = _position_count(a)
        if a.parameters.weight:
            pairwise = is_pairwise(a.layer, how, max(shape), top.shape[1], positions)
            left = contraction_factor(a.layer, a.parameters.bias, a.inputs, pairwise)
            right = (
                left if same else contraction_factor(b.layer, b.parameters.bias, b.inputs, pairwise)
            )
            row_sides = _weight_sides(a, pairwise)
            column_sides = row_sides if same else _weight_sides(b, pairwise)
            sums = _kernel_terms(kernels, left, right, row_sides, column_sides)
            add_layer(sums, positions if pairwise else 1)
        elif a.parameters.bias:
            row_sides = _bias_sides(a)
            column_sides = row_sides if same else _bias_sides(b)
            add_layer(_kernel_terms(kernels, None, None, row_sides, column_sides))
        for norm, other in zip(a.parameters.norms, b.parameters.norms, strict=True):
            row_sides = _norm_sides(a, norm)
            column_sides = row_sides if same else _norm_sides(b, other)
            add_layer(_kernel_terms(kernels, None, None, row_sides, column_sides))
    yield TangentKernels(*(None if part.is_empty else part.total() for part in kernels))


_Sides = tuple[Tensor | None, Tensor | None]


def _kernel_terms(
    kernels: tuple[KernelSum, KernelSum, KernelSum],
    left: Tensor | None,
    right: Tensor | None,
    ours: _Sides,
    theirs: _Sides,
) -> list[tuple[KernelSum, LayerTerm]]:
    """Return what some parameters add to K^V, K^F and K^X, from the sides of both blocks."""
    value, feature, cross = kernels
    (v1, f1), (v2, f2) = ours, theirs
    sums: list[tuple[KernelSum, LayerTerm]] = []
    # K^V += A ⊙ Δ^VΔ^Vᵀ;  K^F += A ⊙ Δ^FΔ^Fᵀ;  K^X += A ⊙ (Δ^VΔ^Fᵀ + Δ^FΔ^Vᵀ)
    if v1 is not None and v2 is not None:
        sums.append((value, LayerTerm(left, right, v1, v2)))
    if f1 is not None and f2 is not None:
        sums.append((feature, LayerTerm(left, right, f1, f2)))
        if v1 is not None and v2 is not None:
            sums.append((cross, LayerTerm(left, right, v1, f2)))
            sums.append((cross, LayerTerm(left, right, f1, v2)))
    return sums


def _position_count(factors: LayerFactors) -> int:
    """Return the number of output positions of a layer."""
    delta = factors.feature if factors.value is None else factors.value
    assert delta is not None
    return delta.shape[3:].numel()


def _both_deltas(factors: LayerFactors, to_side: Callable[[Tensor], Tensor]) -> _Sides:
    """Apply a function to the deltas at constant gates and to those through the gates."""
    value, feature = factors.value, factors.feature
    return None if value is None else to_side(value), None if feature is None else to_side(feature)


def _weight_sides(factors: LayerFactors, pairwise: bool) -> _Sides:
    """Return the sides of weight and bias."""
    layer, parameters, inputs = factors.layer, factors.parameters, factors.inputs

    def to_side(delta: Tensor) -> Tensor:
        if parameters.scale is not None:
            delta = delta * parameters.scale.reshape(-1, *[1] * (delta.dim() - 3))
        return contraction_side(layer, parameters.bias, inputs, delta, pairwise)

    return _both_deltas(factors, to_side)


def _bias_sides(factors: LayerFactors) -> _Sides:
    """Return the sides of a bias whose weight is frozen: gradients `(n, c, channels)`."""
    scale = factors.parameters.scale

    def to_side(delta: Tensor) -> Tensor:
        sums = delta.reshape(*delta.shape[:3], -1).sum(3)
        return sums if scale is None else sums * scale

    return _both_deltas(factors, to_side)


def _norm_sides(factors: LayerFactors, norm: NormParameters) -> _Sides:
    """Return the sides of γ and shift of a normalisation: gradients `(n, c, channels of each)`."""
    n, u = len(factors.inputs), None
    if norm.unit is not None:
        u = apply_weight(factors.layer, *norm.unit, factors.inputs)
        u = u.reshape(n, 1, u.shape[1], -1)

    def to_side(delta: Tensor) -> Tensor:
        delta = delta.reshape(*delta.shape[:3], -1).expand(n, -1, -1, -1)
        if norm.scale is not None:
            delta = delta * norm.scale[:, None]
        parts = [] if u is None else [(delta * u).sum(3)]
        return torch.cat([*parts, delta.sum(3)] if norm.shift else parts, 2)

    return _both_deltas(factors, to_side)


@torch.no_grad()
def layer_sides(
    network: GatedNetwork, x: Tensor, top: Tensor, trains: Trained | None, folded: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield factor and side of each trained layer.

    The gradient of logit c is Σ_p D[p, c] Z[p]ᵀ, and K is the sum over the layers of the products
    of these gradients.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        top: Output deltas, `(1, c, C)`, as from `output_delta`.
        trains: As for `tangent_kernels`.
        folded: As for `tangent_kernels`.

    Yields:
        Factor Z, `(n, P, a)`, and side D, `(n, P, c, b)` or `(1, P, c, b)`.
    """
    block = prepare_examples(network, network.trace(x), trains, folded)
    ones = x.new_ones((len(x), 1, 1))  # the factor of gradients (n, c, parameters)
    for layer in _layer_factors(block, top):
        if isinstance(layer, SlopeFactors):
            yield ones, layer.gradients[:, None]
            continue
        if layer.parameters.weight:
            positions = _position_count(layer)
            rows = contraction_factor(
                layer.layer, layer.parameters.bias, layer.inputs, pairwise=True
            )
            side = _both_parts(_weight_sides(layer, pairwise=True))
            if rows is None:
                yield ones, side[:, None]
            else:
                side = side.reshape(-1, positions, *side.shape[1:])
                yield rows.reshape(len(x), positions, -1), side
        elif layer.parameters.bias:
            yield ones, _both_parts(_bias_sides(layer))[:, None]
        for norm in layer.parameters.norms:
            yield ones, _both_parts(_norm_sides(layer, norm))[:, None]


def _both_parts(sides: _Sides) -> Tensor:
    """Add the sides at constant gates and through the gates."""
    value, feature = sides
    if value is None or feature is None:
        both = feature if value is None else value
        assert both is not None
        return both
    return value + feature
