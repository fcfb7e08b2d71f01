"""Loss and gradients of gated dense chains, without autograd.

The backward pass of a chain z_l = q_l ⊙ G_l has a closed form (theory §1). `DensePass` fixes all
buffers per batch size, so a step allocates almost nothing and never waits for the device. Work that
needs no particular order (gates, gate gradients, weight gradients of layers of one shape) is done
for all layers in one call. Every regime is tested against autograd in float64; `make bench` has the
timings.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.config import Loss
from dgn_engine.model import architecture as arch
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import STRAIGHT
from dgn_engine.training.steps.dense_buffers import DenseWeights, FlatWeights, PassBuffers
from dgn_engine.training.steps.losses import LossSlope

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


def is_dense_chain(network: GatedNetwork) -> bool:
    """Return whether both networks are gated dense layers: chains, or parallel feature layers.

    Args:
        network: The network; the regime may still draw gates per example (FRG), which this does not
            check.

    Returns:
        True if `DenseStep` supports the architecture.
    """
    stacks = (network.value, network.feature)
    return all(type(s) is Stack and is_dense_architecture(s.architecture) for s in stacks)


def is_dense_architecture(architecture: arch.Architecture) -> bool:
    """Return whether an architecture has gated dense layers, in a chain or parallel, and an output.

    Args:
        architecture: Architecture of one network.

    Returns:
        True for flat inputs, gated hidden layers without a factor, and an ungated output.
    """
    nodes = [node for node in architecture.nodes if not isinstance(node, arch.FromInput)]
    *hidden, last = nodes
    return (
        len(architecture.input_shape) == 1
        and bool(hidden)
        and all(isinstance(node, arch.Dense) and node.factor == 1.0 for node in nodes)
        and all(arch.is_gated(node) for node in hidden)
        and not arch.is_gated(last)
    )


class DenseStep:
    """Loss and gradients of a dense network in its current regime.

    Attributes:
        trained: Flat weights trained by the last call, with their gradients.
    """

    def __init__(self, network: GatedNetwork, kind: Loss) -> None:
        """Bind a network; buffers are allocated by the first step.

        Args:
            network: A network for which `is_dense_chain` holds.
            kind: The loss.
        """
        self._network = network
        self._kind: Loss = kind
        self._weights: DenseWeights | None = None
        self._settings: tuple[object, ...] = ()
        self._passes: dict[int, DensePass] = {}  # by the size of the batch
        self.trained: list[FlatWeights] = []

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the mean loss and the logits, and write the gradients.

        The next call overwrites the results.

        Args:
            x: Inputs, (m, inputs).
            y: Labels, (m,) int.

        Returns:
            Mean loss () and logits (m, C).
        """
        chosen = self._get_pass(len(x))
        self.trained = chosen.trained
        return chosen(x, y)

    def ensure_flat(self) -> DenseWeights:
        """Move the weights into flat buffers unless they are there already.

        Steps never move them away, which captured steps rely on.

        Returns:
            The flat weights of both networks.
        """
        if self._weights is None or not self._weights.is_intact:
            self._weights = DenseWeights(self._network)
            self._passes.clear()
        return self._weights

    def _get_pass(self, examples: int) -> DensePass:
        """Return the pass for a batch size; rebuild all passes if settings or weights changed."""
        settings = self._network.settings
        weights = self.ensure_flat()
        if settings != self._settings:
            self._settings = settings
            self._passes.clear()
        if examples not in self._passes:
            self._passes[examples] = DensePass(self._network, weights, self._kind, examples)
        return self._passes[examples]


