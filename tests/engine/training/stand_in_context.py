"""Probe examples of no network, for schedules and servers whose probes are the test's own."""

from __future__ import annotations

from typing import Any

import torch

from dgn_engine.model.architecture import Architecture, Dense


class StandInContext:
    """So many probe examples, or each n-th of them."""

    architecture: Any = Architecture((4,), (Dense(4, 2, gated=False),))

    def __init__(self, count: int = 64) -> None:
        self.x, self.network = torch.zeros(count), torch.nn.Identity()

    def subsample(self, every: int) -> StandInContext:
        return StandInContext(len(self.x[::every]))

    def drop_kernels(self) -> None: ...
