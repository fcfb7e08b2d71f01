"""Tangent kernels K^V, K^F and K^X by structured sweeps, without a Jacobian (theory §4)."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.kernels.arguments import (
    check_architecture,
    check_choice,
    check_count,
    check_flag,
    check_network_inputs,
    check_trace,
    check_trains,
)
from dgn_engine.kernels.backward_sweep import output_delta
from dgn_engine.kernels.contraction import Contraction
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.tangent_sweep import TangentKernels, prepare_examples, sweep_kernels
from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.regimes import Trained

Logits = Literal["mean", "full", "perclass", "sumlogit"]
# Logits are processed in chunks whose deltas stay below this; for maps smaller chunks are faster.
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
    """Compute the tangent kernels K^V, K^F and K^X of a network.

        K(s, s') = ⟨∇ŷ(x_s), ∇ŷ(x_{s'})⟩ = K^V + K^F + K^X

    from one backward sweep per logit: with Z the inputs and Δ the deltas of a dense layer, its
    share is (ZZᵀ) ⊙ (ΔΔᵀ); K^V and K^F differ only in how Δ is propagated. Which of them exist
    depends on the gates:

        own hard gates (ReLU):  K = K^V
        own soft gates:         K = K^V + K^F + K^X over the weights of the one network
        gates made elsewhere:   K^V over Θ^v and, if gates are soft, K^F over Θ^f; no cross term

    The kernels are over the trained parameters: weights before anything is folded into them,
    biases, and γ and shifts of BatchNorm in evaluation mode (its statistics are constants).

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        logits: 'mean' for Σ_k K[k, k]/C, 'sumlogit' for the kernel of Σ_k ŷ_k, 'perclass' for the
          pairs k = k', 'full' for all pairs of logits.
        trains: Which of the two networks train. Default: `network.trains`, as set by the regime, or
          both if that is `None`.
        other: Second set of inputs, `(m, *input_shape)`; the result is the block K(x, other).
        budget_bytes: Memory for the deltas and gradients of one sweep in modes 'mean' and
          'perclass': fewer logits are swept at once to stay below it, but at least one. The other
          modes take one sweep. Default: 256 MiB, or 16 MiB for networks with convolutions.
        trace: Forward pass of `x`, if available.
        other_trace: Forward pass of `other`, if available.
        folded: Whether to differentiate by the folded weights and biases that the layers finally
          apply.

    Returns:
        The kernels in the dtype of the weights: `(n, m)` for 'mean' and 'sumlogit', `(C, n, m)` for
        'perclass', `(n, C, m, C)` for 'full'.

    Raises:
        ValueError: Nothing that trains affects the output, or an argument does not fit.

    References:
        [NPF]; [DGN]. Defined in theory §4.
    """
    check_network_inputs(network, x)
    check_choice("logits", logits, Logits)
    check_trains(trains)
    check_flag("folded", folded)
    if budget_bytes is not None:
        check_count("budget_bytes", budget_bytes)
    if other is not None:
        check_network_inputs(network, other, "other")
        check_gates_have_network(network)
    if trace is not None:
        check_trace("trace", trace, len(x))
    if other_trace is not None and other is not None:
        check_trace("other_trace", other_trace, len(other))
    left = prepare_examples(network, network.trace(x) if trace is None else trace, trains, folded)
    right = left
    if other is not None:
        other_trace = network.trace(other) if other_trace is None else other_trace
        right = prepare_examples(network, other_trace, trains, folded)
    classes = network.architecture.classes
    how: Contraction = "total" if logits in ("mean", "sumlogit") else logits  # type: ignore[assignment]  # 'full' or 'perclass'
    summed = logits == "sumlogit"
    chunks = [slice(0, classes)]
    if logits in ("mean", "perclass"):
        n = max(len(x), len(x if other is None else other))
        chunks = logit_chunks(network.architecture, n, x.element_size(), budget_bytes)
    parts = (sweep_kernels(left, right, output_delta(classes, c, summed, x), how) for c in chunks)
    return _combine_chunks(parts, logits, classes)


def check_gates_have_network(network: GatedNetwork) -> None:
    """Check that a network makes its gates, rather than being given them (FRG).

    Given gates belong to the examples they were drawn for; other inputs have none.

    Args:
        network: The network.

    Raises:
        ValueError: The gates were given.
    """
    if network.given_gates is not None and not network.own_gates:
        raise ValueError(
            "No network makes these gates (FRG): they exist only for the examples they were drawn "
            "for, so a block with other inputs is not defined."
        )


def ntk_cost(architecture: Architecture, n: int) -> float:
    """Estimate the floating-point operations of `tangent_kernels` in mode 'mean'.

    Args:
        architecture: The network; a deep gated network with soft gates costs about twice as much.
        n: Number of examples.

    Returns:
        Number of operations.

    Raises:
        ArgumentError: An argument is of the wrong type, or `n` is below 1.
    """
    check_architecture(architecture)
    check_count("n", n)
    classes = architecture.classes
    cost = 0.0
    for node, shape in architecture.shapes():
        if isinstance(node, Conv):
            weights = node.outputs * node.inputs * node.kernel**2
            products = 2.0 * n * weights * shape[1] * shape[2]
            cost += products * (1 + 2 * classes) + 2.0 * n * n * classes * weights
    for layer in architecture.weight_layers:
        if not isinstance(layer, Conv):
            cost += 2.0 * n * layer.inputs * layer.outputs * (1 + classes)
            cost += 2.0 * n * n * (layer.inputs + classes * layer.outputs)
    return cost


def logit_chunks(
    architecture: Architecture, n: int, item: int, budget: int | None = None
) -> list[slice]:
    """Split the logits such that the deltas and gradients of one sweep fit a budget.

    Args:
        architecture: The network.
        n: Number of examples.
        item: Bytes per number.
        budget: Bytes allowed. Default: 256 MiB, or 16 MiB for networks with convolutions.

    Returns:
        Slices of the logits.
    """
    classes = architecture.classes
    if budget is None:
        maps = any(isinstance(node, Conv) for node in architecture.nodes)
        budget = MAP_BYTES if maps else DENSE_BYTES
    largest = 1
    for node, shape in architecture.shapes():
        weights = node.outputs * node.inputs * node.kernel**2 if isinstance(node, Conv) else 0
        largest = max(largest, 3 * prod(shape) + 2 * weights)
    chunk = max(1, min(classes, budget // (n * largest * item)))
    return [slice(first, min(classes, first + chunk)) for first in range(0, classes, chunk)]


def _combine_chunks(
    parts: Iterable[TangentKernels], logits: Logits, classes: int
) -> TangentKernels:
    """Combine chunks of logits as they arrive: concatenate for 'perclass', sum otherwise."""
    parts_by_kernel: list[list[Tensor]] = [[], [], []]
    for part in parts:
        for collected, kernel in zip(
            parts_by_kernel, (part.value, part.feature, part.cross), strict=True
        ):
            if kernel is not None and collected and logits != "perclass":
                collected[0] += kernel
            elif kernel is not None:
                collected.append(kernel)
    combined = [
        None if not tensors else tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        for tensors in parts_by_kernel
    ]
    for kernel in combined:
        if kernel is not None and logits == "mean":
            kernel.div_(classes)
    return TangentKernels(*combined)
