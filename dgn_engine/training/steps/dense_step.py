"""One step of a chain of dense layers by hand: its losses and gradients without an autograd graph.

The backward pass of such a chain is known (THEORY §1): z_l = q_l ⊙ G_l. What is written where is
decided once for each size of a batch (`DensePass`), so that a step allocates next to nothing and
waits for nothing; `make bench` has the figures, and the tests hold every regime against autograd
in float64. What can be done for all layers at once is: gates, what comes back to them, gradients
of layers of one shape.
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
    """Whether both networks are chains of gated dense layers; gates that are drawn for single
    examples (FRG) are another matter."""
    stacks = (network.value, network.feature)
    return all(type(s) is Stack and is_dense_architecture(s.architecture) for s in stacks)


def is_dense_architecture(architecture: arch.Architecture) -> bool:
    """Return whether it is a chain of gated dense layers and an output layer."""
    *hidden, last = architecture.nodes
    return (
        len(architecture.input_shape) == 1
        and bool(hidden)
        and all(isinstance(node, arch.Dense) and node.factor == 1.0 for node in architecture.nodes)
        and all(arch.is_gated(node) for node in hidden)
        and not arch.is_gated(last)
    )


class DenseStep:
    """Losses and gradients of one network that `is_dense_chain`, in its regime of the moment.

    `trained`: of the last call, what trains and by what it moves.
    """

    def __init__(self, network: GatedNetwork, kind: Loss) -> None:
        self._network = network
        self._kind: Loss = kind
        self._weights: DenseWeights | None = None
        self._settings: tuple[object, ...] = ()
        self._passes: dict[int, DensePass] = {}  # by the size of the batch
        self.trained: list[FlatWeights] = []

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and logits (m, C) for x (m, inputs), y (m,); fills the gradients.

        The next call writes over them.
        """
        chosen = self._pass(len(x))
        self.trained = chosen.trained
        return chosen(x, y)

    def lay_weights(self) -> DenseWeights:
        """Lay the weights side by side, unless that is where they are; no step moves them away."""
        if self._weights is None or not self._weights.intact:
            self._weights = DenseWeights(self._network)
            self._passes.clear()
        return self._weights

    def _pass(self, examples: int) -> DensePass:
        """The one for batches of this size; all are made anew once anything was set or moved."""
        settings = self._network.settings
        weights = self.lay_weights()
        if settings != self._settings:
            self._settings = settings
            self._passes.clear()
        if examples not in self._passes:
            self._passes[examples] = DensePass(self._network, weights, self._kind, examples)
        return self._passes[examples]


