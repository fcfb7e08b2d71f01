"""E[K^F_0]: the kernel of trained gates, expected over random value weights ([DGN] Lemma 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_network_inputs
from dgn_engine.kernels.expectation import check_sigmas, weight_sigmas
from dgn_engine.kernels.gram import flat_gram
from dgn_engine.kernels.precision import full_precision
from dgn_engine.model.architecture import Dense
from dgn_engine.model.network import GatedNetwork

TILE_BYTES = 32 << 20


@torch.no_grad()
@full_precision
def expected_feature_kernel(
    network: GatedNetwork,
    x: Tensor,
    other: Tensor | None = None,
    sigmas: Sequence[float] | None = None,
) -> Tensor:
    """E[K^F_0] (n, n), float64, per logit, of a dense deep gated network with soft gates at inputs
    x (n, *input_shape); against `other` (m, *input_shape) the block (n, m).

    The mean of K^F over value weights that are independent, of mean zero, with standard deviations
    `sigmas` by layer (unless given, the root mean square of each layer's weights), the feature
    network as it is: exact at any width. It is Π_l σ_l² Σ ⊙ δ, with δ(s, s') =
    Σ_θ Σ_p ∂_θA(x_s, p) ∂_θA(x_s', p) over feature parameters θ and paths p from one input unit.
    No path is counted: with τ_l over pairs, δ is Σ_l Π_{m≠l} τ_m Σ_i ∂γ_i∂γ_i'⟨∇q_i, ∇q_i'⟩ and, of
    two layers, Σ_{l≠k} Π_{m≠l,k} τ_m ⟨Σ_i G_i'∂γ_i∇q_i, Σ_j G_j∂γ_j'∇q_j'⟩, by sweeps through the
    feature network; the second costs O(n²w²). Wiring, rotation, tiling and feature biases count.

    Raises `ArgumentError` for networks of which this is not the expectation.
    Source: [DGN] Lemma 3.1.
    """
    check_network_inputs(network, x)
    if other is not None:
        check_network_inputs(network, other, "other")
    _check_kind(network)
    if sigmas is None:
        sigmas = weight_sigmas(network.value.tensors()[0])
    check_sigmas(network.architecture, sigmas)
    one = _FeaturePass(network, x)
    two = one if other is None else _FeaturePass(network, other)
    delta = _Delta(network, one, two, sigmas).total()
    return flat_gram(one.x_value, two.x_value) * delta * sigmas[-1] ** 2


def _check_kind(network: GatedNetwork) -> None:
    """Raise `ArgumentError` where Lemma 3.1 does not say what E[K^F_0] is."""
    if network.own_gates or network.given_gates is not None or network.drawn_gates:
        raise ArgumentError(
            "E[K^F_0] needs a feature network of its own: gates of the value network's own depend "
            "on its weights, and coins have no gradient.",
            kind="not-supported",
        )
    if not network.gate.soft or network.gate.open:
        raise ArgumentError(
            "K^F is zero here: these gates have no gradient, only soft ones do.", kind="singular"
        )
    nodes = network.architecture.nodes
    if not all(isinstance(node, Dense) for node in nodes) or not all(
        isinstance(node, Dense) and node.gated for node in nodes[:-1]
    ):
        raise ArgumentError(
            "E[K^F_0] is known for dense networks whose every hidden layer is gated.",
            kind="not-supported",
        )
    if len(network.value.biases):
        raise ArgumentError(
            "E[K^F_0] counts paths of weights; this value network has biases.", kind="not-supported"
        )
    stack = network.feature
    if stack.frozen or not all(one.plain for one in stack.layer_parameters()):
        raise ArgumentError(
            "E[K^F_0] is over feature weights and biases that all train, without constant factors.",
            kind="not-supported",
        )


class _FeaturePass:
    """What the feature network makes of some inputs, by its layers, float64: what each is fed, the
    gate, its derivative, and the slope of what is passed on."""

    def __init__(self, network: GatedNetwork, x: Tensor) -> None:
        trace = network.trace(x).feature
        assert trace is not None
        self.x_value = network.input_of_value(x).double()
        self.inputs = [z.double() for z in trace.inputs]
        pre = [q.double() for q in trace.pre]
        self.gates = [network.gate(q) for q in pre]
        self.changes = [network.gate.derivative(q) for q in pre]
        self.slopes = [g.double() for g in trace.gates]


@dataclass(frozen=True)
class _Delta:
    """Π_{l<d} σ_l² δ between two sets of examples."""

    network: GatedNetwork
    one: _FeaturePass
    two: _FeaturePass
    sigmas: Sequence[float]

    def total(self) -> Tensor:
        grams = [flat_gram(a, b) for a, b in zip(self.one.inputs, self.two.inputs, strict=True)]
        if len(self.network.feature.biases):
            grams = [gram + 1.0 for gram in grams]
        scales = self._scales()
        tau = [
            scale * flat_gram(a, b)
            for scale, a, b in zip(scales, self.one.gates, self.two.gates, strict=True)
        ]
        total = torch.zeros_like(tau[0])
        for layer, scale in enumerate(scales):
            total += scale * self._same_layer(layer, grams) * _others(tau, {layer})
        widest = max(gates.shape[1] for gates in self.one.gates)
        rows = max(1, TILE_BYTES // (8 * len(tau) ** 2 * tau[0].shape[1] * widest))
        for left in range(0, len(total), rows):
            part = slice(left, min(len(total), left + rows))
            total[part] += self._two_layers(part, grams, tau, scales)
        return total

    def _scales(self) -> list[float]:
        """Of each feature layer σ² of the value layer that it gates, and how often its units are
        seen there."""
        network = self.network
        scales = [0.0] * len(network.wiring)
        for place, (source, route) in enumerate(zip(network.wiring, network.routes, strict=True)):
            scales[source] = self.sigmas[place] ** 2 * route.tile
        return scales

    def _weights(self) -> list[Tensor]:
        return [weight.double() for weight in self.network.feature.tensors()[0]]

    def _same_layer(self, layer: int, grams: list[Tensor]) -> Tensor:
        """Σ_i ∂γ_i∂γ_i'⟨∇q_i, ∇q_i'⟩ over the units of one layer, (n, m)."""
        weights = self._weights()
        sides = [torch.diag_embed(each.changes[layer]) for each in (self.one, self.two)]
        total = grams[layer] * flat_gram(*sides)
        for below in reversed(range(layer)):
            sides = [
                (side @ weights[below + 1]) * each.slopes[below][:, None]
                for side, each in zip(sides, (self.one, self.two), strict=True)
            ]
            total += grams[below] * flat_gram(*sides)
        return total

    def _two_layers(
        self, part: slice, grams: list[Tensor], tau: list[Tensor], scales: list[float]
    ) -> Tensor:
        """The terms of two different layers for some rows, (r, m)."""
        weights, layers = self._weights(), range(len(tau))
        one, two = self.one, self.two
        # By the layer where they begin: gradients at s against the gates at s', and the reverse.
        ours: dict[int, Tensor] = {}
        theirs: dict[int, Tensor] = {}
        total = torch.zeros_like(tau[0][part])
        for below in reversed(layers):
            for sides, slopes in (
                (ours, one.slopes[below][part][:, None]),
                (theirs, two.slopes[below][None]),
            ):
                for layer in sides:
                    sides[layer] = (sides[layer] @ weights[below + 1]) * slopes
            ours[below] = one.changes[below][part][:, None] * two.gates[below][None]
            theirs[below] = two.changes[below][None] * one.gates[below][part][:, None]
            for layer in ours:
                for partner in theirs:
                    if layer != partner:
                        product = (ours[layer] * theirs[partner]).sum(2)
                        rest = _others([each[part] for each in tau], {layer, partner})
                        product *= scales[layer] * scales[partner]
                        total += grams[below][part] * product * rest
        return total


def _others(tau: list[Tensor], without: set[int]) -> Tensor:
    """The product of all τ but some, (n, m)."""
    kept = [each for place, each in enumerate(tau) if place not in without]
    return prod(kept, start=torch.ones_like(tau[0]))
