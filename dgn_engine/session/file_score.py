"""The accuracy of a network of a file on test examples, a slice of time at a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream
from dgn_engine.training.losses import correct
from dgn_engine.training.out_of_memory import is_out_of_memory

SLICE = 0.1  # seconds, between two of which the engine listens
MOST = 100  # examples that pass together


class FileScore:
    """Right answers over the test examples that have passed, in an order drawn by `seed`: examples
    of a folder lie class by class, and a part of them should be like the whole."""

    def __init__(
        self,
        network: GatedNetwork,
        examples: Examples,
        prepare: Preprocessing,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network, self._test, self._prepare = network, examples, prepare
        self._clock = clock
        self.total = len(examples.test_y)
        self._order = torch.randperm(self.total, generator=random_stream("score", seed)).numpy()
        self.examples = self.right = 0
        self._at_once = 1

    @property
    def pending(self) -> bool:
        return self.examples < self.total

    @torch.no_grad()
    def advance(self) -> None:
        """Pass so many more examples as take about `SLICE` seconds."""
        began, took = self._clock(), 0.0
        while self.pending and took < SLICE:
            rows = self._order[self.examples : self.examples + self._at_once]
            try:
                self.right += self._right(rows)
            except Exception as error:
                if self._at_once == 1 or not is_out_of_memory(error):
                    raise
                self._at_once //= 2  # the same examples again, fewer at once
                continue
            self.examples += len(rows)
            took = self._clock() - began
            if took < SLICE / 4:
                self._at_once = min(2 * self._at_once, MOST)

    def _right(self, rows: npt.NDArray[np.int64]) -> int:
        like = next(self._network.parameters())
        images = torch.from_numpy(self._test.test_x[rows]).to(like.dtype)
        x = self._prepare(images).to(like.device)
        labels = torch.from_numpy(self._test.test_y[rows]).to(like.device)
        logits = self._network(x.reshape(len(x), *self._network.architecture.input_shape))
        return int(correct(logits, labels))
