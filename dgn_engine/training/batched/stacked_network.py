"""A stack of networks: one step of all of them at once, and their test scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.config import Loss
from dgn_engine.random_streams import send_to_device
from dgn_engine.training.batched.dense import ChainPass, chain_backward, chain_forward
from dgn_engine.training.batched.stacked_gates import (
    FrozenGates,
    OwnGates,
    StackedGates,
    TrainedGates,
)
from dgn_engine.training.batched.stacked_weights import StackedWeights
from dgn_engine.training.device_data import epoch_order
from dgn_engine.training.metrics import CHUNK_VALUES, Score
from dgn_engine.training.steps.choice import StepCase, choose_way
from dgn_engine.training.steps.graphs import Card, CudaCard, EagerSteps, GraphSteps, StepRunner
from dgn_engine.training.steps.host_copies import HostCopier, HostCopy
from dgn_engine.training.steps.network_step import ROUNDING, step_precision
from dgn_engine.training.trainer import Trainer


class TrainerStack:
    """B trainers of one kind (`stack_kind`) at the same step, trained as one stack.

    While stacked, their weights are views of the stack, and `publish` updates the rest; the
    trainers must not be stepped before `release`. Each network is trained as its trainer would
    train it: same order of examples, same arithmetic, different order of summation.

    Attributes:
        step_count: Steps taken by each network.
        steps_per_epoch: Batches per epoch.
        steps: Launches the steps.
    """

    @torch.no_grad()
    def __init__(self, trainers: Sequence[Trainer]) -> None:
        """Move the weights of the trainers into a stack.

        Args:
            trainers: Trainers of one kind at the same step.

        Raises:
            UserError: Frozen gates do not fit into memory.
        """
        self._trainers = tuple(trainers)
        first = trainers[0]
        self._config = first.config.training
        self.step_count = first.step_count
        self.steps_per_epoch = first.steps_per_epoch
        data = [trainer.data for trainer in trainers]
        self._train = StackedExamples([d.train_x for d in data], [d.train_y for d in data])
        self._test = StackedExamples([d.test_x for d in data], [d.test_y for d in data])
        self._order = StackedOrder(trainers)
        self._fixed = _fixed_inputs(trainers)
        self._weights = StackedWeights(trainers)
        self._chain = self._weights.value.chain
        self._gates = self._make_gates()
        device = first.data.train_x.device
        counters = [trainer.counters() for trainer in trainers]
        self._sums = torch.tensor([state["train_sums"] for state in counters], dtype=torch.float64)
        self._sums = self._sums.to(device)
        self._seen = [int(str(state["train_seen"])) for state in counters]
        largest = max(layer.shape[1] for layer in self._chain.weights)
        self._chunk = max(32, min(1000, CHUNK_VALUES // largest))
        self._courier = HostCopier(device)
        self._looked: HostCopy | None = None
        self.steps: StepRunner = EagerSteps(self)
        launch = choose_way("launch", StepCase(first.config, first.regime, device.type))
        if launch.way == "graph":
            self.capture_steps(CudaCard(device))

    def capture_steps(self, card: Card) -> None:
        """Launch steps as graphs from now on, where that works.

        Args:
            card: Captures the graphs.
        """
        self._weights.make_capturable()
        self.steps = GraphSteps(self, card)

    def on_eager(self, reason: str) -> None:
        """Report to every network's log why steps are not captured.

        Args:
            reason: Part of a sentence.
        """
        for trainer in self._trainers:
            trainer.step_count = self.step_count
            trainer.network_step.on_eager(reason)

    def capture_key(self) -> tuple[object, ...]:
        """Return everything a captured step would not notice changing.

        Returns:
            (): nothing changes while a stack trains.
        """
        return ()

    def changed_tensors(self) -> list[Tensor]:
        """Return every tensor that a step changes.

        Returns:
            Weights, optimiser states and running sums.
        """
        return [*self._weights.tensors(), self._sums]

    def drop_gradients(self) -> None:
        """Do nothing: gradients are overwritten by each step."""

    @property
    def examples(self) -> int:
        """Return the number of training examples.

        Returns:
            Upper bound of `rows`, exclusive.
        """
        return self._train.examples

    @property
    def rounding(self) -> float:
        """Return the relative rounding error of this precision.

        Returns:
            See `ROUNDING`.
        """
        return ROUNDING[self._config.precision]

    def step(self) -> None:
        """Take one step of all networks."""
        rows = self._order.step_rows(self.step_count)
        self.steps.step(rows)
        self._seen = [count + rows.shape[-1] for count in self._seen]
        self.step_count += 1

    @torch.no_grad()
    def take_step(self, rows: Tensor) -> None:
        """Train every network on its batch and add up the losses, without waiting for the device.

        Args:
            rows: Indices of the training examples, (m,) or (B, m).
        """
        with step_precision(self._config.precision, self._sums.device):
            self._run_step(rows)

    def _run_step(self, rows: Tensor) -> None:
        labels = self._train.get_labels(rows)
        passed = self._forward_batch(True, rows)
        assert passed.logits is not None
        losses, right, delta = score_batch(self._config.loss, passed.logits, labels)
        chain_backward(
            self._chain,
            self._weights.value.gradient_chain,
            passed,
            delta,
            lambda layer, dz: self._gates.compute_delta(passed, layer, dz),
        )
        self._gates.backward()
        self._weights.step()
        examples = labels.shape[1]
        self._sums += torch.stack((losses * examples, right.sum(dim=1).to(losses.dtype)), dim=1)

    def find_diverged(self, wait: bool = True) -> list[int]:
        """Return the networks whose loss since the last score is not finite.

        Args:
            wait: Whether to wait for the card; otherwise the answer is that of the last request, if
                it has arrived.

        Returns:
            Indices of the networks.
        """
        if wait or self._looked is None:
            self._looked = self._courier.fetch(self._sums[:, 0])
        asked = self._looked
        if not (wait or asked.is_ready):
            return []
        self._looked = None
        finite = torch.isfinite(asked.tensor)
        return [] if bool(finite.all()) else torch.nonzero(~finite).flatten().tolist()

    def train_scores(self) -> list[Score]:
        """Return the scores of the batches since the last call, and reset them.

        Returns:
            One per network; NaN without batches.
        """
        scores_each = [
            Score(total / count, right / count, count) if count else Score(math.nan, math.nan, 0)
            for (total, right), count in zip(self._sums.tolist(), self._seen, strict=True)
        ]
        self._sums.zero_()
        self._seen = [0] * len(self._seen)
        return scores_each

    @torch.no_grad()
    def test_scores(self) -> tuple[list[Score], Tensor]:
        """Score all networks on the test set.

        Returns:
            One score per network, and the correct answers, (B, n) bool on the CPU.
        """
        losses = torch.zeros_like(self._sums[:, 0])
        answers = []
        every = torch.arange(self._test.examples, device=losses.device)
        for begin in range(0, len(every), self._chunk):
            rows = every[begin : begin + self._chunk]
            passed = self._forward_batch(False, rows)
            assert passed.logits is not None
            labels = self._test.get_labels(rows)
            means, right, _ = score_batch(self._config.loss, passed.logits, labels)
            losses += means * len(rows)
            answers.append(right)
        totals, examples = losses.tolist(), self._test.examples  # waits for the card
        right = torch.cat(answers, dim=1).cpu()  # one copy: each network keeps a row of it
        hits = right.sum(dim=1).tolist()
        scores_each = [
            Score(total / examples, count / examples, examples)
            for total, count in zip(totals, hits, strict=True)
        ]
        return scores_each, right

    def publish(self) -> None:
        """Update the trainers: steps, sums and optimiser state."""
        self._weights.publish_states()
        for trainer, sums, count in zip(self._trainers, self._sums, self._seen, strict=True):
            trainer.step_count = self.step_count
            trainer.train_sums.set_sums(sums, count)

    def release(self) -> None:
        """Give every trainer its own copy of weights and state."""
        self.publish()
        self._weights.release()

    def _forward_batch(self, train: bool, rows: Tensor) -> ChainPass:
        split = self._train if train else self._test
        needs_image = self._fixed is None or self._weights.features is not None
        x = split.get_inputs(rows) if needs_image else rows.new_empty(0)
        self._gates.prepare_batch(train, rows, x)
        return chain_forward(
            self._chain, x if self._fixed is None else self._fixed, self._gates.compute_gates
        )

    def _make_gates(self) -> StackedGates:
        networks = [trainer.network for trainer in self._trainers]
        if networks[0].own_gates:
            return OwnGates(networks[0].gate)
        features = self._weights.features
        if features is not None:
            assert features.gradient_chain is not None
            return TrainedGates(networks, features.chain, features.gradient_chain)
        data = [trainer.data for trainer in self._trainers]
        return FrozenGates(networks, data, self._order.one)


def _fixed_inputs(trainers: Sequence[Trainer]) -> Tensor | None:
    """Return the value input, (1, inputs) or (B, 1, inputs), or None if it is the image."""
    network, like = trainers[0].network, trainers[0].data.train_x
    if network.own_gates or network.value_input == "image":
        return None
    if network.value_input == "ones":
        return torch.ones_like(like[:1])
    inputs = [trainer.network.get_buffer("random_input") for trainer in trainers]
    return torch.stack(inputs).to(like.dtype)[:, None]


class StackedOrder:
    """The training examples of each step of a stack.

    Attributes:
        one: Whether all networks see the same examples.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        """Take seeds and batch size from the trainers.

        Args:
            trainers: Trainers of the stack.
        """
        first = trainers[0]
        self._seeds = [trainer.config.seed for trainer in trainers]
        self.one = len(set(self._seeds)) == 1
        self._batch = first.config.training.batch
        self._undone_steps = first.undone_steps
        self._steps_per_epoch = first.steps_per_epoch
        self._train_y = first.data.train_y
        self._epoch: tuple[int, Tensor] = (-1, torch.empty(0))

    def step_rows(self, step: int) -> Tensor:
        """Return the examples of a step.

        Args:
            step: Step of the run, from 0.

        Returns:
            Indices, (m,) if all networks see the same examples, else (B, m).
        """
        epoch, batch = divmod(step - self._undone_steps, self._steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._epoch_rows(epoch))
        return self._epoch[1][..., batch * self._batch : (batch + 1) * self._batch]

    def _epoch_rows(self, epoch: int) -> Tensor:
        seeds = self._seeds[:1] if self.one else self._seeds
        orders = [epoch_order(seed, epoch, len(self._train_y)) for seed in seeds]
        return send_to_device(orders[0] if self.one else torch.stack(orders), self._train_y.device)


