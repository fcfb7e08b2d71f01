"""The state of a run between two steps, as it is stored: tensors and plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FORMAT = 1


@dataclass(frozen=True)
class Snapshot:
    """`tensors`: copies in main memory; `state`: plain numbers and words, ready for JSON."""

    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Steps that were done."""
        return int(self.state["step"])

    def finite(self) -> bool:
        """Whether weights and losses are numbers: a diverged state is not worth keeping."""
        weights = (t for name, t in self.tensors.items() if not name.startswith("optimiser."))
        return all(bool(torch.isfinite(t).all()) for t in weights)
