"""Tangent kernels K^V, K^F and K^X by structured sweeps, without a Jacobian (THEORY §4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.kernels.backward_sweep import (
    AtGate,
    ForwardPass,
    LayerFactors,
    feature_sweep,
    output_delta,
    value_sweep,
)
from dgn_engine.kernels.contraction import (
    Contraction,
    KernelSum,
    LayerTerm,
    add_layer,
    factor,
    is_pairwise,
    side,
)
from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.model.stack import Stack, Trace
from dgn_engine.model.wiring import STRAIGHT, Route

Logits = Literal["mean", "full", "perclass", "sumlogit"]
# Logits are streamed so that one sweep's deltas stay below this; deltas of maps are better small.
DENSE_BYTES = 256 << 20
MAP_BYTES = 16 << 20


@dataclass(frozen=True)
class TangentKernels:
    """K^V, K^F and K^X (THEORY §4); None where a part is identically zero.

    Shapes for n examples, C logits: (n, n) for 'mean' and 'sumlogit', (C, n, n) for 'perclass',
    (n, C, n, C) for 'full'. K^F and K^X alone need not be positive semi-definite.
    """

    value: Tensor
    feature: Tensor | None
    cross: Tensor | None

    @property
    def whole(self) -> Tensor:
        """K = K^V + K^F + K^X."""
        total = self.value
        for part in (self.feature, self.cross):
            total = total if part is None else total + part
        return total


@dataclass(frozen=True)
class _Block:
    """One block of examples after its forward pass; `slope[l]` = χ'(q) behind gate l.

    `wires[l]`: the feature layer that gate l comes from, and the route that it takes.
    """

    value: ForwardPass
    feature: ForwardPass | None
    slope: tuple[Tensor, ...] | None
    wires: tuple[tuple[int, Route], ...]


@torch.no_grad()
def tangent_kernels(
    network: GatedNetwork,
    x: Tensor,
    logits: Logits = "mean",
    feature_trained: bool = True,
    other: Tensor | None = None,
    budget_bytes: int | None = None,
    trace: NetworkTrace | None = None,
    other_trace: NetworkTrace | None = None,
) -> TangentKernels:
    """The tangent kernels of a network at inputs x (n, *input_shape), in the weights' dtype.

    Own hard gates (ReLU): K = K^V. Own soft gates: K^V, K^F and K^X of the one network. Given
    gates: K^V over Θ^v and, where gates are soft and `feature_trained`, K^F over Θ^f; there is
    no cross term between disjoint weights. Biases count where they exist. The kernels are of the
    logits: 'mean' is Σ_k K[k,k]/C, 'sumlogit' the kernel of Σ_k ŷ_k, 'full' keeps every pair of
    logits, 'perclass' the pairs k = k. With `other` (m, *input_shape) the block K(x, other).
    `trace`, `other_trace`: the forward passes, where the caller has them already.
    """
    if logits not in get_args(Logits):
        raise UserError(f"logits is {logits!r}; it must be one of {', '.join(get_args(Logits))}.")
    one = _block(network, network.trace(x) if trace is None else trace, feature_trained)
    two = one
    if other is not None:
        check_gates_are_made(network)
        other_trace = network.trace(other) if other_trace is None else other_trace
        two = _block(network, other_trace, feature_trained)
    classes = network.architecture.classes
    how: Contraction = "total" if logits in ("mean", "sumlogit") else logits  # type: ignore[assignment]  # the two remaining words
    summed = logits == "sumlogit"
    chunks = [slice(0, classes)]
    if logits in ("mean", "perclass"):
        chunks = _chunks(
            network.architecture, max(len(x), len(x if other is None else other)), x, budget_bytes
        )
    parts = [_sweep(one, two, output_delta(classes, c, summed, x), how) for c in chunks]
    return _joined(parts, logits, classes)


def check_gates_are_made(network: GatedNetwork) -> None:
    """Raise `ValueError` where the gates were given: they are those of the examples that they were
    drawn for, and no other inputs have any."""
    if network.given_gates is not None and not network.own_gates:
        raise ValueError(
            "No network makes these gates (FRG): they exist for the examples that they were drawn "
            "for, so that there is no block with other inputs."
        )


def ntk_cost(architecture: Architecture, n: int) -> float:
    """Estimated floating-point operations of `tangent_kernels` in mode 'mean' for one network
    of n examples (a deep gated network with soft gates costs about twice that)."""
    classes = architecture.classes
    cost = 0.0
    for node, shape in architecture.shapes():
        if isinstance(node, Conv):
            weights = node.outputs * node.inputs * node.kernel**2
            products = 2.0 * n * weights * shape[1] * shape[2]
            cost += products * (1 + 2 * classes) + 2.0 * n * n * classes * weights
    for layer in architecture.weighted:
        if not isinstance(layer, Conv):
            cost += 2.0 * n * layer.inputs * layer.outputs * (1 + classes)
            cost += 2.0 * n * n * (layer.inputs + classes * layer.outputs)
    return cost


def _block(network: GatedNetwork, trace: NetworkTrace, feature_trained: bool) -> _Block:
    gate, pre = network.gate, trace.gate_pre
    soft = gate.soft and (network.own_gates or feature_trained)
    slope = tuple(gate.derivative(q) for q in pre) if soft else None
    gates = trace.value.gates
    if network.own_gates and slope is not None:
        slopes = tuple(g + q * s for g, q, s in zip(gates, pre, slope, strict=True))
        value = _pass(network.value, trace.value, slopes)
        return _Block(value, None, slope, tuple((layer, STRAIGHT) for layer in range(len(gates))))
    value = _pass(network.value, trace.value, gates)
    wires = tuple(zip(network.wiring, network.routes, strict=True))
    if trace.feature is None or slope is None:
        return _Block(value, None, None, wires)
    # Of a ReLU or linear feature network, the gate 1{q > 0} or 1 is also the slope.
    feature = _pass(network.feature, trace.feature, trace.feature.gates)
    return _Block(value, feature, slope, wires)


def _pass(stack: Stack, trace: Trace, slopes: tuple[Tensor, ...]) -> ForwardPass:
    weights, biases = stack.tensors()
    bias = [bias is not None for bias in biases]
    return ForwardPass(
        stack.architecture,
        weights,
        bias,
        trace.inputs,
        trace.pre,
        trace.gates,
        slopes,
        trace.masks,
    )


def _factors(block: _Block, top: Tensor) -> Iterator[LayerFactors]:
    """Every trained weight layer with its deltas, in an order that depends on the kind only."""
    run, layers = block.value, block.value.architecture.weighted
    sources: list[Tensor | None] = [None] * len(block.wires)
    into = None if block.slope is None else _into(sources, block.slope, block.wires)
    # Where the network makes its own gates, both sweeps go down together: a source is filled
    # just before the feature sweep reads it.
    own = block.slope is not None and block.feature is None
    beside = feature_sweep(run, sources) if own else None
    for step in value_sweep(run, top, into):
        place = step.place
        feature = next(beside).delta if beside is not None else None
        yield LayerFactors(layers[place], run.bias[place], run.inputs[place], step.delta, feature)
    if block.feature is None:
        return
    layers = block.feature.architecture.weighted
    for step in feature_sweep(block.feature, sources):
        if step.delta is not None:
            bias, inputs = block.feature.bias[step.place], block.feature.inputs[step.place]
            yield LayerFactors(layers[step.place], bias, inputs, None, step.delta)


def _into(
    sources: list[Tensor | None], slope: tuple[Tensor, ...], wires: tuple[tuple[int, Route], ...]
) -> AtGate:
    """Adds what reaches a gate to the source of the feature layer that makes it."""

    def at_gate(place: int, gradient: Tensor) -> None:
        target, route = wires[place]
        source = route.transpose(gradient * slope[place].unsqueeze(1), axis=2)
        held = sources[target]
        sources[target] = source if held is None else held + source

    return at_gate


def _sweep(one: _Block, two: _Block, top: Tensor, how: Contraction) -> TangentKernels:
    """Sum the shares of all layers for the logits in `top`."""
    same = two is one
    shape = (len(one.value.inputs[0]), len(two.value.inputs[0]))
    value, feature, cross = (KernelSum(how, shape, same) for _ in range(3))
    pairs = zip(_factors(one, top), _factors(two, top), strict=True)
    for a, b in ((a, a) for a in _factors(one, top)) if same else pairs:
        positions = _positions(a)
        pairwise = is_pairwise(a.layer, how, max(shape), top.shape[1], positions)
        left = factor(a.layer, a.bias, a.inputs, pairwise)
        right = left if same else factor(b.layer, b.bias, b.inputs, pairwise)
        v1, f1 = _sides(a, pairwise)
        v2, f2 = (v1, f1) if same else _sides(b, pairwise)
        sums: list[tuple[KernelSum, LayerTerm]] = []
        if v1 is not None and v2 is not None:
            sums.append((value, LayerTerm(left, right, v1, v2)))
        if f1 is not None and f2 is not None:
            sums.append((feature, LayerTerm(left, right, f1, f2)))
            if v1 is not None and v2 is not None:
                sums.append((cross, LayerTerm(left, right, v1, f2)))
                sums.append((cross, LayerTerm(left, right, f1, v2)))
        add_layer(sums, positions if pairwise else 1)
    return TangentKernels(
        value.total(),
        None if feature.empty else feature.total(),
        None if cross.empty else cross.total(),
    )


def _positions(factors: LayerFactors) -> int:
    delta = factors.feature if factors.value is None else factors.value
    assert delta is not None
    return delta.shape[3:].numel()


def _sides(factors: LayerFactors, pairwise: bool) -> tuple[Tensor | None, Tensor | None]:
    layer, bias, inputs = factors.layer, factors.bias, factors.inputs
    value, feature = factors.value, factors.feature
    return (
        None if value is None else side(layer, bias, inputs, value, pairwise),
        None if feature is None else side(layer, bias, inputs, feature, pairwise),
    )


def _chunks(architecture: Architecture, n: int, like: Tensor, budget: int | None) -> list[slice]:
    """Slices of the logits such that the deltas and gradients of one sweep fit the budget."""
    classes = architecture.classes
    if budget is None:
        maps = any(isinstance(node, Conv) for node in architecture.nodes)
        budget = MAP_BYTES if maps else DENSE_BYTES
    largest = 1
    for node, shape in architecture.shapes():
        size = shape[0] if len(shape) == 1 else shape[0] * shape[1] * shape[2]
        weights = node.outputs * node.inputs * node.kernel**2 if isinstance(node, Conv) else 0
        largest = max(largest, 3 * size + 2 * weights)
    each = max(1, min(classes, budget // (n * largest * like.element_size())))
    return [slice(left, min(classes, left + each)) for left in range(0, classes, each)]


def _joined(parts: list[TangentKernels], logits: Logits, classes: int) -> TangentKernels:
    """Chunks of logits put together: stacked for 'perclass', summed otherwise."""

    def join(kernels: list[Tensor | None]) -> Tensor | None:
        present = [kernel for kernel in kernels if kernel is not None]
        if not present:
            return None
        if logits == "perclass":
            return torch.cat(present)
        total = present[0]
        for kernel in present[1:]:
            total = total + kernel
        return total / classes if logits == "mean" else total

    value = join([part.value for part in parts])
    assert value is not None
    feature, cross = join([p.feature for p in parts]), join([p.cross for p in parts])
    return TangentKernels(value, feature, cross)