class StackedExamples:
    """Inputs (n, inputs) and labels (n,) of B networks.

    Rows are (m,) if all networks see the same examples, else (B, m).
    """

    def __init__(self, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> None:
        """Stack the labels; inputs stay as they are.

        Args:
            inputs: Inputs of each network, (n, inputs).
            labels: Labels of each network, (n,) int.
        """
        self._inputs = inputs
        self.one = all(x is inputs[0] for x in inputs)
        self._labels = torch.stack(list(labels))  # (B, n)
        self.examples = len(labels[0])

    def get_inputs(self, rows: Tensor) -> Tensor:
        """Gather the inputs of a batch.

        Args:
            rows: (m,) or (B, m).

        Returns:
            (m, inputs) if all networks see the same, else (B, m, inputs).
        """
        if self.one:
            return self._inputs[0][rows]
        rows_each = rows if rows.dim() == 2 else rows.expand(len(self._inputs), -1)
        return torch.stack(
            [x[own_rows] for x, own_rows in zip(self._inputs, rows_each, strict=True)]
        )

    def get_labels(self, rows: Tensor) -> Tensor:
        """Gather the labels of a batch.

        Args:
            rows: (m,) or (B, m).

        Returns:
            (B, m) int.
        """
        if rows.dim() == 1:
            return self._labels[:, rows]
        return self._labels.gather(1, rows)


def score_batch(kind: Loss, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute loss, correct answers and gradient of a stack.

    Args:
        kind: The loss, as for `compute_loss`.
        logits: (B, C, m).
        labels: (B, m) int.

    Returns:
        Mean losses (B,), correct answers (B, m) bool, and the gradient of each mean loss, (B, C,
        m).
    """
    examples, classes = labels.shape[1], logits.shape[1]
    chosen = labels[:, None, :]
    if classes == 1:
        right = (logits[:, 0] > 0).long() == labels
        signs = 2.0 * chosen.to(logits.dtype) - 1.0
    else:
        right = logits.argmax(dim=1) == labels
        signs = torch.full_like(logits, -1.0).scatter_(1, chosen, 1.0)
    if kind == "squared":
        error = logits - signs  # L = ½ Σ_c e_c², dL/dŷ = e
        losses, delta = 0.5 * error.square().sum(dim=1).mean(dim=1), error
    elif classes == 1:
        losses = F.softplus(-signs * logits).mean(dim=(1, 2))
        delta = -signs * torch.sigmoid(-signs * logits)  # L = log(1 + exp(-yŷ))
    else:
        logs = torch.log_softmax(logits, dim=1)
        losses = -logs.gather(1, chosen).mean(dim=(1, 2))  # L = -log p_y
        delta = logs.exp()
        delta.scatter_add_(1, chosen, delta.new_full((), -1.0).expand(chosen.shape))  # p - y
    return losses, right, delta / examples
