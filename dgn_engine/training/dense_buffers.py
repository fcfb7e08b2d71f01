"""Weights, gradients and intermediate results of two dense chains, in buffers made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.training.flat_weights import joined, side_by_side, stacked


class DenseWeights:
    """The weights of both networks side by side; the first layers are neighbours, as they may be
    fed the same."""

    def __init__(self, network: GatedNetwork) -> None:
        gated = len(network.architecture.gated_shapes)
        stacks = ((network.value, gated + 1), (network.feature, gated))  # no use for its last
        (first, behind), (second, others) = (_parameters(*stack) for stack in stacks)
        self._groups = side_by_side([[*behind, first], [second, *others]])
        gradients = {
            id(parameter): gradient
            for group in self._groups
            for parameter, gradient in zip(group.parameters, group.gradients, strict=True)
        }
        self.value, self.feature = (DenseLayers(*stack, gradients) for stack in stacks)
        self.flat_value, self.flat_feature = self._groups
        self.first = joined(self.value.weights[0], self.feature.weights[0])
        self.first_gradient = joined(self.value.gradients[0], self.feature.gradients[0])

    @property
    def intact(self) -> bool:
        """Whether nobody has moved them."""
        return all(group.intact for group in self._groups)


def _parameters(stack: Stack, count: int) -> tuple[nn.Parameter, list[nn.Parameter]]:
    """The weight of its first layer, and what else there is of its first `count`."""
    first, *weights = list(stack.weights)[:count]
    biases = [bias for bias in list(stack.biases)[:count] if bias is not None]
    return cast(nn.Parameter, first), cast("list[nn.Parameter]", [*biases, *weights])


class DenseLayers:
    """The first layers of one network as tensors, (outputs, inputs) and (outputs,), each with its
    gradient."""

    def __init__(self, stack: Stack, count: int, gradients: dict[int, Tensor]) -> None:
        biases = list(stack.biases)[:count] or [None] * count
        owners = list(stack.weights)[:count]
        self.weights = [cast(Tensor, weight).detach() for weight in owners]
        self._turned = [weight.t() for weight in self.weights]
        self.biases = [None if b is None else cast(Tensor, b).detach() for b in biases]
        self.gradients = [gradients[id(weight)] for weight in owners]
        self._of_biases = [None if b is None else gradients[id(b)] for b in biases]
        self.widths = [len(weight) for weight in self.weights]

    def product(self, place: int, z: Tensor, out: Tensor) -> None:
        """q of one layer, for z (m, inputs)."""
        bias = self.biases[place]
        if bias is None:
            torch.mm(z, self._turned[place], out=out)
        else:
            torch.addmm(bias, z, self._turned[place], out=out)

    def collect(self, place: int, delta: Tensor, fed: Tensor) -> None:
        """The gradients of one layer, for dL/dq (m, outputs) and what it was fed."""
        if len(fed) < len(delta):  # one row for all examples
            delta = delta.sum(dim=0, keepdim=True)
        torch.mm(delta.t(), fed, out=self.gradients[place])
        self.collect_bias(place, delta)

    def collect_bias(self, place: int, delta: Tensor) -> None:
        gradient = self._of_biases[place]
        if gradient is not None:
            torch.sum(delta, dim=0, out=gradient)


class UnitBuffer:
    """A number for each gated unit and example: `flat`, all; `layers[l]`, (m, w_l)."""

    def __init__(self, like: Tensor, examples: int, widths: Sequence[int]) -> None:
        self.flat = like.new_empty(examples * sum(widths))
        pieces = torch.split(self.flat, [examples * width for width in widths])
        pairs = zip(pieces, widths, strict=True)
        self.layers = [piece.view(examples, width) for piece, width in pairs]


class PassBuffers:
    """Buffers of one network: pre-activations, what its gated layers give, dL/dz and dL/dq."""

    def __init__(
        self, layers: DenseLayers, examples: int, gated: int, linear: bool = False
    ) -> None:
        """`linear`: the layers give their pre-activations."""
        self.layers = layers
        self.pre, self.given, self.into, self.delta = (
            UnitBuffer(layers.weights[0], examples, layers.widths[:gated]) for _ in range(4)
        )
        if linear:
            self.given = self.pre
        self._deltas, self._fed = self.delta.layers[1:], self.given.layers[: gated - 1]
        self._gradients = layers.gradients[1:gated]
        groups = (self._deltas, self._fed, self._gradients)
        self._together = [one for group in groups if (one := stacked(group)) is not None]

    def units(self) -> UnitBuffer:
        """Room for one more number of each."""
        examples = len(self.pre.layers[0])
        return UnitBuffer(self.pre.flat, examples, [layer.shape[1] for layer in self.pre.layers])

    def collect_hidden(self) -> None:
        """The gradients of all gated layers but the first, of the deltas that lie ready."""
        if len(self._together) == 3:
            deltas, fed, gradients = self._together
            torch.bmm(deltas.transpose(1, 2), fed, out=gradients)
        else:
            for delta, z, gradient in zip(self._deltas, self._fed, self._gradients, strict=True):
                torch.mm(delta.t(), z, out=gradient)
        for place, delta in enumerate(self._deltas, start=1):
            self.layers.collect_bias(place, delta)
