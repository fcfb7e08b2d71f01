"""The deep gated network: a feature network makes the gates, a value network uses them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.choices import FeatureLayers, ValueInput
from dgn_engine.model.gates import HARD, Gate, by_channel, slope_gate
from dgn_engine.model.stack import Stack, Trace
from dgn_engine.model.wiring import STRAIGHT, Route
from dgn_engine.regimes import Trained

FeatureActivation = Literal["relu", "linear"]


@dataclass(frozen=True)
class NetworkTrace:
    """The passes of both networks.

    Attributes:
        value: Pass of the value network; `value.gates[l]` is the gate that layer l used, after the
          wiring.
        feature: Pass of the feature network; `None` if the network makes its own gates.
        gate_pre: Pre-activation that each of these gates was made from, after the wiring.
    """

    value: Trace
    feature: Trace | None
    gate_pre: tuple[Tensor, ...]

    @property
    def gate_pass(self) -> Trace:
        """Return the pass of the network that makes the gates.

        Returns:
            The pass, whose layers are in the order before the wiring.
        """
        return self.value if self.feature is None else self.feature


class GatedNetwork(nn.Module):
    """A feature network Θ^f and a value network Θ^v of one architecture (theory §1).

        z^f_l = χ^f(q^f_l),   G_l = γ(q^f_l),   z^v_l = q^v_l ⊙ G_l,   ŷ = Θ^v(d) z^v_{d-1}

    Args:
        architecture: Architecture of the value network.
        bias: Whether the layers of both networks have biases.
        feature_architecture: Architecture of the feature network, if gates are tiled and the value
          network is wider, or if its layers are parallel. Default: `architecture`.
        feature_bias: Whether the layers of the feature network have biases in any case.

    Attributes:
        feature: Θ^f.
        value: Θ^v.
        gate: The gate function γ.
        own_gates: Whether the value network makes its own gates (ReLU, soft-ReLU); Θ^f is then kept
          but not used.
        wiring: Value layer l uses the gates of feature layer `wiring[l]`.
        routes: How they get there: rotation, shift and tiling of each layer.
        value_input: x^v: the image, all ones, or one fixed random tensor. A network with its own
          gates always sees the image.
        feature_activation: χ^f; 'relu' except in regimes with linear features. It has no effect on
          parallel feature layers, whose outputs no layer reads.
        given_gates: Gates that no network makes (FRG), for the examples that are passed next.
        trains: Which of the two networks are trained; `None` if unknown, which kernels take as
          both.
        drawn_gates: Whether given gates are the only ones; without them nothing can be passed.

    Raises:
        ArgumentError: The value network has parallel layers, most of which would be lost.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        bias: bool = False,
        feature_architecture: arch.Architecture | None = None,
        feature_bias: bool = False,
    ) -> None:
        super().__init__()
        if architecture.is_parallel:
            raise ArgumentError(
                "architecture has parallel layers, which only a feature network can have; pass it "
                "as feature_architecture.",
                kind="not-supported",
            )
        self.architecture = architecture
        self.feature = Stack(feature_architecture or architecture, bias or feature_bias)
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
        """Change β and ε of the gates.

        Args:
            beta: Steepness β.
            epsilon: ε.
        """
        self.gate = replace(self.gate, beta=beta, epsilon=epsilon)

    def gather_statistics(self, wanted: bool) -> None:
        """Let the network that makes the gates normalise by batch statistics during training.

        It does so if it is trained; a frozen network, and every other pass, uses running
        statistics.

        Args:
            wanted: Whether to normalise by batch statistics.
        """
        for stack, makes_gates in (
            (self.value, self.own_gates),
            (self.feature, not self.own_gates),
        ):
            if stack.normalisation is not None:
                trained = stack.weights[0].requires_grad
                stack.normalisation.gathers = wanted and makes_gates and trained

    def with_gates(self, gates: tuple[Tensor, ...]) -> GatedNetwork:
        """Return a view of the network with given gates.

        Args:
            gates: Gates of each feature layer l, before the wiring, `(n, *gated_shapes[l])`.

        Returns:
            A network that shares the weights.
        """
        view = copy.copy(self)
        view.given_gates = gates
        return view

    def input_of_value(self, x: Tensor) -> Tensor:
        """Return the value input x^v.

        Args:
            x: Inputs, `(n, *input_shape)`.

        Returns:
            x^v, `(n, *input_shape)`.
        """
        if self.own_gates or self.value_input == "image":
            return x
        if self.value_input == "ones":
            return torch.ones_like(x)
        fixed: Tensor = self.get_buffer("random_input")
        return fixed.to(x.dtype).expand_as(x)

    def trace(self, x: Tensor) -> NetworkTrace:
        """Run both networks and keep all intermediate values.

        Args:
            x: Inputs, `(n, *input_shape)`.

        Returns:
            The passes of both networks.

        Raises:
            UserError: The gates are drawn (FRG), and none were given for these inputs.
        """
        if self.own_gates:
            value = self.value.run(x, _gates_of(self.value, self.gate))
            return NetworkTrace(value, None, value.pre)
        x_value = self.input_of_value(x)
        wires = tuple(zip(self.wiring, self.routes, strict=True))
        if self.given_gates is not None:
            # No network made them: pre-activations of zero, so that no gate is sensitive.
            gates = [route(self.given_gates[source]) for source, route in wires]
            value = self.value.run(x_value, lambda layer, _: gates[layer])
            return NetworkTrace(value, None, tuple(torch.zeros_like(gate) for gate in gates))
        if self.drawn_gates:
            raise UserError(
                "The gates were drawn at random for the training examples of this run (FRG), so "
                "other inputs have none.",
                kind="drawn-gates",
            )
        # χ^f stays a ReLU: in DL only the gate itself is soft (theory §1).
        linear = self.feature_activation == "linear"
        own_gate = _gates_of(self.feature, HARD)
        feature = self.feature.run(
            x, lambda at, q: torch.ones_like(q) if linear else own_gate(at, q)
        )
        # G_l = R_l γ(q^f_{π(l)}):  value layer l takes the gates of feature layer π(l), routed
        pre = tuple(route(feature.pre[source]) for source, route in wires)
        gate = _gates_of(self.feature, self.gate)
        gates = [route(gate(source, feature.pre[source])) for source, route in wires]
        masks = self._route_masks(feature.masks)
        value = self.value.run(x_value, lambda layer, _: gates[layer], masks)
        return NetworkTrace(value, feature, pre)

    def _route_masks(self, masks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Route max-pooling masks along with the gates of the layer that they pool."""
        if not masks:
            return masks
        layers = _pooled_layers(self.architecture)
        return tuple(
            self.routes[layer].route_mask(mask) for layer, mask in zip(layers, masks, strict=True)
        )

    def sensitivities(self, pre: Sequence[Tensor], kappa: float) -> tuple[Tensor, ...]:
        """Compute the sensitivity D of each value layer's gates (theory §5).

        A gate with slope a changes by |1 − a| instead of 1, which multiplies D.

        Args:
            pre: Pre-activations that the gates were made from, `(n, *gated_shapes[l])`.
            kappa: κ of hard gates.

        Returns:
            D of each layer, in the same shapes.
        """
        sensitivities = [self.gate.sensitivity(q, kappa) for q in pre]
        slopes = self.gate_stack.slopes()
        if slopes is None or self.given_gates is not None:
            return tuple(sensitivities)
        wires = tuple(zip(self.wiring, self.routes, strict=True))
        if self.own_gates:
            wires = tuple((layer, STRAIGHT) for layer in range(len(sensitivities)))
        jumps = []
        for source, route in wires:
            shape = self.gate_stack.architecture.gated_shapes[source]
            jump = (1.0 - by_channel(slopes[source], torch.empty((1, *shape)))).abs()
            jumps.append(route(jump.expand(1, *shape)))
        return tuple(D * jump for D, jump in zip(sensitivities, jumps, strict=True))

    @property
    def settings(self) -> tuple[object, ...]:
        """Everything that passes and kernels depend on, besides weights, buffers and given gates.

        Returns:
            A tuple; passes prepared under equal settings are equivalent.
        """
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
    def feature_layers(self) -> FeatureLayers:
        """Return how the layers of the feature network follow: in a chain, or each from the input.

        Returns:
            'chain' or 'parallel'.
        """
        return "parallel" if self.feature.architecture.is_parallel else "chain"

    @property
    def gate_stack(self) -> Stack:
        """Return the network that makes the gates, unless they are drawn.

        Returns:
            Θ^v if it has gates of its own, otherwise Θ^f.
        """
        return self.value if self.own_gates else self.feature

    @property
    def has_random_gates(self) -> bool:
        """Return whether gates are drawn for each example instead of made by a network (FRG).

        Returns:
            `True` if other inputs have no gates.
        """
        return self.drawn_gates or self.given_gates is not None

    def forward(self, x: Tensor) -> Tensor:
        """Compute the logits.

        Args:
            x: Inputs, `(n, *input_shape)`.

        Returns:
            Logits, `(n, classes)`.
        """
        return self.trace(x).value.output


def _gates_of(stack: Stack, gate: Gate) -> Callable[[int, Tensor], Tensor]:
    """Return the gate function of a network: its slopes if it has any, else `gate`."""
    slopes = stack.slopes()
    if slopes is None:
        return lambda _, q: gate(q)
    return lambda layer, q: slope_gate(q, slopes[layer])


def _pooled_layers(architecture: arch.Architecture) -> list[int]:
    """Return the last gate layer before each max pooling."""
    layers: list[int] = []
    layer = -1
    for node in architecture.nodes:
        layer += arch.is_gated(node)
        if isinstance(node, (arch.MaxPool, arch.GlobalMaxPool)):
            layers.append(layer)
    return layers
