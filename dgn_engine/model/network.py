"""The deep gated network: a feature network makes the gates, a value network uses them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.choices import ValueInput
from dgn_engine.model.gates import HARD, Gate, by_channel, slope_gate
from dgn_engine.model.stack import Stack, Trace
from dgn_engine.model.wiring import STRAIGHT, Route
from dgn_engine.regimes import Trained

FeatureActivation = Literal["relu", "linear"]


@dataclass(frozen=True)
class NetworkTrace:
    """Both passes; `feature` is None where the network makes its own gates.

    `value.gates[l]` is the gate that value layer l used, after the wiring;
    `gate_pre[l]` is the pre-activation that this very gate was made from.
    """

    value: Trace
    feature: Trace | None
    gate_pre: tuple[Tensor, ...]


class GatedNetwork(nn.Module):
    """Θ^f (`feature`) and Θ^v (`value`) of one architecture, with the settings of THEORY §1.

    `own_gates`: the value network gates itself (ReLU, soft-ReLU) and Θ^f is kept aside.
    `wiring`: value layer l uses G_{wiring[l]} of the feature network, sent along `routes[l]`
    (rotation, shift, tiling). With tiling the value network is wider than the feature network:
    then it has an architecture of its own.
    `value_input`: the value network sees the image, all ones, or one fixed random tensor;
    a network with its own gates always sees the image.
    `feature_activation`: χ^f, ReLU in every regime but linear features.
    `given_gates`: gates that no network makes (FRG), of the very examples that are passed next.
    `trains`: which of them a step changes; None where nobody says: kernels take both as trained.
    `drawn_gates`: there are no other gates than given ones; without them nothing is passed.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        bias: bool = False,
        feature_architecture: arch.Architecture | None = None,
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.feature = Stack(feature_architecture or architecture, bias)
        self.value = Stack(architecture, bias)
        self.gate: Gate = HARD
        self.own_gates = True
        self.wiring: tuple[int, ...] = tuple(range(len(architecture.gated_shapes)))
        self.routes: tuple[Route, ...] = (STRAIGHT,) * len(self.wiring)
        self.value_input: ValueInput = "image"
        self.feature_activation: FeatureActivation = "relu"
        self.given_gates: tuple[Tensor, ...] | None = None
        self.drawn_gates = False
        self.trains: Trained | None = None
        self.register_buffer("random_input", torch.zeros(architecture.input_shape))

    def set_gate(self, *, beta: float, epsilon: float) -> None:
        self.gate = replace(self.gate, beta=beta, epsilon=epsilon)

    def gather(self, wanted: bool) -> None:
        """Let the stack that makes the gates normalise by the statistics of each batch while it is
        trained; a frozen stack, and every other pass, uses the gathered ones."""
        for stack, makes_gates in (
            (self.value, self.own_gates),
            (self.feature, not self.own_gates),
        ):
            if stack.normalisation is not None:
                trained = stack.weights[0].requires_grad
                stack.normalisation.gathers = wanted and makes_gates and trained

    def with_gates(self, gates: tuple[Tensor, ...]) -> GatedNetwork:
        """The same weights under gates that are given: layer l is (n, *gated_shapes[l])."""
        view = copy.copy(self)
        view.given_gates = gates
        return view

    def input_of_value(self, x: Tensor) -> Tensor:
        """x^v for the images x, (n, *input_shape)."""
        if self.own_gates or self.value_input == "image":
            return x
        if self.value_input == "ones":
            return torch.ones_like(x)
        fixed: Tensor = self.get_buffer("random_input")
        return fixed.to(x.dtype).expand_as(x)

    def trace(self, x: Tensor) -> NetworkTrace:
        """Run both networks on x (n, *input_shape) and keep every intermediate."""
        if self.own_gates:
            value = self.value.run(x, _gates_of(self.value, self.gate))
            return NetworkTrace(value, None, value.pre)
        fed = self.input_of_value(x)
        wires = tuple(zip(self.wiring, self.routes, strict=True))
        if self.given_gates is not None:  # by no network: their pre-activations are zero, so that
            # no gate is sensitive
            gates = [route(self.given_gates[source]) for source, route in wires]
            value = self.value.run(fed, lambda layer, _: gates[layer])
            return NetworkTrace(value, None, tuple(torch.zeros_like(gate) for gate in gates))
        if self.drawn_gates:
            raise UserError(
                "Its gates are coins thrown for the training examples of its run (FRG): "
                "other inputs have none.",
                kind="drawn-gates",
            )
        # χ^f is not softened with the gate: in DL only the gate itself is soft (THEORY §1).
        linear = self.feature_activation == "linear"
        own = _gates_of(self.feature, HARD)
        feature = self.feature.run(x, lambda at, q: torch.ones_like(q) if linear else own(at, q))
        pre = tuple(route(feature.pre[source]) for source, route in wires)
        gate = _gates_of(self.feature, self.gate)
        gates = [route(gate(source, feature.pre[source])) for source, route in wires]
        masks = self._routed(feature.masks)
        value = self.value.run(fed, lambda layer, _: gates[layer], masks)
        return NetworkTrace(value, feature, pre)

    def _routed(self, masks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Max-pooling masks, sent along with the gates of the layer they pool."""
        if not masks:
            return masks
        layers = _pooled_layers(self.architecture)
        return tuple(
            self.routes[layer].units(mask) for layer, mask in zip(layers, masks, strict=True)
        )

    def sensitivities(self, pre: Sequence[Tensor], kappa: float) -> tuple[Tensor, ...]:
        """D of each value layer (THEORY §5) where its gate was made from `pre`, (n, *gated_shape):
        by how much a gate changes times how sure it is to; a slope a changes by |1 - a|."""
        found = [self.gate.sensitivity(q, kappa) for q in pre]
        slopes = self._maker.slopes()
        if slopes is None or self.given_gates is not None:
            return tuple(found)
        wires = tuple(zip(self.wiring, self.routes, strict=True))
        if self.own_gates:
            wires = tuple((layer, STRAIGHT) for layer in range(len(found)))
        jumps = []
        for source, route in wires:
            shape = self._maker.architecture.gated_shapes[source]
            jump = (1.0 - by_channel(slopes[source], torch.empty((1, *shape)))).abs()
            jumps.append(route(jump.expand(1, *shape)))
        return tuple(D * jump for D, jump in zip(found, jumps, strict=True))

    @property
    def settings(self) -> tuple[object, ...]:
        """What its function depends on beside weights and statistics: two passes prepared under
        equal settings are alike."""
        return (
            self.gate,
            self.own_gates,
            self.wiring,
            self.routes,
            self.value_input,
            self.feature_activation,
            self.trains,
        )

    @property
    def _maker(self) -> Stack:
        """The stack that makes the gates."""
        return self.value if self.own_gates else self.feature

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes)."""
        return self.trace(x).value.output


def _gates_of(stack: Stack, gate: Gate) -> Callable[[int, Tensor], Tensor]:
    """The gates that a stack makes: its slopes where it has any, else `gate`."""
    slopes = stack.slopes()
    if slopes is None:
        return lambda _, q: gate(q)
    return lambda layer, q: slope_gate(q, slopes[layer])


def _pooled_layers(architecture: arch.Architecture) -> list[int]:
    """The last gate layer before each max pooling."""
    layers: list[int] = []
    seen = -1
    for node in architecture.nodes:
        seen += arch.is_gated(node)
        if isinstance(node, (arch.MaxPool, arch.GlobalMaxPool)):
            layers.append(seen)
    return layers
