"""Contiguous weight and activation buffers for the hand-written dense step.

Weights of one network lie side by side in one buffer, so that the optimiser updates them with one
kernel call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack


class FlatWeights:
    """Parameters and their gradients in two contiguous buffers.

    Attributes:
        parameters: The parameters, now views of `values`.
        values: The weights, (numbers,).
        slopes: Their gradients, (numbers,).
        gradients: Views of `slopes`, one in the shape of each parameter.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], values: Tensor, slopes: Tensor) -> None:
        """Move the parameters into `values`, keeping their numbers.

        Args:
            parameters: Parameters of one dtype and device.
            values: Buffer for the weights, (numbers,).
            slopes: Buffer for the gradients, (numbers,).
        """
        self.parameters = list(parameters)
        self.values, self.slopes = values, slopes
        for parameter, own in zip(parameters, self.split_views(values), strict=True):
            own.copy_(parameter.detach())
            parameter.data = own
        self.gradients = self.split_views(slopes)
        self._pointers = [parameter.data_ptr() for parameter in self.parameters]

    @property
    def is_intact(self) -> bool:
        """Return whether the parameters still lie in the buffer; stacking networks moves them.

        Returns:
            False once `parameter.data` was replaced elsewhere.
        """
        return [parameter.data_ptr() for parameter in self.parameters] == self._pointers

    def split_views(self, flat: Tensor) -> list[Tensor]:
        """Split a buffer of this size into one view per parameter.

        Args:
            flat: Any buffer of this size, (numbers,).

        Returns:
            Views of `flat` in the parameters' shapes and order.
        """
        pieces = torch.split(flat, [parameter.numel() for parameter in self.parameters])
        pairs = zip(pieces, self.parameters, strict=True)
        return [piece.view(parameter.shape) for piece, parameter in pairs]


@torch.no_grad()
def flatten_weights(groups: Sequence[Sequence[nn.Parameter]]) -> list[FlatWeights]:
    """Move groups of parameters into one buffer, group after group.

    Args:
        groups: Parameters of one dtype and device.

    Returns:
        One `FlatWeights` per group, slices of the same two buffers.
    """
    like = groups[0][0]
    lengths = [sum(parameter.numel() for parameter in group) for group in groups]
    values, slopes = (like.detach().new_zeros(sum(lengths)) for _ in range(2))
    pairs = zip(groups, torch.split(values, lengths), torch.split(slopes, lengths), strict=True)
    return [FlatWeights(*pair) for pair in pairs]


def view_stacked(matrices: Sequence[Tensor]) -> Tensor | None:
    """Return one view over equally spaced matrices of one buffer.

    Args:
        matrices: Matrices of one shape (a, b).

    Returns:
        (l, a, b), or None if shapes or distances differ.
    """
    if not matrices or any(matrix.shape != matrices[0].shape for matrix in matrices):
        return None
    first = matrices[0]
    distances = {_storage_distance(matrix, two) for matrix, two in pairwise(matrices)} or {
        first.numel()
    }
    distance = distances.pop()
    if distances or distance is None:
        return None
    return first.as_strided((len(matrices), *first.shape), (distance, *first.stride()))


def _storage_distance(first: Tensor, second: Tensor) -> int | None:
    """Return the offset in numbers between two tensors of one storage, or None."""
    if first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr():
        return None
    return int(second.storage_offset() - first.storage_offset())


class DenseWeights:
    """The flat weights of value and feature network."""

    def __init__(self, network: GatedNetwork) -> None:
        """Move the weights of a network into flat buffers.

        Args:
            network: A dense chain; its parameters become views.
        """
        gated = len(network.architecture.gated_shapes)
        stacks = ((network.value, gated + 1), (network.feature, gated))  # without the feature head
        # In this order as in 0.2: products round by the alignment of their matrices.
        (first, behind), (second, others) = (_split_parameters(*stack) for stack in stacks)
        self._groups = flatten_weights([[*behind, first], [second, *others]])
        gradients = {
            id(parameter): gradient
            for group in self._groups
            for parameter, gradient in zip(group.parameters, group.gradients, strict=True)
        }
        self.value, self.feature = (DenseLayers(*stack, gradients) for stack in stacks)
        self.flat_value, self.flat_feature = self._groups

    @property
    def is_intact(self) -> bool:
        """Return whether all weights still lie in these buffers.

        Returns:
            False once any parameter was moved.
        """
        return all(group.is_intact for group in self._groups)


def _split_parameters(stack: Stack, count: int) -> tuple[nn.Parameter, list[nn.Parameter]]:
    """Return the first layer's weight, and the other parameters of the first `count` layers."""
    first, *weights = list(stack.weights)[:count]
    biases = [bias for bias in list(stack.biases)[:count] if bias is not None]
    return cast(nn.Parameter, first), cast("list[nn.Parameter]", [*biases, *weights])


