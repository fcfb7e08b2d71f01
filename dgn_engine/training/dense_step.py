"""One step of a chain of dense layers by hand: its losses and gradients without an autograd graph.

The backward pass of such a chain is known (THEORY §1): z_l = q_l ⊙ G_l. Written out, a step of a
network takes half to three quarters of the time that autograd needs; `make bench` has the figures,
and the tests hold every regime against autograd in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.config import Loss
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import Route
from dgn_engine.training.losses import loss_and_slope


def suits(network: GatedNetwork) -> bool:
    """Whether both networks are chains of gated dense layers; gates that are drawn for single
    examples (FRG) are another matter."""
    stacks = (network.value, network.feature)
    return all(type(s) is Stack and _is_dense_chain(s.architecture) for s in stacks)


def _is_dense_chain(architecture: arch.Architecture) -> bool:
    *hidden, last = architecture.nodes
    return (
        len(architecture.input_shape) == 1
        and bool(hidden)
        and all(isinstance(node, arch.Dense) and node.factor == 1.0 for node in architecture.nodes)
        and all(arch.is_gated(node) for node in hidden)
        and not arch.is_gated(last)
    )


@dataclass
class _Pass:
    """Of one network, for m examples: what each layer was fed, (m, inputs), and of its gated layers
    the pre-activations, (m, w). What is the same for all examples has one row."""

    fed: list[Tensor]
    pre: list[Tensor]


class _Chain:
    """The layers of one network, and room for their gradients."""

    def __init__(self, stack: Stack, layers: int) -> None:
        """`layers`: how many of them are used; a feature network has no use for its last."""
        biases = list(stack.biases) or [None] * len(stack.weights)
        self.weights = [cast(nn.Parameter, weight) for weight in stack.weights][:layers]
        self._biases = [cast("nn.Parameter | None", bias) for bias in biases][:layers]
        self.parameters = [*self.weights, *(b for b in self._biases if b is not None)]
        self._room: list[Tensor] = []

    @property
    def gradients(self) -> list[Tensor]:
        """One for each of `parameters`; what lies there is what the last backward pass left."""
        if not self._room:
            self._room = [torch.empty_like(parameter) for parameter in self.parameters]
        return self._room

    def layer(self, place: int, z: Tensor) -> Tensor:
        """q of one layer, for z (m, inputs)."""
        weight, bias = self.weights[place].t(), self._biases[place]
        return torch.mm(z, weight) if bias is None else torch.addmm(bias, z, weight)

    def forward(self, x: Tensor, gated: int, after: Callable[[int, Tensor], Tensor]) -> _Pass:
        """Through the gated layers: z_l = after(l, q_l); `fed` ends with what a layer behind them
        is fed."""
        passed = _Pass([x], [])
        for place in range(gated):
            passed.pre.append(self.layer(place, passed.fed[-1]))
            passed.fed.append(after(place, passed.pre[-1]))
        return passed

    def collect(self, place: int, delta: Tensor, fed: Tensor) -> None:
        """The gradients of one layer, for dq (m, outputs) and what it was fed."""
        gradients = self.gradients
        if len(fed) < len(delta):  # one row for all examples
            delta = delta.sum(dim=0, keepdim=True)
        torch.mm(delta.t(), fed, out=gradients[place])
        if self._biases[place] is not None:
            at = len(self.weights) + sum(b is not None for b in self._biases[:place])
            torch.sum(delta, dim=0, out=gradients[at])


class DenseStep:
    """Losses and gradients of one network for which `suits` holds, in its regime of the moment.

    `parameters` and `gradients` are those of the last call: what trains, and by what it moves.
    """

    def __init__(self, network: GatedNetwork, kind: Loss) -> None:
        self._network = network
        self._kind: Loss = kind
        self._gated = len(network.architecture.gated_shapes)
        self._value = _Chain(network.value, self._gated + 1)
        self._feature = _Chain(network.feature, self._gated)
        self.parameters: list[nn.Parameter] = []
        self.gradients: list[Tensor] = []

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and logits (m, C) for x (m, inputs), y (m,); fills `gradients`."""
        network, gated = self._network, self._gated
        features: _Pass | None = None
        made: list[Tensor] = []  # gates before their ways
        used: list[Tensor] = []  # gates of the value layers
        if network.own_gates:
            passed = self._value.forward(x, gated, lambda _, q: self._gate_itself(used, q))
        else:
            features = self._feature.forward(x, gated, self._activity)
            made = [network.gate(q) for q in features.pre]
            used = [route(made[source]) for source, route in self._wires()]
            passed = self._value.forward(self._fed(x), gated, lambda layer, q: q * used[layer])
        logits = self._value.layer(gated, passed.fed[-1])
        value, delta = loss_and_slope(self._kind, logits, y)
        trained = self._trained()
        into_gated = self._backward(passed, used, delta, self._value in trained)
        if features is not None and self._feature in trained:
            pairs = zip(into_gated, passed.pre, strict=True)
            self._backward_features(features, made, [dz * q for dz, q in pairs])
        self.parameters = [weight for chain in trained for weight in chain.parameters]
        self.gradients = [slope for chain in trained for slope in chain.gradients]
        return value, logits

    def _wires(self) -> Iterator[tuple[int, Route]]:
        """Of each value layer: the gate layer that it uses, and the way there."""
        return zip(self._network.wiring, self._network.routes, strict=True)

    def _trained(self) -> list[_Chain]:
        """Hard and open gates carry no gradient to the features."""
        network = self._network
        found = [self._value] if self._value.weights[0].requires_grad else []
        if self._feature.weights[0].requires_grad and not network.own_gates:
            found += [self._feature] if network.gate.soft and not network.gate.open else []
        return found

    def _fed(self, x: Tensor) -> Tensor:
        """x^v; one row where it is the same for all examples."""
        return self._network.input_of_value(x if self._network.value_input == "image" else x[:1])

    def _gate_itself(self, used: list[Tensor], q: Tensor) -> Tensor:
        used.append(self._network.gate(q))
        return q * used[-1]

    def _activity(self, _: int, q: Tensor) -> Tensor:
        """χ^f: not softened with the gate (THEORY §1)."""
        return q if self._network.feature_activation == "linear" else torch.relu(q)

    def _through_activity(self, delta: Tensor, q: Tensor) -> Tensor:
        """dL/dq for dL/dχ^f(q)."""
        if self._network.feature_activation == "linear":
            return delta
        passed: Tensor = torch.ops.aten.threshold_backward(delta, q, 0.0)
        return passed

    def _backward(
        self, passed: _Pass, used: list[Tensor], delta: Tensor, trains: bool
    ) -> list[Tensor]:
        """Through the value network, from dL/dlogits; returns dL/dz of each gated layer."""
        into_gated: list[Tensor] = []
        for place in range(self._gated, -1, -1):
            if place < self._gated:
                into_gated.append(delta)
                delta = delta * self._slope(used[place], passed.pre[place])
            if trains:
                self._value.collect(place, delta, passed.fed[place])
            if place:
                delta = torch.mm(delta, self._value.weights[place])
        return into_gated[::-1]

    def _slope(self, used: Tensor, q: Tensor) -> Tensor:
        """dz/dq of a gated value layer: its gate, which moves with q where it is its own."""
        gate = self._network.gate
        if not self._network.own_gates or gate.open or not gate.soft:
            return used
        return used + gate.through(q, used)

    def _backward_features(
        self, features: _Pass, made: list[Tensor], into_gates: list[Tensor]
    ) -> None:
        """`made`: the gates before their ways; `into_gates`: dL/dG of each value layer."""
        deltas: dict[int, Tensor] = {}
        for (source, route), arrived in zip(self._wires(), into_gates, strict=True):
            deltas[source] = self._network.gate.through(route.transpose(arrived), made[source])
        into_z: Tensor | None = None
        for place in range(self._gated - 1, -1, -1):
            delta = deltas[place]
            if into_z is not None:
                delta.add_(self._through_activity(into_z, features.pre[place]))
            self._feature.collect(place, delta, features.fed[place])
            if place:
                into_z = torch.mm(delta, self._feature.weights[place])