class DensePass:
    """Losses and gradients, under the settings that the network has when this is made.

    `trained`: what trains; its gradients are those of the last call.
    """

    def __init__(
        self, network: GatedNetwork, weights: DenseWeights, kind: Loss, examples: int
    ) -> None:
        self._gated = len(network.architecture.gated_shapes)
        trains = network.trains or ("value", "feature")
        self._value = PassBuffers(weights.value, examples, self._gated)
        self._gates: _SelfGating | _FeatureGating
        if network.own_gates:
            self._gates = _SelfGating(self._value, network.gate)
        else:
            linear = network.feature_activation == "linear"
            feature = PassBuffers(weights.feature, examples, self._gated, linear)
            self._gates = _FeatureGating(network, weights, self._value, feature)
        self._trains_value = "value" in trains
        self._trains_feature = "feature" in trains and self._gates.carry_gradients
        self.trained: list[FlatWeights] = []
        if self._trains_value:
            self.trained.append(weights.flat_value)
        if self._trains_feature:
            self.trained.append(weights.flat_feature)
        self._both: Tensor | None = None  # dL/dq of the first layers, where both are fed the same
        if network.value_input == "image" and len(self.trained) == 2:
            self._both = self._lay_first_deltas(weights, examples)
        self._logits = self._value.pre.flat.new_empty(examples, weights.value.widths[-1])
        self._loss = LossSlope(kind, self._logits)

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and logits (m, C) for x (m, inputs), y (m,)."""
        layers, given = self._value.layers, self._value.given.layers
        fed = self._gates.forward(x)
        layers.product(self._gated, given[-1], self._logits)
        found, delta = self._loss(self._logits, y)
        if self._trains_value:
            layers.collect(self._gated, delta, given[-1])
        self._backward(delta)
        if self._trains_feature:
            self._gates.backward()
        if self._trains_value:
            self._value.collect_hidden()
        self._collect_first(x, fed)
        return found, self._logits

    def _lay_first_deltas(self, weights: DenseWeights, examples: int) -> Tensor | None:
        """Put those of the value network beside room for those of the feature network."""
        if weights.first_gradient is None:
            return None
        self._first_gradient = weights.first_gradient
        both = self._value.pre.flat.new_empty(examples, len(weights.first_gradient))
        self._value.delta.layers[0] = both[:, : weights.value.widths[0]]
        return both

    def _collect_first(self, x: Tensor, fed: Tensor) -> None:
        own, feature = self._value.delta.layers[0], self._gates.feature
        if self._both is not None and feature is not None:
            others = feature.delta.layers[0]
            self._both[:, own.shape[1] :] = others
            torch.mm(self._both.t(), x, out=self._first_gradient)
            self._value.layers.collect_bias(0, own)
            feature.layers.collect_bias(0, others)
            return
        if self._trains_value:
            self._value.layers.collect(0, own, fed)
        if self._trains_feature and feature is not None:
            feature.layers.collect(0, feature.delta.layers[0], x)

    def _backward(self, delta: Tensor) -> None:
        """Through the gated layers, from dL/dlogits."""
        value, slopes = self._value, self._gates.slopes
        for place in range(self._gated - 1, -1, -1):
            into = value.into.layers[place]
            torch.mm(delta, value.layers.weights[place + 1], out=into)
            delta = value.delta.layers[place]
            torch.mul(into, slopes[place], out=delta)


class _Maker:
    """Gates of one network's pre-activations: `made`, and `opened`, 1{q > 0}."""

    def __init__(self, buffers: PassBuffers, gate: Gate) -> None:
        self._pre, self._given, self._gate = buffers.pre, buffers.given, gate
        self.soft = gate.soft and not gate.open
        self.opened = buffers.units()
        self.made = buffers.units() if gate.soft or gate.open else self.opened
        # σ(βq): what a gate was before it was stretched.
        self._share = buffers.units() if gate.epsilon else self.made
        if gate.open:
            self.made.flat.fill_(1.0)

    def open(self, rectified: bool) -> None:
        """Of all layers; `rectified`: what they give is max(q, 0)."""
        if rectified:
            torch.sign(self._given.flat, out=self.opened.flat)  # quicker than to compare
        else:
            torch.gt(self._pre.flat, 0.0, out=self.opened.flat)

    def soften(self, place: int | None = None) -> None:
        """Make soft gates of one layer, or of all."""
        pre, share, made = (
            units.flat if place is None else units.layers[place]
            for units in (self._pre, self._share, self.made)
        )
        torch.mul(pre, self._gate.beta, out=share)
        share.sigmoid_()
        if self._gate.epsilon:
            torch.mul(share, 1.0 + self._gate.epsilon, out=made)

    def through(self, delta: Tensor, out: Tensor) -> None:
        """dL/dq for dL/dG `delta`, both of all units, of soft gates."""
        _sigmoid_backward(delta, self._share.flat, grad_input=out)
        out.mul_(self._gate.beta * (1.0 + self._gate.epsilon))


class _SelfGating:
    """The value network gates itself; `slopes` is dz/dq of each layer."""

    carry_gradients = False  # to no other network
    feature = None

    def __init__(self, value: PassBuffers, gate: Gate) -> None:
        self._value, self._maker = value, _Maker(value, gate)
        self._hard = not (gate.soft or gate.open)
        self._slopes = value.units() if self._maker.soft else self._maker.made
        self.slopes = self._slopes.layers

    def forward(self, x: Tensor) -> Tensor:
        """Through the gated layers; what the first of them was fed."""
        value, z = self._value, x
        pairs = zip(value.pre.layers, value.given.layers, strict=True)
        for place, (pre, given) in enumerate(pairs):
            value.layers.product(place, z, pre)
            if self._hard:
                torch.clamp_min(pre, 0.0, out=given)
            elif self._maker.soft:
                self._maker.soften(place)
                torch.mul(pre, self._maker.made.layers[place], out=given)
            else:
                given.copy_(pre)
            z = given
        if self._hard:
            self._maker.open(rectified=True)
        elif self._maker.soft:
            self._maker.through(value.pre.flat, self._slopes.flat)
            self._slopes.flat.add_(self._maker.made.flat)
        return x

    def backward(self) -> None:
        """There is no other network."""