class DenseLayers:
    """Weights (outputs, inputs) and biases (outputs,) of the first layers, with their gradients."""

    def __init__(self, stack: Stack, count: int, gradients: dict[int, Tensor]) -> None:
        """Collect views of weights, biases and gradients.

        Args:
            stack: Value or feature network, with flat weights.
            count: Number of layers, from the first.
            gradients: Gradient of each parameter, by its id.
        """
        biases = list(stack.biases)[:count] or [None] * count
        owners = list(stack.weights)[:count]
        self.weights = [cast(Tensor, weight).detach() for weight in owners]
        self._turned = [weight.t() for weight in self.weights]
        self.biases = [None if b is None else cast(Tensor, b).detach() for b in biases]
        self.gradients = [gradients[id(weight)] for weight in owners]
        self._of_biases = [None if b is None else gradients[id(b)] for b in biases]
        self.widths = [len(weight) for weight in self.weights]

    def compute_pre(self, index: int, z: Tensor, out: Tensor) -> None:
        """Compute the pre-activation q_l = z W_lᵀ + b_l.

        Args:
            index: Layer l, from 0.
            z: Input of the layer, (m, inputs).
            out: Receives q_l, (m, outputs).
        """
        bias = self.biases[index]
        if bias is None:
            torch.mm(z, self._turned[index], out=out)
        else:
            torch.addmm(bias, z, self._turned[index], out=out)

    def collect_gradients(self, index: int, delta: Tensor, fed: Tensor) -> None:
        """Write the gradients of one layer: dL/dW_l = Δ_lᵀ z, dL/db_l = Σ Δ_l.

        Args:
            index: Layer l, from 0.
            delta: Δ_l = dL/dq_l, (m, outputs).
            fed: Input z of the layer, (m, inputs), or (1, inputs) if all examples share it.
        """
        if len(fed) < len(delta):  # all examples share one input
            delta = delta.sum(dim=0, keepdim=True)
        torch.mm(delta.t(), fed, out=self.gradients[index])  # dL/dW_l = Δ_lᵀ z_{l-1}
        self.collect_bias(index, delta)

    def collect_bias(self, index: int, delta: Tensor) -> None:
        """Write the gradient of a bias, dL/db_l = Σ Δ_l; do nothing without biases.

        Args:
            index: Layer l, from 0.
            delta: dL/dq_l, (m, outputs).
        """
        gradient = self._of_biases[index]
        if gradient is not None:
            torch.sum(delta, dim=0, out=gradient)


class UnitBuffer:
    """One number per gated unit and example: `flat` holds all, `layers[l]` is a view (m, w_l)."""

    def __init__(self, like: Tensor, examples: int, widths: Sequence[int]) -> None:
        """Allocate the buffer, uninitialised.

        Args:
            like: Sets dtype and device.
            examples: Batch size m.
            widths: Units w_l of each layer.
        """
        self.flat = like.new_empty(examples * sum(widths))
        pieces = torch.split(self.flat, [examples * width for width in widths])
        pairs = zip(pieces, widths, strict=True)
        self.layers = [piece.view(examples, width) for piece, width in pairs]


class PassBuffers:
    """Activation buffers of one network, one number per gated unit and example.

    Attributes:
        layers: Weights of the network.
        pre: Pre-activations q.
        given: Outputs z.
        into: dL/dz.
        delta: dL/dq.
    """

    def __init__(
        self, layers: DenseLayers, examples: int, gated: int, linear: bool = False
    ) -> None:
        """Allocate the buffers.

        Args:
            layers: Weights of the network.
            examples: Batch size m.
            gated: Number of gated layers.
            linear: Whether z = q, so that both share one buffer.
        """
        self.layers = layers
        self.pre, self.given, self.into, self.delta = (
            UnitBuffer(layers.weights[0], examples, layers.widths[:gated]) for _ in range(4)
        )
        if linear:
            self.given = self.pre
        self._deltas, self._fed = self.delta.layers[1:], self.given.layers[: gated - 1]
        self._gradients = layers.gradients[1:gated]
        groups = (self._deltas, self._fed, self._gradients)
        self._together = [view for group in groups if (view := view_stacked(group)) is not None]
        if len(self._together) == 3:
            self._together[0] = self._together[0].transpose(1, 2)  # Δᵀ

    def new_units(self) -> UnitBuffer:
        """Allocate another buffer of the same shape.

        Returns:
            Uninitialised, one number per gated unit and example.
        """
        examples = len(self.pre.layers[0])
        return UnitBuffer(self.pre.flat, examples, [layer.shape[1] for layer in self.pre.layers])

    def collect_hidden(self) -> None:
        """Write the gradients of all gated layers but the first, from the deltas in `delta`."""
        if len(self._together) == 3:
            turned, fed, gradients = self._together
            torch.bmm(turned, fed, out=gradients)
        else:
            for delta, z, gradient in zip(self._deltas, self._fed, self._gradients, strict=True):
                torch.mm(delta.t(), z, out=gradient)
        for index, delta in enumerate(self._deltas, start=1):
            self.layers.collect_bias(index, delta)
