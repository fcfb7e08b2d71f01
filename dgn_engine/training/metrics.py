"""Loss and accuracy over many examples, chunk by chunk."""

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
from dgn_engine.training.steps.host_copies import HostCopier, HostCopy
from dgn_engine.training.steps.losses import compute_loss, correct_mask, count_correct

# Numbers in the largest layer of a chunk. On a CPU larger chunks are slower, as they exceed the
# cache; on a card they fill it, and a few such layers in float32 take a few GiB at most.
CHUNK_VALUES = 1 << 22
CARD_CHUNK_VALUES = 1 << 26
COUNTED_TOGETHER = 64  # batches that a CPU adds to the running score in one call


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy, in [0, 1], over `examples` examples."""

    loss: float
    accuracy: float
    examples: int


@dataclass(frozen=True)
class PendingScore:
    """Sums of losses and correct answers, (2,), on their way to the host."""

    sums: HostCopy
    examples: int

    @property
    def is_ready(self) -> bool:
        """Return whether `score` would return without waiting.

        Returns:
            Always True on a CPU.
        """
        return self.sums.is_ready

    @property
    def score(self) -> Score:
        """Return the score, waiting for the card if necessary.

        Returns:
            NaN loss and accuracy without examples.
        """
        total, right = self.sums.tensor.tolist()
        count = self.examples or math.nan
        return Score(total / count, right / count, self.examples)


class RunningScore:
    """Losses and correct answers since the last score.

    A card sums them without being waited for. On a CPU, where each small operation costs a
    hundredth of a step, batches wait until many can be added at once.

    Attributes:
        examples: Number of examples in the sums.
        captured: Whether batches are added by captured steps, which replay tensor operations only.
    """

    def __init__(self, device: torch.device) -> None:
        """Start with sums of zero.

        Args:
            device: Device of the network; sums are float64 except on MPS.
        """
        dtype = torch.float64 if device.type != "mps" else torch.float32
        self.examples = 0
        self.captured = False
        self._sums = torch.zeros(2, dtype=dtype).to(device)
        self._courier = HostCopier(device)
        self._loss_sum, self._right_sum = self._sums.unbind()
        self._total = 0.0  # sum of losses with the batches that wait, while any do
        self._right: list[Tensor] = []  # of these: which answers were correct

    @property
    def sums(self) -> Tensor:
        """Return the sums of losses and of correct answers.

        Returns:
            (2,), on the device; not copied.
        """
        self._add_waiting()
        return self._sums

    def add_batch(self, value: Tensor, logits: Tensor, labels: Tensor) -> None:
        """Add a batch, without waiting for a card.

        Args:
            value: Mean loss of the batch, ().
            logits: (m, C).
            labels: (m,) int.
        """
        # A product of 24 and 29 bits is exact, so both ways round the sum of losses alike.
        if self.captured or self._sums.device.type != "cpu" or value.dtype != torch.float32:
            self._add_waiting()
            self._loss_sum.add_(value, alpha=len(labels))
            self._right_sum.add_(count_correct(logits, labels))
            return
        if not self._right:
            self._total = float(self._loss_sum)
        self._total += float(value) * len(labels)
        self._right.append(correct_mask(logits, labels))
        if len(self._right) == COUNTED_TOGETHER:
            self._add_waiting()

    def _add_waiting(self) -> None:
        """Add the batches that wait on a CPU."""
        if self._right:
            self._loss_sum.fill_(self._total)
            self._right_sum.add_(torch.cat(self._right).sum())
            self._right.clear()

    @property
    def is_finite(self) -> bool:
        """Return whether all losses since the last score are finite.

        Returns:
            Always True on a GPU, which is not waited for; the next score reveals it.
        """
        if self._sums.device.type != "cpu":
            return True
        return math.isfinite(self._total if self._right else float(self._loss_sum))

    def fetch_score(self) -> PendingScore:
        """Return the score so far, without waiting for the card, and reset the sums.

        Returns:
            The score, on its way to the host.
        """
        asked = PendingScore(self._courier.fetch(self.sums), self.examples)
        self._sums.zero_()
        self.examples = 0
        return asked

    def set_sums(self, sums: Tensor, examples: int) -> None:
        """Replace the sums.

        Args:
            sums: Sums of losses and of correct answers, (2,).
            examples: Number of examples in them.
        """
        self._right.clear()
        self._sums.copy_(sums)
        self.examples = examples


@dataclass(frozen=True)
class TestAccuracy:
    """Accuracy `share`, in [0, 1], on `examples` of `total` test examples."""

    share: float
    examples: int
    total: int


def evenly_spaced(count: int, total: int) -> npt.NDArray[np.int64]:
    """Return evenly spaced rows, since data in folders are sorted by class.

    Args:
        count: Number of rows.
        total: Number of rows to choose from.

    Returns:
        (count,) int64.
    """
    return np.arange(count) * total // max(count, 1)


def test_accuracy(
    network: GatedNetwork, examples: Examples, prepare: Preprocessing, most: int
) -> TestAccuracy | None:
    """Measure the accuracy of a network on evenly spaced test examples.

    Args:
        network: The network.
        examples: Examples as they are stored.
        prepare: Converts images to what the network expects.
        most: Number of test examples, at most.

    Returns:
        None if the network does not have one logit per class, or there are no test examples.
    """
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
            outputs = network(x.reshape(len(x), *network.architecture.input_shape))
        right += count_correct(outputs, labels)
    return TestAccuracy(float(right) / count, count, len(examples.test_y))


def examples_at_once(architecture: Architecture, on_card: bool, values: int | None = None) -> int:
    """Return how many test examples a `TestPass` processes at once.

    Args:
        architecture: Architecture of the network.
        on_card: Whether it runs on a CUDA card.
        values: Numbers in the largest layer of a chunk; the default of the device if None.

    Returns:
        At least 32.
    """
    largest = max((math.prod(shape) for shape in architecture.gated_shapes), default=1)
    if on_card:
        return max(32, (values or CARD_CHUNK_VALUES) // largest)
    return max(32, min(1000, (values or CHUNK_VALUES) // largest))


class TestPass:
    """A pass over the test set, chunk by chunk.

    On a CPU a pass can take many seconds, and commands are handled between chunks. On a card all
    chunks are queued at once and waited for once. The network must not change during a pass.
    """

    def __init__(
        self,
        network: GatedNetwork,
        data: DeviceData,
        kind: Loss,
        most: int | None = None,
        values: int | None = None,
    ) -> None:
        """Prepare a pass.

        Args:
            network: The network.
            data: Examples on its device.
            kind: The loss.
            most: Number of test examples, from the first; all if None.
            values: As for `examples_at_once`.
        """
        self._network = network
        self._loss: Loss = kind
        self._x, self._y = data.test_x[:most], data.test_y[:most]
        self._on_card = self._x.device.type == "cuda"
        self._chunk = examples_at_once(network.architecture, self._on_card, values)
        self._begin = 0
        self._losses: list[tuple[Tensor, int]] = []  # mean loss and size of each chunk
        self._right: list[Tensor] = []  # correct answers by chunk

    @torch.no_grad()
    def advance(self) -> Score | None:
        """Test one more chunk, or all of them on a card.

        Returns:
            The score after the last chunk, otherwise None.
        """
        self._run_chunk()
        while self._on_card and self._begin < len(self._y):
            self._run_chunk()
        if self._begin < len(self._y):
            return None
        examples = len(self._y)
        means = torch.stack([mean for mean, _ in self._losses])
        right = torch.cat(self._right)
        if self._on_card:  # one copy for both
            numbers = torch.cat([means.double(), right.double()]).cpu()
            means, right = numbers[: len(means)], numbers[len(means) :] > 0
        self._right = [right]
        pairs = zip(means.tolist(), self._losses, strict=True)
        total = sum(mean * count for mean, (_, count) in pairs)
        return Score(total / examples, float(right.sum()) / examples, examples)

    def _run_chunk(self) -> None:
        part = slice(self._begin, self._begin + self._chunk)
        labels = self._y[part]
        try:
            logits = self._network(self._x[part])
        except Exception as error:
            if self._chunk == 1 or not is_out_of_memory(error):
                raise
            self._chunk //= 2  # retry with fewer at once
            return
        self._losses.append((compute_loss(self._loss, logits, labels), len(labels)))
        self._right.append(correct_mask(logits, labels))
        self._begin += len(labels)

    @property
    def right_answers(self) -> Tensor:
        """Return which of the tested examples are correct.

        Returns:
            (n,) bool, on the CPU once the pass is complete.
        """
        return torch.cat(self._right)
