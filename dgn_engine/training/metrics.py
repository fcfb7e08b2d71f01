"""Loss and accuracy over many examples, a chunk at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.config import Loss
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.out_of_memory import is_out_of_memory
from dgn_engine.training.steps.host_copies import Courier, HostCopy
from dgn_engine.training.steps.losses import answered_right, correct, loss

# Numbers of the largest layer in a chunk. On a CPU more at once is slower, as it leaves the cache;
# a card is filled, and some such layers in float32 take a few GiB of it at most.
CHUNK_VALUES = 1 << 22
CARD_CHUNK_VALUES = 1 << 26


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy (0…1) over so many examples."""

    loss: float
    accuracy: float
    examples: int


@dataclass(frozen=True)
class PendingScore:
    """Sums of loss and of right answers, (2,), over so many examples, on their way to the host."""

    sums: HostCopy
    examples: int

    @property
    def ready(self) -> bool:
        return self.sums.ready

    @property
    def score(self) -> Score:
        """Waits where the sums have not arrived; NaN of no examples."""
        total, right = self.sums.tensor.tolist()
        seen = self.examples or math.nan
        return Score(total / seen, right / seen, self.examples)


class RunningScore:
    """Losses and right answers of the batches since the last score, added up on the device.

    `sums` (2,): of losses and of right answers; `examples`: how many they are of.
    """

    def __init__(self, device: torch.device) -> None:
        dtype = torch.float64 if device.type != "mps" else torch.float32
        self.sums = torch.zeros(2, dtype=dtype).to(device)
        self.examples = 0
        self._courier = Courier(device)
        self._loss_sum, self._right_sum = self.sums.unbind()

    def add(self, value: Tensor, logits: Tensor, labels: Tensor) -> None:
        """Add the mean loss () and the right answers of a batch: work of the device alone."""
        self._loss_sum.add_(value, alpha=len(labels))
        self._right_sum.add_(correct(logits, labels))

    @property
    def finite(self) -> bool:
        """Whether each loss since the last score was finite; always True on a GPU, which is not
        waited for: there the next score says it.
        """
        return self.sums.device.type != "cpu" or math.isfinite(float(self.sums[0]))

    def ask(self) -> PendingScore:
        """Return the score up to here, for which a card is not waited for, and begin anew."""
        asked = PendingScore(self._courier.fetch(self.sums), self.examples)
        self.sums.zero_()
        self.examples = 0
        return asked

    def set(self, sums: Tensor, examples: int) -> None:
        """Take over what was gathered elsewhere."""
        self.sums.copy_(sums)
        self.examples = examples


@dataclass(frozen=True)
class TestAccuracy:
    """The share (0…1) of `examples` test examples, out of `total`, that are right."""

    share: float
    examples: int
    total: int


def evenly_spaced(count: int, total: int) -> npt.NDArray[np.int64]:
    """Return so many rows of `total`, evenly spaced: data in folders are sorted by class, and the
    first of them are of one."""
    return np.arange(count) * total // max(count, 1)


def test_accuracy(
    network: GatedNetwork, examples: Examples, prepare: Preprocessing, most: int
) -> TestAccuracy | None:
    """On at most `most` test examples from all over them, prepared as the network takes them; None
    where it has not a logit for each class, or there is nothing to be tested on."""
    logits = 1 if examples.signed else len(examples.class_names)
    count = min(most, len(examples.test_y))
    if network.architecture.classes != logits or count < 1:
        return None
    like = next(network.parameters())
    rows = evenly_spaced(count, len(examples.test_y))
    right = torch.zeros((), dtype=torch.long, device=like.device)
    for start in range(0, count, 100):
        part = rows[start : start + 100]
        x = prepare(torch.from_numpy(examples.test_x[part]).to(like.dtype)).to(like.device)
        labels = torch.from_numpy(examples.test_y[part]).to(like.device)
        with torch.no_grad():
            found = network(x.reshape(len(x), *network.architecture.input_shape))
        right += correct(found, labels)
    return TestAccuracy(float(right) / count, count, len(examples.test_y))


def examples_at_once(architecture: Architecture, on_card: bool, values: int | None = None) -> int:
    """Return how many test examples a chunk of a `TestPass` has at most; `values`: instead of the
    usual numbers of the largest layer."""
    largest = max((math.prod(shape) for shape in architecture.gated_shapes), default=1)
    if on_card:
        return max(32, (values or CARD_CHUNK_VALUES) // largest)
    return max(32, min(1000, (values or CHUNK_VALUES) // largest))


class TestPass:
    """One pass over the test set (or its first `most` examples), a chunk at a time.

    On a CPU a pass can take many seconds; between two chunks the engine can listen. A card has
    all chunks queued at once, and is waited for once, at the end. The network must not change
    meanwhile: whoever changes it begins another pass.
    """

    def __init__(
        self,
        network: GatedNetwork,
        data: DeviceData,
        kind: Loss,
        most: int | None = None,
        values: int | None = None,
    ) -> None:
        self._network = network
        self._loss: Loss = kind
        self._x, self._y = data.test_x[:most], data.test_y[:most]
        self._on_card = self._x.device.type == "cuda"
        self._chunk = examples_at_once(network.architecture, self._on_card, values)
        self._begin = 0
        self._losses: list[tuple[Tensor, int]] = []  # mean of each chunk, and its examples
        self._right: list[Tensor] = []  # of each chunk

    @torch.no_grad()
    def advance(self) -> Score | None:
        """One more chunk, or all of them on a card; the score when that was the last one."""
        self._advance()
        while self._on_card and self._begin < len(self._y):
            self._advance()
        if self._begin < len(self._y):
            return None
        examples = len(self._y)
        means = torch.stack([mean for mean, _ in self._losses])
        right = torch.cat(self._right)
        if self._on_card:  # both in one read
            numbers = torch.cat([means.double(), right.double()]).cpu()
            means, right = numbers[: len(means)], numbers[len(means) :] > 0
        self._right = [right]
        pairs = zip(means.tolist(), self._losses, strict=True)
        total = sum(mean * count for mean, (_, count) in pairs)
        return Score(total / examples, float(right.sum()) / examples, examples)

    def _advance(self) -> None:
        part = slice(self._begin, self._begin + self._chunk)
        labels = self._y[part]
        try:
            logits = self._network(self._x[part])
        except Exception as error:
            if self._chunk == 1 or not is_out_of_memory(error):
                raise
            self._chunk //= 2  # the same examples again, fewer at once
            return
        self._losses.append((loss(self._loss, logits, labels), len(labels)))
        self._right.append(answered_right(logits, labels))
        self._begin += len(labels)

    @property
    def right(self) -> Tensor:
        """(n,) bool: which of the examples that have been tested were answered right; on the CPU
        once the pass is over."""
        return torch.cat(self._right)
