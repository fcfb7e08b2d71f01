"""Loss and accuracy, as they are measured while a run trains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Loss and accuracy (0…1). Train: mean over the steps since the last; test: whole set."""

    step: int
    epoch: float
    train_loss: float
    train_accuracy: float
    test_loss: float | None = None
    test_accuracy: float | None = None
