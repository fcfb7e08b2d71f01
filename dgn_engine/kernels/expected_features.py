"""δ of [DGN] Lemma 3.1, and E[K^F_0] = σ^{2d} Σ ⊙ δ, the expected tangent kernel of the gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_choice, check_network_inputs
from dgn_engine.kernels.expectation import check_sigmas, weight_sigmas
from dgn_engine.kernels.gram import flat_gram
from dgn_engine.kernels.path_kernels import Normalise, normalise_kernel
from dgn_engine.kernels.precision import full_precision
from dgn_engine.model.architecture import Architecture, Dense
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
    """Compute the expected feature tangent kernel at initialisation, E[K^F_0].

    It is the mean of K^F over value weights that are independent with mean zero and standard
    deviations σ_l, for the current feature network, and exact at any width:

        E[K^F_0] = Π_l σ_l² Σ ⊙ δ,   δ(s, s') = Σ_θ Σ_p ∂_θA(x_s, p) ∂_θA(x_s', p),

    over feature parameters θ and paths p from one input unit (see `path_gradient_overlap`).

    Args:
        network: Dense deep gated network with soft gates made by a feature network.
        x: Inputs, `(n, *input_shape)`.
        other: Second set of inputs, `(m, *input_shape)`.
        sigmas: Standard deviations of the value weights, one per weight layer. Default: the root
          mean square of each layer's weights.

    Returns:
        E[K^F_0] per logit, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: The lemma does not apply to this network.

    References:
        [DGN] Lemma 3.1.
    """
    check_network_inputs(network, x)
    if other is not None:
        check_network_inputs(network, other, "other")
    _check_kind(network)
    if sigmas is None:
        sigmas = weight_sigmas(network.value.folded_tensors()[0])
    check_sigmas(network.architecture, sigmas)
    rows = _FeaturePass(network, x)
    columns = rows if other is None else _FeaturePass(network, other)
    delta = _Delta(network, rows, columns, sigmas).total()
    return flat_gram(rows.x_value, columns.x_value) * delta * sigmas[-1] ** 2


@torch.no_grad()
@full_precision
def path_gradient_overlap(
    network: GatedNetwork, x: Tensor, other: Tensor | None = None, normalise: Normalise = "none"
) -> Tensor:
    """Compute δ, the overlap of the gradients of path activities.

        δ(s, s') = Σ_θ Σ_p ∂_θA(x_s, p) ∂_θA(x_s', p)

    over feature parameters θ and paths p from one input unit. `sensitive_overlap` S is simpler: it
    differentiates by the pre-activations instead of θ, each layer on its own. Paths are not
    enumerated. With τ_m the gate overlaps, δ is the sum of a term per layer and a term per pair of
    layers,

        Σ_l Π_{m≠l} τ_m Σ_i ∂γ_i ∂γ_i' ⟨∇q_i, ∇q_i'⟩
        + Σ_{l≠k} Π_{m≠l,k} τ_m ⟨Σ_i G_i' ∂γ_i ∇q_i, Σ_j G_j ∂γ_j' ∇q_j'⟩,

    each computed by sweeps through the feature network at a cost of O(d²nw³ + d²n²w²). Parallel
    feature layers share no weights, so their pairs vanish and ∇q_i of a layer is by its own weights
    only. Wiring, rotation, tiling and biases of the feature network are taken into account.

    Args:
        network: Dense deep gated network with soft gates made by a feature network.
        x: Inputs, `(n, *input_shape)`.
        other: Second set of inputs, `(m, *input_shape)`.
        normalise: As for `sensitive_overlap`; 'trace' and 'cosine' only without `other`.

    Returns:
        δ, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: The lemma does not apply to this network, or a block has no such scale.

    References:
        [DGN] Lemma 3.1.
    """
    check_network_inputs(network, x)
    check_choice("normalise", normalise, Normalise)
    if other is not None:
        check_network_inputs(network, other, "other")
        if normalise in ("trace", "cosine"):
            raise ArgumentError(
                f"normalise is {normalise!r}, which needs the diagonal of a square kernel; use "
                "'none' or 'width' with other.",
                kind="contradiction",
            )
    _check_kind(network)
    widths = [shape[0] for shape in network.architecture.gated_shapes]
    rows = _FeaturePass(network, x)
    columns = rows if other is None else _FeaturePass(network, other)
    by_width = _Delta(network, rows, columns, [width**-0.5 for width in widths]).total()
    return normalise_kernel(by_width, normalise, float(prod(widths)))


def path_gradient_cost(architecture: Architecture, n: int) -> float:
    """Estimate the cost of δ: of its terms for layers, and for pairs of layers.

    Args:
        architecture: Architecture of one network.
        n: Number of examples.

    Returns:
        FLOP.
    """
    widths = [shape[0] for shape in architecture.gated_shapes if len(shape) == 1]
    layers, widest = len(widths), max(widths, default=0)
    backward = 2.0 * n * widest**3 * max(0, layers - 1) * max(0, layers - 2)
    return backward + 10.0 * n**2 * layers**2 * widest**2


def _check_kind(network: GatedNetwork) -> None:
    """Raise `ArgumentError` if Lemma 3.1 does not apply to the network."""
    if network.own_gates or network.has_random_gates:
        raise ArgumentError(
            "Lemma 3.1 of [DGN] needs a separate feature network: a network's own gates depend on "
            "its weights, and random gates have no gradient.",
            kind="not-supported",
        )
    if not network.gate.soft or network.gate.open:
        raise ArgumentError(
            "Lemma 3.1 of [DGN] needs soft gates: others have no gradient, so K^F and δ are zero.",
            kind="singular",
        )
    nodes = network.architecture.nodes
    if not all(isinstance(node, Dense) for node in nodes) or not all(
        isinstance(node, Dense) and node.gated for node in nodes[:-1]
    ):
        raise ArgumentError(
            "Lemma 3.1 of [DGN] is for dense networks with a gate in every hidden layer.",
            kind="not-supported",
        )
    if len(network.value.biases):
        raise ArgumentError(
            "Lemma 3.1 of [DGN] is for a value network without biases.", kind="not-supported"
        )
    stack = network.feature
    if stack.is_partly_frozen or not all(layer.is_plain for layer in stack.layer_parameters()):
        raise ArgumentError(
            "Lemma 3.1 of [DGN] needs a feature network whose weights and biases all train, "
            "without constant factors.",
            kind="not-supported",
        )


class _FeaturePass:
    """A forward pass of the feature network in float64, layer by layer.

    Attributes:
        inputs: Inputs of each layer.
        gates: γ(q_l).
        changes: ∂γ(q_l).
        slopes: χ'(q_l) of what is passed on to the next layer.
    """

    def __init__(self, network: GatedNetwork, x: Tensor) -> None:
        trace = network.trace(x).feature
        assert trace is not None
        self.x_value = network.input_of_value(x).double()
        doubled = {id(z): z.double() for z in trace.inputs}  # parallel layers share one input
        self.inputs = [doubled[id(z)] for z in trace.inputs]
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
        """Compute the sum over layers and pairs of layers, `(n, m)`."""
        grams = [flat_gram(a, b) for a, b in zip(self.one.inputs, self.two.inputs, strict=True)]
        if len(self.network.feature.biases):
            grams = [gram + 1.0 for gram in grams]
        scales = self._gating_scales()
        tau = [
            scale * flat_gram(a, b)
            for scale, a, b in zip(scales, self.one.gates, self.two.gates, strict=True)
        ]
        total = torch.zeros_like(tau[0])
        for layer, scale in enumerate(scales):
            # Π_{m≠l} τ_m ⊙ Σ_i ∂γ_i∂γ_i'⟨∇q_i, ∇q_i'⟩
            total += scale * self._same_layer(layer, grams) * _product_without(tau, {layer})
        if self._is_parallel:
            return total
        widest = max(gates.shape[1] for gates in self.one.gates)
        rows = max(1, TILE_BYTES // (8 * len(tau) ** 2 * tau[0].shape[1] * widest))
        for start in range(0, len(total), rows):
            part = slice(start, min(len(total), start + rows))
            total[part] += self._two_layers(part, grams, tau, scales)
        return total

    @property
    def _is_parallel(self) -> bool:
        """Return whether no feature layer reads another one."""
        return self.network.feature.architecture.is_parallel

    def _gating_scales(self) -> list[float]:
        """Return σ_l² of the value layer that each feature layer gates, times its tiling."""
        network = self.network
        scales = [0.0] * len(network.wiring)
        for layer, (source, route) in enumerate(zip(network.wiring, network.routes, strict=True)):
            scales[source] = self.sigmas[layer] ** 2 * route.tile
        return scales

    def _feature_weights(self) -> list[Tensor]:
        """Return the feature weights in float64."""
        return [weight.double() for weight in self.network.feature.folded_tensors()[0]]

    def _same_layer(self, layer: int, grams: list[Tensor]) -> Tensor:
        """Compute Σ_i ∂γ_i ∂γ_i' ⟨∇q_i, ∇q_i'⟩ over the units of one layer, `(n, m)`."""
        pair = (self.one, self.two)
        total = grams[layer] * flat_gram(*(examples.changes[layer] for examples in pair))
        if not layer or self._is_parallel:
            return total
        weights = self._feature_weights()
        examples_at_once = max(len(examples.changes[layer]) for examples in pair)
        widest = max(gates.shape[1] for gates in self.one.gates[:layer])
        size = max(1, TILE_BYTES // (8 * examples_at_once * widest))
        for start in range(0, len(weights[layer]), size):
            units = slice(start, start + size)
            # back through the feature network: ∇q_{l-1} = (∇q_l W_l) ⊙ χ'(q_{l-1})
            sides = [
                examples.changes[layer][:, units, None] * weights[layer][units] for examples in pair
            ]
            for below in reversed(range(layer)):
                sides = [
                    side * examples.slopes[below][:, None]
                    for side, examples in zip(sides, pair, strict=True)
                ]
                total += grams[below] * flat_gram(*sides)
                if below:
                    sides = [side @ weights[below] for side in sides]
        return total

    def _two_layers(
        self, part: slice, grams: list[Tensor], tau: list[Tensor], scales: list[float]
    ) -> Tensor:
        """Compute the terms of all pairs of different layers for some rows, `(r, m)`."""
        weights, layers = self._feature_weights(), range(len(tau))
        one, two = self.one, self.two
        # By the layer where they start: gradients at s against gates at s', and the reverse.
        row_gradients: dict[int, Tensor] = {}
        column_gradients: dict[int, Tensor] = {}
        total = torch.zeros_like(tau[0][part])
        for below in reversed(layers):
            for sides, slopes in (
                (row_gradients, one.slopes[below][part][:, None]),
                (column_gradients, two.slopes[below][None]),
            ):
                for layer in sides:
                    sides[layer] = (sides[layer] @ weights[below + 1]) * slopes
            row_gradients[below] = one.changes[below][part][:, None] * two.gates[below][None]
            column_gradients[below] = two.changes[below][None] * one.gates[below][part][:, None]
            for layer in row_gradients:
                for partner in column_gradients:
                    if layer != partner:
                        product = (row_gradients[layer] * column_gradients[partner]).sum(2)
                        rest = _product_without([each[part] for each in tau], {layer, partner})
                        product *= scales[layer] * scales[partner]
                        total += grams[below][part] * product * rest
        return total


def _product_without(tau: list[Tensor], without: set[int]) -> Tensor:
    """Multiply all τ except those of some layers, `(n, m)`."""
    factors = [gram for layer, gram in enumerate(tau) if layer not in without]
    return prod(factors, start=torch.ones_like(tau[0]))
