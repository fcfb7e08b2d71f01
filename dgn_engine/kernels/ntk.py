"""Tangent kernels K^V, K^F and K^X by structured sweeps, without a Jacobian (THEORY §4)."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_flag,
    check_network_inputs,
    check_trace,
    check_trains,
    check_word,
)
from dgn_engine.kernels.backward_sweep import output_delta
from dgn_engine.kernels.contraction import Contraction
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.tangent_sweep import TangentKernels, examples_passed, sweep
from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.regimes import Trained

Logits = Literal["mean", "full", "perclass", "sumlogit"]
# Logits are streamed so that one sweep's deltas stay below this; deltas of maps are better small.
DENSE_BYTES = 256 << 20
MAP_BYTES = 16 << 20


@torch.no_grad()
@full_precision
def tangent_kernels(
    network: GatedNetwork,
    x: Tensor,
    logits: Logits = "mean",
    trains: Trained | None = None,
    other: Tensor | None = None,
    budget_bytes: int | None = None,
    trace: NetworkTrace | None = None,
    other_trace: NetworkTrace | None = None,
    folded: bool = False,
) -> TangentKernels:
    """The tangent kernels of a network at inputs x (n, *input_shape), in the weights' dtype.

    Own hard gates (ReLU): K = K^V. Own soft gates: K^V, K^F and K^X of the one network. Given
    gates: K^V over Θ^v and, where gates are soft, K^F over Θ^f; there is no cross term between
    disjoint weights. Of these two K is the sum over what `trains`: unless given, what the network
    says (`network.trains`, set by its regime), and both where it does not. The parameters are
    those that are trained: biases, γ and shifts of a BatchNorm in evaluation mode (its statistics
    are constants), and weights before anything is folded into them; `folded`: the weights and
    biases that the layers work with in the end. The kernels are of the
    logits: 'mean' is Σ_k K[k,k]/C, 'sumlogit' the kernel of Σ_k ŷ_k, 'full' keeps every pair of
    logits, 'perclass' the pairs k = k. With `other` (m, *input_shape) the block K(x, other).
    `budget_bytes`: of the deltas and gradients of one sweep, which takes fewer logits at once, one
    at least. `trace`, `other_trace`: the forward passes, where the caller has them. Raises
    `ValueError` where nothing that trains moves the output.
    """
    check_network_inputs(network, x)
    check_word("logits", logits, Logits)
    check_trains(trains)
    check_flag("folded", folded)
    if budget_bytes is not None:
        check_count("budget_bytes", budget_bytes)
    if other is not None:
        check_network_inputs(network, other, "other")
        check_gates_are_made(network)
    if trace is not None:
        check_trace("trace", trace, len(x))
    if other_trace is not None and other is not None:
        check_trace("other_trace", other_trace, len(other))
    one = examples_passed(network, network.trace(x) if trace is None else trace, trains, folded)
    two = one
    if other is not None:
        other_trace = network.trace(other) if other_trace is None else other_trace
        two = examples_passed(network, other_trace, trains, folded)
    classes = network.architecture.classes
    how: Contraction = "total" if logits in ("mean", "sumlogit") else logits  # type: ignore[assignment]  # the two remaining words
    summed = logits == "sumlogit"
    chunks = [slice(0, classes)]
    if logits in ("mean", "perclass"):
        n = max(len(x), len(x if other is None else other))
        chunks = logit_chunks(network.architecture, n, x.element_size(), budget_bytes)
    parts = (sweep(one, two, output_delta(classes, c, summed, x), how) for c in chunks)
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
    check_architecture(architecture)
    check_count("n", n)
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


def logit_chunks(
    architecture: Architecture, n: int, item: int, budget: int | None = None
) -> list[slice]:
    """Slices of the logits such that the deltas and gradients of one sweep of n examples, `item`
    bytes a number, fit the budget."""
    classes = architecture.classes
    if budget is None:
        maps = any(isinstance(node, Conv) for node in architecture.nodes)
        budget = MAP_BYTES if maps else DENSE_BYTES
    largest = 1
    for node, shape in architecture.shapes():
        weights = node.outputs * node.inputs * node.kernel**2 if isinstance(node, Conv) else 0
        largest = max(largest, 3 * prod(shape) + 2 * weights)
    each = max(1, min(classes, budget // (n * largest * item)))
    return [slice(left, min(classes, left + each)) for left in range(0, classes, each)]


def _joined(parts: Iterable[TangentKernels], logits: Logits, classes: int) -> TangentKernels:
    """Chunks of logits put together: stacked for 'perclass', summed otherwise, one by one."""
    found: list[list[Tensor]] = [[], [], []]
    for part in parts:
        for kept, kernel in zip(found, (part.value, part.feature, part.cross), strict=True):
            if kernel is not None and kept and logits != "perclass":
                kept[0] += kernel
            elif kernel is not None:
                kept.append(kernel)
    whole = [None if not each else each[0] if len(each) == 1 else torch.cat(each) for each in found]
    for kernel in whole:
        if kernel is not None and logits == "mean":
            kernel.div_(classes)
    return TangentKernels(*whole)
