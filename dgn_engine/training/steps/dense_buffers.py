"""Weights side by side in one buffer, one update for all; what a dense step keeps beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack


class FlatWeights:
    """Some parameters without a gap in a buffer, and the like for their gradients.

    `values` and `slopes`: the buffers, (numbers,); `gradients` are views of `slopes`, one for
    each of `parameters`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], values: Tensor, slopes: Tensor) -> None:
        """The parameters become views of `values` and keep what they hold."""
        self.parameters = list(parameters)
        self.values, self.slopes = values, slopes
        for parameter, own in zip(parameters, self.views(values), strict=True):
            own.copy_(parameter.detach())
            parameter.data = own
        self.gradients = self.views(slopes)
        self._pointers = [parameter.data_ptr() for parameter in self.parameters]

    @property
    def intact(self) -> bool:
        """Whether the parameters still lie here: whoever packs networks moves them away."""
        return [parameter.data_ptr() for parameter in self.parameters] == self._pointers

    def views(self, flat: Tensor) -> list[Tensor]:
        """Of another buffer of this size, what belongs to each parameter."""
        pieces = torch.split(flat, [parameter.numel() for parameter in self.parameters])
        pairs = zip(pieces, self.parameters, strict=True)
        return [piece.view(parameter.shape) for piece, parameter in pairs]


@torch.no_grad()
def side_by_side(groups: Sequence[Sequence[nn.Parameter]]) -> list[FlatWeights]:
    """One buffer for all groups, one behind the other."""
    like = groups[0][0]
    lengths = [sum(parameter.numel() for parameter in group) for group in groups]
    values, slopes = (like.detach().new_zeros(sum(lengths)) for _ in range(2))
    pairs = zip(groups, torch.split(values, lengths), torch.split(slopes, lengths), strict=True)
    return [FlatWeights(*pair) for pair in pairs]


def joined(one: Tensor, two: Tensor) -> Tensor | None:
    """(a + b, k) over two matrices (a, k) and (b, k) of which the second lies behind the first, or
    None."""
    if one.shape[1] != two.shape[1] or _distance(one, two) != one.numel():
        return None
    return one.as_strided((len(one) + len(two), one.shape[1]), (one.shape[1], 1))


def stacked(matrices: Sequence[Tensor]) -> Tensor | None:
    """(l, a, b) over matrices of one shape that lie at even distances in one buffer, or None."""
    if not matrices or any(one.shape != matrices[0].shape for one in matrices):
        return None
    first = matrices[0]
    distances = {_distance(one, two) for one, two in pairwise(matrices)} or {first.numel()}
    distance = distances.pop()
    if distances or distance is None:
        return None
    return first.as_strided((len(matrices), *first.shape), (distance, *first.stride()))


def _distance(one: Tensor, two: Tensor) -> int | None:
    """Numbers from the begin of one to that of another in the same buffer."""
    if one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr():
        return None
    return int(two.storage_offset() - one.storage_offset())


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
