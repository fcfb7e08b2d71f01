"""Fixed random gating (FRG): Bernoulli gates, drawn once for each training example and unit."""

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
    """Bernoulli(p) gates of n examples: layer l is (n, *gated_shapes[l]), one byte a gate.

    Raises `UserError` where they do not fit into 2 GiB.
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
                f"FRG keeps {units:,} gates for each of {examples:,} examples, more than 2 GiB; "
                "use fewer examples with data.train_limit, or a smaller network.",
                kind="too-large",
            )
        # In float32 whatever the network's dtype is: another dtype is another draw.
        uniform = partial(torch.rand, generator=generator, dtype=torch.float32)
        self._layers = [
            send_to_device(uniform((examples, *shape)) < probability, device)
            for shape in architecture.gated_shapes
        ]

    def at(self, rows: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The gates of the examples `rows` (m,): layer l as (m, *gated_shapes[l]), 0 or 1."""
        return tuple(layer[rows].to(dtype) for layer in self._layers)
