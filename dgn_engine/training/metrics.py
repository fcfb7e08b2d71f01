"""Loss and accuracy over many examples, a chunk at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dgn_engine.config import Loss
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.losses import correct, loss
from dgn_engine.training.out_of_memory import is_out_of_memory

CHUNK_VALUES = 1 << 22  # of the largest layer: more at once is slower, as it leaves the cache


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy (0…1) over so many examples."""

    loss: float
    accuracy: float
    examples: int


class TestPass:
    """One pass over the test set (or its first `most` examples), a chunk at a time.

    A pass can take many seconds; between two chunks the engine can listen. The network must not
    change meanwhile: whoever changes it begins another pass.
    """

    def __init__(
        self, network: GatedNetwork, data: DeviceData, kind: Loss, most: int | None = None
    ) -> None:
        self._network = network
        self._loss: Loss = kind
        self._x, self._y = data.test_x[:most], data.test_y[:most]
        largest = max(math.prod(shape) for shape in self._network.architecture.gated_shapes)
        self._chunk = max(32, min(1000, CHUNK_VALUES // largest))
        self._begin = 0
        self._total = self._right = 0.0

    @torch.no_grad()
    def advance(self) -> Score | None:
        """One more chunk; the score when it was the last one."""
        part = slice(self._begin, self._begin + self._chunk)
        labels = self._y[part]
        try:
            logits = self._network(self._x[part])
        except Exception as error:
            if self._chunk == 1 or not is_out_of_memory(error):
                raise
            self._chunk //= 2
            return None  # the same examples again, fewer at once
        self._total += float(loss(self._loss, logits, labels)) * len(labels)
        self._right += float(correct(logits, labels))
        self._begin += len(labels)
        if self._begin < len(self._y):
            return None
        examples = len(self._y)
        return Score(self._total / examples, self._right / examples, examples)
