"""Scores over many examples: of which, in which chunks, and none where there is none to give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dgn_engine.data import Examples
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training import metrics
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.metrics import Score
from tests.simulated_card import simulated_card

CLASSES = 3


class Told(torch.nn.Module):
    """Gives the inputs back as logits, and remembers how many it was given at once."""

    def __init__(self, largest: int = 4, fits: int = 9999, error: type[Exception] = MemoryError):
        super().__init__()
        self.fits, self.error = fits, error
        self.architecture: Any = SimpleNamespace(
            gated_shapes=((2,), (largest // 2, 2)), classes=CLASSES, input_shape=(CLASSES,)
        )
        self.asked: list[int] = []
        self.like = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(len(x))
        if len(x) > self.fits:
            raise self.error
        return x


def data(count: int) -> DeviceData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((count, CLASSES), generator=generator, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    return DeviceData(x[:2], y[:2], x, y)


def finished(test_pass: metrics.TestPass) -> Score:
    for _ in range(1000):
        score = test_pass.advance()
        if score is not None:
            return score
    raise AssertionError("a pass ends")


def scored(
    count: int, most: int | None = None, values: int | None = None, **told: Any
) -> tuple[Score, list[int]]:
    network: Any = Told(**told)
    test_pass = metrics.TestPass(network, data(count), "cross-entropy", most, values)
    return finished(test_pass), network.asked


@pytest.mark.parametrize(
    ("values", "largest", "chunks"),
    [
        (40 * 6, 6, [40, 40, 40]),  # so many values of the largest layer
        (40 * 6 + 5, 6, [40, 40, 40]),
        (10 * 6, 6, [32, 32, 32, 24]),  # at least 32 examples at once
        (10**9, 6, [120]),
    ],
)
def test_a_pass_takes_as_many_examples_at_once_as_its_largest_layer_allows(
    values: int, largest: int, chunks: list[int]
) -> None:
    assert scored(120, values=values, largest=largest)[1] == chunks


def test_no_more_than_a_thousand_examples_are_taken_at_once() -> None:
    assert scored(2300)[1] == [1000, 1000, 300]


def test_a_score_is_the_mean_over_all_examples_whatever_the_chunks() -> None:
    for most in (None, 50, 32, 1):
        score, asked = scored(70, most, values=1)
        x, y = data(70).test_x[:most], data(70).test_y[:most]
        losses = -torch.log_softmax(x, 1)[torch.arange(len(y)), y]
        assert score.examples == sum(asked) == len(y)
        assert score.loss == pytest.approx(float(losses.mean()), rel=1e-12)
        assert score.accuracy == pytest.approx(float((x.argmax(1) == y).double().mean()))


def test_a_chunk_that_does_not_fit_is_halved_down_to_one_example() -> None:
    score, tried = scored(3, values=1, fits=1)
    assert score.examples == 3
    assert tried == [3, 3, 3, 3, 2, 1, 1, 1]  # at most 32, 16, 8, 4, 2 and 1 at once


@pytest.mark.parametrize("error", [MemoryError, ValueError])
def test_what_does_not_fit_one_by_one_and_what_fails_otherwise_is_raised(
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        scored(3, values=1, fits=0, error=error)


def examples(count: int, signed: bool = False) -> Examples:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(count, CLASSES)).astype(np.float32)
    names = ("a", "b") if signed else ("a", "b", "c")
    y = generator.integers(0, len(names), count)
    return Examples(x[:2], y[:2], x, y, names, "drawn", "", signed)


def halved(x: Tensor) -> Tensor:
    """As if pixels were made ready: another order of the logits."""
    return x.flip(1)


@pytest.mark.parametrize(("most", "count"), [(250, 230), (150, 150), (100, 100), (1, 1)])
def test_an_accuracy_is_of_test_examples_from_all_over_them(most: int, count: int) -> None:
    drawn, network = examples(230), Told()
    found = metrics.test_accuracy(network, drawn, halved, most)  # type: ignore[arg-type]
    assert found is not None
    assert (found.examples, found.total) == (count, 230)
    rows = [place * 230 // count for place in range(count)]
    right = drawn.test_x[rows][:, ::-1].argmax(1) == drawn.test_y[rows]
    assert found.share == pytest.approx(right.mean(), rel=1e-12)
    assert sum(network.asked) == count
    assert max(network.asked) == min(100, count)


def test_there_is_no_accuracy_of_no_examples_or_of_other_classes() -> None:
    network: Any = Told()
    assert metrics.test_accuracy(network, examples(5), halved, 0) is None
    assert metrics.test_accuracy(network, examples(0), halved, 5) is None
    network.architecture.classes = 2
    assert metrics.test_accuracy(network, examples(5), halved, 5) is None
    network.architecture.classes = 1
    assert metrics.test_accuracy(network, examples(5), halved, 5) is None


def test_one_logit_is_tested_on_a_pair_of_classes() -> None:
    network = GatedNetwork(Architecture((CLASSES,), (Dense(CLASSES, 1, gated=False),)), False)
    with torch.no_grad():
        network.value.weights[0].copy_(torch.tensor([[1.0, 0.0, 0.0]]))
    drawn = examples(40, signed=True)
    found = metrics.test_accuracy(network, drawn, lambda x: x, 40)  # type: ignore[arg-type]
    assert found is not None
    assert found.share == pytest.approx(((drawn.test_x[:, 0] > 0) == drawn.test_y).mean())


def on_card(count: int, values: int | None = None, **told: Any) -> tuple[Any, list[int], int]:
    """A pass on a simulated card, what its network was asked, and how often the card was waited
    for."""
    network: Any = Told(**told)
    with simulated_card() as card:
        there = data(count).test_x.to("cuda"), data(count).test_y.to("cuda")
        found = DeviceData(*there, *there)
        test_pass = metrics.TestPass(network, found, "cross-entropy", None, values)
        before = card.host_reads.total()
        score = test_pass.advance()
        waits = card.host_reads.total() - before
    assert score is not None
    assert test_pass.right_answers.device.type == "cpu"
    assert float(test_pass.right_answers.double().mean()) == pytest.approx(score.accuracy)
    return score, network.asked, waits


@pytest.mark.parametrize("values", [1, 64 * 6, 10**9])
def test_a_card_has_the_whole_pass_at_once_and_is_read_once(values: int) -> None:
    expected, _ = scored(130, values=1, largest=6)
    score, asked, waits = on_card(130, values, largest=6)
    assert (score.loss, score.accuracy) == pytest.approx((expected.loss, expected.accuracy))
    assert (waits, sum(asked), max(asked)) == (1, 130, min(130, max(32, values // 6)))


def test_a_chunk_that_does_not_fit_on_a_card_is_halved() -> None:
    score, tried, _ = on_card(130, fits=40, error=torch.OutOfMemoryError)
    assert score.examples == sum(size for size in tried if size <= 40) == 130


def test_batches_that_wait_on_a_cpu_give_the_sums_of_those_added_at_once() -> None:
    """Bit for bit, read twice, one beyond what waits, and after sums of a checkpoint."""
    cpu = torch.device("cpu")
    waiting, at_once = metrics.RunningScore(cpu), metrics.RunningScore(cpu)
    at_once.captured = True
    generator = torch.Generator().manual_seed(3)
    for score in (waiting, at_once):
        score.set_sums(torch.tensor([0.1, 3.0], dtype=torch.float64), 5)
    for batch in range(2 * metrics.COUNTED_TOGETHER + 1):
        logits = torch.randn((7 if batch % 5 else 2, CLASSES), generator=generator)
        labels = torch.randint(0, CLASSES, (len(logits),), generator=generator)
        for score in (waiting, at_once):
            score.add_batch(logits.square().mean(), logits, labels)
        if batch in (3, 4):
            assert torch.equal(waiting.sums, at_once.sums)
    assert torch.equal(waiting.sums, at_once.sums)
    assert waiting.fetch_score().score == at_once.fetch_score().score
    assert waiting.sums.tolist() == [0.0, 0.0]


def test_a_loss_that_is_no_number_is_seen_while_its_batch_waits() -> None:
    score = metrics.RunningScore(torch.device("cpu"))
    logits, labels = torch.zeros((2, CLASSES)), torch.zeros(2, dtype=torch.long)
    score.add_batch(torch.tensor(float("nan")), logits, labels)
    assert not score.is_finite
    score.set_sums(torch.zeros(2, dtype=torch.float64), 0)
    assert score.is_finite
