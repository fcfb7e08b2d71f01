"""What path kernels need to know of examples, and the block that two sets of them make."""

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
    """`gates[l]` (n, *gated_shapes[l]) after the wiring, `x_value` x^v (n, *input_shape), `masks`
    as in `Trace.masks`, `sensitivities[l]` as the gates. Λ needs no x^v, only S needs
    sensitivities, only networks with max pooling have masks."""

    gates: Sequence[Tensor]
    x_value: Tensor | None = None
    masks: Sequence[Tensor] = ()
    sensitivities: Sequence[Tensor] | None = None

    @staticmethod
    @torch.no_grad()
    @full_precision
    def of(network: GatedNetwork, x: Tensor) -> PathInputs:
        """Those of a network at inputs x (n, *input_shape), without sensitivities: a hard gate's
        depends on all examples that it is compared on (`SharedKernels` gives them)."""
        check_network_inputs(network, x)
        trace = network.trace(x).value
        return PathInputs(trace.gates, network.input_of_value(x), trace.masks)

    def joined(self, other: PathInputs | None) -> tuple[PathInputs, KernelBlock]:
        """Both sets one after the other, and the block of these with the others."""
        n = len(self.gates[0])
        if other is None:
            return self, KernelBlock.whole(n)
        both = PathInputs(
            _joined(self.gates, other.gates, "layers of gates"),
            _joined_inputs(self.x_value, other.x_value),
            _joined(self.masks, other.masks, "max-pooling masks"),
            None
            if self.sensitivities is None
            else _joined(self.sensitivities, other.sensitivities or (), "layers of sensitivities"),
        )
        return both, KernelBlock(slice(0, n), slice(n, n + len(other.gates[0])))


def check_path_inputs(architecture: Architecture, inputs: PathInputs, other: object = None) -> None:
    """What a path kernel is computed of, and what it is a block with."""
    if not isinstance(inputs, PathInputs):
        raise ArgumentError(
            f"inputs is of type {type(inputs).__name__}; PathInputs are needed.", kind="wrong-type"
        )
    check_paths(architecture, inputs.gates, inputs.x_value, inputs.sensitivities, inputs.masks)
    if other is None:
        return
    if not isinstance(other, PathInputs):
        raise ArgumentError(
            f"other is of type {type(other).__name__}; PathInputs are needed "
            "(PathInputs.of(network, x) makes them).",
            kind="wrong-type",
        )
    try:
        check_paths(architecture, other.gates, other.x_value, other.sensitivities, other.masks)
        check_tensor("Layer 0 of gates", other.gates[0], like=inputs.gates[0])
    except ArgumentError as refused:
        raise ArgumentError(
            f"Of other: {refused}", kind=refused.kind, value=refused.value
        ) from None


def _joined(one: Sequence[Tensor], two: Sequence[Tensor], what: str) -> tuple[Tensor, ...]:
    if len(one) != len(two):
        raise ValueError(f"`other` has {len(two)} {what}; the first inputs have {len(one)}.")
    return tuple(torch.cat(pair) for pair in zip(one, two, strict=True))


def _joined_inputs(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    if one is None:
        return None
    if two is None:
        raise ValueError("`other` has no `x_value`, which this kernel needs.")
    return torch.cat([one, two])
