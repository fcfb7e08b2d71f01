"""Inputs of path kernels, and the block that two sets of them form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_network_inputs, check_paths, check_tensor
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.precision import full_precision
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork


@dataclass(frozen=True)
class PathInputs:
    """Gates and inputs of n examples, as path kernels need them.

    Attributes:
        gates: One tensor `(n, *gated_shapes[l])` per gate layer, after the wiring.
        x_value: Value input x^v, `(n, *input_shape)`; not needed for Λ.
        masks: Arg-max positions of each max pooling, as in `Trace.masks`.
        sensitivities: One tensor per gate layer, shaped as the gates; needed only for S.
    """

    gates: Sequence[Tensor]
    x_value: Tensor | None = None
    masks: Sequence[Tensor] = ()
    sensitivities: Sequence[Tensor] | None = None

    @staticmethod
    @torch.no_grad()
    @full_precision
    def from_network(network: GatedNetwork, x: Tensor) -> PathInputs:
        """Run a network and collect its gates, masks and value input.

        Sensitivities are not included: those of a hard gate depend on all examples that are
        compared (see `SharedKernels`).

        Args:
            network: The network.
            x: Inputs, `(n, *input_shape)`.

        Returns:
            The path inputs of the n examples.

        Raises:
            ArgumentError: The network or its inputs cannot be used.
        """
        check_network_inputs(network, x)
        trace = network.trace(x).value
        return PathInputs(trace.gates, network.input_of_value(x), trace.masks)

    def join_with(self, other: PathInputs | None) -> tuple[PathInputs, KernelBlock]:
        """Concatenate with a second set of examples.

        Args:
            other: Second set of m examples, or `None`.

        Returns:
            All n + m examples, and the block of the first with the second set; without a second
            set, these examples and the block of all their pairs.

        Raises:
            ValueError: `other` lacks layers, masks or x^v.
        """
        n = len(self.gates[0])
        if other is None:
            return self, KernelBlock.all_pairs(n)
        both = PathInputs(
            _concatenate_layers(self.gates, other.gates, "layers of gates"),
            _concatenate_inputs(self.x_value, other.x_value),
            _concatenate_layers(self.masks, other.masks, "max-pooling masks"),
            None
            if self.sensitivities is None
            else _concatenate_layers(
                self.sensitivities, other.sensitivities or (), "layers of sensitivities"
            ),
        )
        return both, KernelBlock(slice(0, n), slice(n, n + len(other.gates[0])))


def check_path_inputs(architecture: Architecture, inputs: PathInputs, other: object = None) -> None:
    """Check the inputs of a path kernel.

    Args:
        architecture: The network.
        inputs: The first set of examples.
        other: A second set, or `None`.

    Raises:
        ArgumentError: Something does not fit the architecture.
    """
    if not isinstance(inputs, PathInputs):
        raise ArgumentError(
            f"inputs is of type {type(inputs).__name__}; expected PathInputs.", kind="wrong-type"
        )
    check_paths(architecture, inputs.gates, inputs.x_value, inputs.sensitivities, inputs.masks)
    if other is None:
        return
    if not isinstance(other, PathInputs):
        raise ArgumentError(
            f"other is of type {type(other).__name__}; expected PathInputs, for example "
            "PathInputs.from_network(network, x).",
            kind="wrong-type",
        )
    try:
        check_paths(architecture, other.gates, other.x_value, other.sensitivities, other.masks)
        check_tensor("Layer 0 of gates", other.gates[0], like=inputs.gates[0])
    except ArgumentError as refused:
        raise ArgumentError(
            f"In other: {refused}", kind=refused.kind, value=refused.value
        ) from None


def _concatenate_layers(
    one: Sequence[Tensor], two: Sequence[Tensor], what: str
) -> tuple[Tensor, ...]:
    """Concatenate the tensors of two sets, layer by layer."""
    if len(one) != len(two):
        raise ValueError(f"`other` has {len(two)} {what}; expected {len(one)}, as in the first.")
    return tuple(torch.cat(pair) for pair in zip(one, two, strict=True))


def _concatenate_inputs(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    """Concatenate the value inputs of two sets."""
    if one is None:
        return None
    if two is None:
        raise ValueError("`other` needs an `x_value` for this kernel.")
    return torch.cat([one, two])