class DensePass:
    """Loss and gradients of one batch size, under the settings at construction.

    Attributes:
        trained: Flat weights that train; their gradients are those of the last call.
    """

    def __init__(
        self, network: GatedNetwork, weights: DenseWeights, kind: Loss, examples: int
    ) -> None:
        """Allocate the buffers for the network's current settings.

        Args:
            network: The network.
            weights: Its flat weights.
            kind: The loss.
            examples: Batch size m.
        """
        self._gated = len(network.architecture.gated_shapes)
        trains = network.trains or ("value", "feature")
        self._value = PassBuffers(weights.value, examples, self._gated)
        self._gates: _SelfGating | _FeatureGating
        if network.own_gates:
            self._gates = _SelfGating(self._value, network.gate)
        else:
            # No layer reads the outputs of parallel layers, so none are computed.
            linear = network.feature_activation == "linear"
            linear = linear or network.feature.architecture.is_parallel
            feature = PassBuffers(weights.feature, examples, self._gated, linear)
            self._gates = _FeatureGating(network, self._value, feature)
        self._trains_value = "value" in trains
        self._trains_feature = "feature" in trains and self._gates.carry_gradients
        self.trained: list[FlatWeights] = []
        if self._trains_value:
            self.trained.append(weights.flat_value)
        if self._trains_feature:
            self.trained.append(weights.flat_feature)
        self._logits = self._value.pre.flat.new_empty(examples, weights.value.widths[-1])
        self._loss = LossSlope(kind, self._logits)

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the mean loss and the logits, and write the gradients.

        Args:
            x: Inputs, (m, inputs).
            y: Labels, (m,) int.

        Returns:
            Mean loss () and logits (m, C); the next call overwrites them.
        """
        layers, given = self._value.layers, self._value.given.layers
        fed = self._gates.forward(x)
        layers.compute_pre(self._gated, given[-1], self._logits)
        value, delta = self._loss(self._logits, y)
        if self._trains_value:
            layers.collect_gradients(self._gated, delta, given[-1])
        self._backward_value(delta)
        if self._trains_feature:
            self._gates.backward()
        if self._trains_value:
            self._value.collect_hidden()
        self._collect_first(x, fed)
        return value, self._logits

    def _collect_first(self, x: Tensor, fed: Tensor) -> None:
        """Write the gradients of the first layer of each trained network."""
        value, feature = self._value, self._gates.feature
        if self._trains_value:
            value.layers.collect_gradients(0, value.delta.layers[0], fed)
        if self._trains_feature and feature is not None:
            for index in range(self._gated if self._gates.parallel else 1):
                feature.layers.collect_gradients(index, feature.delta.layers[index], x)

    def _backward_value(self, delta: Tensor) -> None:
        """Propagate from dL/dlogits through the gated layers of the value network."""
        value, slopes = self._value, self._gates.slopes
        for index in range(self._gated - 1, -1, -1):
            into = value.into.layers[index]
            torch.mm(delta, value.layers.weights[index + 1], out=into)  # dL/dz_l = Δ_{l+1} W_{l+1}
            delta = value.delta.layers[index]
            torch.mul(into, slopes[index], out=delta)  # Δ_l = dL/dz_l ⊙ dz_l/dq_l


class _GateMaker:
    """Gates from the pre-activations of one network: `made` G, and `opened` 1{q > 0}."""

    def __init__(self, buffers: PassBuffers, gate: Gate) -> None:
        self._pre, self._given, self._gate = buffers.pre, buffers.given, gate
        self.soft = gate.soft and not gate.open
        self.opened = buffers.new_units()
        self.made = buffers.new_units() if gate.soft or gate.open else self.opened
        # σ(βq), before the factor 1 + ε of a soft gate.
        self._share = buffers.new_units() if gate.epsilon else self.made
        if gate.open:
            self.made.flat.fill_(1.0)

    def compute_open(self, rectified: bool) -> None:
        """Compute 1{q > 0} of all layers.

        Args:
            rectified: Whether z = max(q, 0) is available, whose sign is cheaper.
        """
        if rectified:
            torch.sign(self._given.flat, out=self.opened.flat)  # faster than a comparison
        else:
            torch.gt(self._pre.flat, 0.0, out=self.opened.flat)

    def soften_gates(self, index: int | None = None) -> None:
        """Compute soft gates G = (1 + ε) σ(βq).

        Args:
            index: Layer, from 0; None for all layers at once.
        """
        pre, share, gates = (
            units.flat if index is None else units.layers[index]
            for units in (self._pre, self._share, self.made)
        )
        torch.mul(pre, self._gate.beta, out=share)
        share.sigmoid_()
        if self._gate.epsilon:
            torch.mul(share, 1.0 + self._gate.epsilon, out=gates)

    def backward_gates(self, delta: Tensor, out: Tensor) -> None:
        """Propagate through soft gates: dL/dq = β(1 + ε) s(1 - s) ⊙ dL/dG with s = σ(βq).

        Args:
            delta: dL/dG of all units, flat.
            out: Receives dL/dq, flat.
        """
        _sigmoid_backward(delta, self._share.flat, grad_input=out)  # Δ_G ⊙ s(1 - s), s = σ(βq)
        out.mul_(self._gate.beta * (1.0 + self._gate.epsilon))


class _SelfGating:
    """Gates that the value network makes itself; `slopes` is dz/dq of each layer."""

    carry_gradients = False  # there is no other network
    feature = None
    parallel = False

    def __init__(self, value: PassBuffers, gate: Gate) -> None:
        self._value, self._maker = value, _GateMaker(value, gate)
        self._hard = not (gate.soft or gate.open)
        self._slopes = value.new_units() if self._maker.soft else self._maker.made
        self.slopes = self._slopes.layers

    def forward(self, x: Tensor) -> Tensor:
        """Run the gated layers.

        Args:
            x: Inputs, (m, inputs).

        Returns:
            Input of the first layer, here `x` itself.
        """
        value, z = self._value, x
        pairs = zip(value.pre.layers, value.given.layers, strict=True)
        for index, (pre, given) in enumerate(pairs):
            value.layers.compute_pre(index, z, pre)
            if self._hard:
                torch.clamp_min(pre, 0.0, out=given)
            elif self._maker.soft:
                self._maker.soften_gates(index)
                torch.mul(pre, self._maker.made.layers[index], out=given)
            else:
                given.copy_(pre)
            z = given
        if self._hard:
            self._maker.compute_open(rectified=True)
        elif self._maker.soft:
            self._maker.backward_gates(value.pre.flat, self._slopes.flat)  # dz/dq = G + q ∂γ(q)
            self._slopes.flat.add_(self._maker.made.flat)
        return x

    def backward(self) -> None:
        """Do nothing: there is no feature network."""


class _FeatureGating:
    """Gates that the feature network makes; `slopes` holds the routed gates of each value layer."""

    def __init__(
        self,
        network: GatedNetwork,
        value: PassBuffers,
        feature: PassBuffers,
    ) -> None:
        self._network, self._value, self.feature = network, value, feature
        self._maker = _GateMaker(feature, network.gate)
        self.carry_gradients = self._maker.soft
        self.parallel = network.feature.architecture.is_parallel
        self._linear = network.feature_activation == "linear" or self.parallel
        self._wires = list(zip(network.wiring, network.routes, strict=True))
        self._moved = any(route != STRAIGHT for route in network.routes)
        self._as_made = not self._moved and network.wiring == tuple(range(len(self._wires)))
        # dL/dG; where nothing is routed it overwrites dL/dz, which is not needed again.
        self._arrived = value.into if self._as_made else feature.new_units()
        self.slopes = [self._maker.made.layers[source] for source, _ in self._wires]

    def forward(self, x: Tensor) -> Tensor:
        """Run the gated layers of both networks.

        Args:
            x: Inputs, (m, inputs).

        Returns:
            Input of the first value layer, (m, inputs), or (1, inputs) if all examples share it.
        """
        network, value = self._network, self._value
        fed = network.input_of_value(x if network.value_input == "image" else x[:1])
        self._first_layers(x, fed)
        self._forward_feature(x)
        if self._moved:
            gates = self._maker.made.layers
            self.slopes = [route(gates[source]) for source, route in self._wires]
        for index, gate in enumerate(self.slopes):
            pre, given = value.pre.layers[index], value.given.layers[index]
            if index:
                value.layers.compute_pre(index, value.given.layers[index - 1], pre)
            torch.mul(pre, gate, out=given)  # z_l = q_l ⊙ G_l
        return fed

    def _first_layers(self, x: Tensor, fed: Tensor) -> None:
        """Run the first layer of each network."""
        self.feature.layers.compute_pre(0, x, self.feature.pre.layers[0])
        pre = self._value.pre.layers[0]
        if len(fed) == len(pre):
            self._value.layers.compute_pre(0, fed, pre)
        else:
            row = pre[:1]
            self._value.layers.compute_pre(0, fed, row)
            pre[1:] = row

    def _forward_feature(self, x: Tensor) -> None:
        feature = self.feature
        for index, pre in enumerate(feature.pre.layers):
            if index:
                below = x if self.parallel else feature.given.layers[index - 1]
                feature.layers.compute_pre(index, below, pre)
            if not self._linear:  # χ^f stays a ReLU when gates are soft (theory §1)
                torch.clamp_min(pre, 0.0, out=feature.given.layers[index])
        if not self._linear or not self._maker.soft:
            self._maker.compute_open(rectified=not self._linear)
        if self._maker.soft:
            self._maker.soften_gates()

    def backward(self) -> None:
        """Write the gradients of the feature network, except of layers that read the input."""
        feature, delta = self.feature, self.feature.delta
        self._route_gradients()  # dL/dG of the value layers, routed back
        self._maker.backward_gates(self._arrived.flat, delta.flat)
        if self.parallel:
            return
        for index in range(len(delta.layers) - 2, -1, -1):
            passed = feature.into.layers[index]
            torch.mm(delta.layers[index + 1], feature.layers.weights[index + 1], out=passed)
            if self._linear:  # Δ_l = ∂γ ⊙ dL/dG_l + χ^f'(q_l) ⊙ (Δ_{l+1} W_{l+1})
                delta.layers[index].add_(passed)
            else:
                delta.layers[index].addcmul_(passed, self._maker.opened.layers[index])
        feature.collect_hidden()

    def _route_gradients(self) -> None:
        """Route dL/dG of the value layers back to the feature layers that made the gates."""
        value = self._value
        if self._as_made:
            torch.mul(value.into.flat, value.pre.flat, out=self._arrived.flat)  # dL/dG = dL/dz ⊙ q
            return
        triples = zip(self._wires, value.into.layers, value.pre.layers, strict=True)
        for (source, route), into, pre in triples:
            target = self._arrived.layers[source]
            if route == STRAIGHT:
                torch.mul(into, pre, out=target)
            else:
                target.copy_(route.transpose(into * pre))