class _FeatureGating:
    """The feature network makes the gates; `slopes` are those of each value layer."""

    def __init__(
        self,
        network: GatedNetwork,
        weights: DenseWeights,
        value: PassBuffers,
        feature: PassBuffers,
    ) -> None:
        self._network, self._value, self.feature = network, value, feature
        self._maker = _Maker(feature, network.gate)
        self.carry_gradients = self._maker.soft
        self._linear = network.feature_activation == "linear"
        self._wires = list(zip(network.wiring, network.routes, strict=True))
        self._moved = any(route != STRAIGHT for route in network.routes)
        self._as_made = not self._moved and network.wiring == tuple(range(len(self._wires)))
        self._arrived = feature.units()  # dL/dG of the gates before their ways
        self._passed = feature.units()
        self.slopes = [self._maker.made.layers[source] for source, _ in self._wires]
        self._both: Tensor | None = None
        if network.value_input == "image" and weights.first is not None:
            self._both = weights.first.new_empty(len(value.pre.layers[0]), len(weights.first))
            self._turned = weights.first.t()

    def forward(self, x: Tensor) -> Tensor:
        """Through the gated layers of both networks; what the first of the value network was
        fed, one row where that is the same for all examples."""
        network, value = self._network, self._value
        fed = network.input_of_value(x if network.value_input == "image" else x[:1])
        self._first_layers(x, fed)
        self._features()
        if self._moved:
            made = self._maker.made.layers
            self.slopes = [route(made[source]) for source, route in self._wires]
        for place, gate in enumerate(self.slopes):
            pre, given = value.pre.layers[place], value.given.layers[place]
            if place:
                value.layers.product(place, value.given.layers[place - 1], pre)
            torch.mul(pre, gate, out=given)
        return fed

    def _first_layers(self, x: Tensor, fed: Tensor) -> None:
        """Of both networks at once, where they see the same."""
        sides = (self._value, self.feature)
        if self._both is None:
            self.feature.layers.product(0, x, self.feature.pre.layers[0])
            pre = self._value.pre.layers[0]
            if len(fed) == len(pre):
                self._value.layers.product(0, fed, pre)
            else:
                row = pre[:1]
                self._value.layers.product(0, fed, row)
                pre[1:] = row
            return
        torch.mm(x, self._turned, out=self._both)
        halves = torch.split(self._both, [side.layers.widths[0] for side in sides], dim=1)
        for side, half in zip(sides, halves, strict=True):
            bias = side.layers.biases[0]
            if bias is None:
                side.pre.layers[0].copy_(half)
            else:
                torch.add(half, bias, out=side.pre.layers[0])

    def _features(self) -> None:
        feature = self.feature
        for place, pre in enumerate(feature.pre.layers):
            if place:
                feature.layers.product(place, feature.given.layers[place - 1], pre)
            if not self._linear:  # χ^f is not softened with the gate (THEORY §1)
                torch.clamp_min(pre, 0.0, out=feature.given.layers[place])
        if not self._linear or not self._maker.soft:
            self._maker.open(rectified=not self._linear)
        if self._maker.soft:
            self._maker.soften()

    def backward(self) -> None:
        """The gradients of the feature network, but those of its first layer."""
        feature, delta = self.feature, self.feature.delta
        self._arrive()
        self._maker.through(self._arrived.flat, delta.flat)
        for place in range(len(delta.layers) - 2, -1, -1):
            passed = self._passed.layers[place]
            torch.mm(delta.layers[place + 1], feature.layers.weights[place + 1], out=passed)
            if self._linear:
                delta.layers[place].add_(passed)
            else:
                delta.layers[place].addcmul_(passed, self._maker.opened.layers[place])
        feature.collect_hidden()

    def _arrive(self) -> None:
        """dL/dG, back along the ways that the gates went."""
        value = self._value
        if self._as_made:
            torch.mul(value.into.flat, value.pre.flat, out=self._arrived.flat)
            return
        triples = zip(self._wires, value.into.layers, value.pre.layers, strict=True)
        for (source, route), into, pre in triples:
            target = self._arrived.layers[source]
            if route == STRAIGHT:
                torch.mul(into, pre, out=target)
            else:
                target.copy_(route.transpose(into * pre))
