"""Fixed random gating (FRG): Bernoulli gates, drawn once per training example and unit."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.random_streams import send_to_device

MOST_BYTES = 2 << 30


class RandomGates:
    """Bernoulli(p) gates of n examples, one byte per gate.

    Args:
        architecture: The network.
        examples: Number of examples n.
        probability: Probability p of an open gate.
        generator: Source of randomness.
        device: Where to keep the gates.

    Raises:
        UserError: They exceed 2 GiB.
    """

    def __init__(
        self,
        architecture: Architecture,
        examples: int,
        probability: float,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        units = sum(math.prod(shape) for shape in architecture.gated_shapes)
        if examples * units > MOST_BYTES:
            raise UserError(
                f"FRG stores {units:,} gates for each of {examples:,} examples, which exceeds "
                "2 GiB; reduce data.train_limit or use a smaller network.",
                kind="too-large",
            )
        # Always in float32, because another dtype would give different gates.
        uniform = partial(torch.rand, generator=generator, dtype=torch.float32)
        self._layers = [
            send_to_device(uniform((examples, *shape)) < probability, device)
            for shape in architecture.gated_shapes
        ]

    def gates_of_rows(self, rows: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Return the gates of some examples.

        Args:
            rows: Indices of the examples, `(m,)`.
            dtype: Dtype of the result.

        Returns:
            0 or 1 for each gate layer, `(m, *gated_shapes[l])`.
        """
        return tuple(layer[rows].to(dtype) for layer in self._layers)
