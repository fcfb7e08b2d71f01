"""The training loop of one run, readable from top to bottom; it knows no clock and no viewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.kernels.precision import use_full_products
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import Regime
from dgn_engine.training.device_data import Batches, DeviceData
from dgn_engine.training.metrics import RunningScore, Score, TestPass
from dgn_engine.training.network_control import NetworkControl
from dgn_engine.training.steps.choice import StepCase, choose_way
from dgn_engine.training.steps.graphs import Card, CudaCard, EagerSteps, GraphSteps, StepRunner
from dgn_engine.training.steps.network_step import NetworkStep
from dgn_engine.training.steps.optimizer import make_capturable


class Trainer:
    """Network, optimiser and data of one run; `step` takes one batch.

    Attributes:
        control: The network and its optimiser, and what changes them between two steps.
        batches: The examples, and which of them each step is shown.
        train_sums: Losses and right answers since the last score.
        network_step: What is done for a step, on the device.
        steps: Who launches it.
    """

    def __init__(
        self,
        config: RunConfig,
        architecture: Architecture,
        data: DeviceData,
        regime: Regime,
        device: torch.device,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`before_layer`: told the numbers of each layer that is drawn; what it raises ends it."""
        self.config = config
        self.step_count = 0
        self.undone_steps = 0  # of these: their batches come again
        self.control = NetworkControl(config, architecture, data, regime, device, before_layer)
        self.network, self.optimizer = self.control.network, self.control.optimizer
        self.batches = Batches(data, config)
        self.train_sums = RunningScore(device)
        self.network_step = NetworkStep(config, self.control, self.batches, self.train_sums)
        self.steps: StepRunner = EagerSteps(self.network_step)
        launch = choose_way("launch", StepCase(config, regime, device.type))
        if launch.way == "graph":
            use_full_products()
            self.capture_steps(CudaCard(device))

    def step(self) -> None:
        rows = self.batches.rows(self.step_count - self.undone_steps)
        self.steps.step(rows)
        self.train_sums.examples += len(rows)
        self.step_count += 1

    def capture_steps(self, card: Card) -> None:
        """From now on, take steps as graphs of this card where that works."""
        make_capturable(self.optimizer.torch)
        self.steps = GraphSteps(self.network_step, card)

    @property
    def regime(self) -> Regime:
        return self.control.regime

    @property
    def seed(self) -> int:
        """Of the order of batches and of all that is drawn."""
        return self.control.seed

    @property
    def data(self) -> DeviceData:
        return self.batches.data

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch; the last one may be smaller."""
        return self.batches.count

    @property
    def epoch(self) -> float:
        return self.step_count / self.steps_per_epoch

    def train_score(self) -> Score:
        """Mean over the batches since the last call; NaN where there was none."""
        return self.train_sums.ask().score

    def test_score(self) -> Score:
        """Loss and accuracy on the whole test set; no randomness, no gradient."""
        whole = TestPass(self.network, self.data, self.config.training.loss)
        while (score := whole.advance()) is None:
            pass
        return score

    def tensors(self) -> dict[str, Tensor]:
        """Everything that is learnt or drawn, by name: both networks, optimiser, fixed input."""
        return self.control.tensors()

    def counters(self) -> dict[str, object]:
        """Steps, draws, and the sums of the train score that is being gathered."""
        return {
            "step": self.step_count,
            "undone_steps": self.undone_steps,
            "draws": self.control.draws,
            "seed": self.seed,
            "train_sums": self.train_sums.sums.tolist(),
            "train_seen": self.train_sums.examples,
        }

    def restore(self, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
        """Take over the state of another trainer; the caller sets the regime and the settings.

        Raises `KeyError` or `RuntimeError` where a tensor is missing or has another shape, and
        `ValueError` where more steps were undone than were taken.
        """
        step, undone = int(counters["step"]), int(counters.get("undone_steps", 0))
        if not 0 <= undone <= step:
            raise ValueError(f"{undone} of {step} steps are undone")
        self.control.restore(tensors)
        self.step_count, self.undone_steps = step, undone
        self.control.draws = int(counters["draws"])
        self.reseed(int(counters.get("seed", self.seed)))
        sums = torch.tensor(counters["train_sums"], dtype=self.train_sums.sums.dtype)
        self.train_sums.set(sums, int(counters["train_seen"]))

    def reseed(self, seed: int) -> None:
        """From the next step on, order the batches and draw by another seed: what is left of this
        epoch is what is left in the order of that seed, so that it may repeat examples."""
        if seed == self.seed:
            return
        self.control.reseed(seed)
        self.batches.reseed(seed)
