"""The training loop of one run; knows no clock and no viewer."""

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
    """Network, optimiser and data of one run; `step` trains on one batch.

    Used by the training thread only.

    Attributes:
        config: Configuration of the run.
        step_count: Steps taken.
        undone_steps: Steps of these that were undone, whose batches come again.
        control: The network and its optimiser, and what changes them between two steps.
        batches: The examples, and which of them each step sees.
        train_sums: Losses and correct answers since the last score.
        network_step: Computes a step on the device.
        steps: Launches the steps.
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
        """Create network and optimiser.

        Args:
            config: Configuration of the run.
            architecture: Architecture before tiling.
            data: Examples on the device.
            regime: First regime.
            device: Device of the network.
            before_layer: Called with the size of each weight tensor before it is drawn; may raise
                to cancel.
        """
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
        """Train on the next batch."""
        rows = self.batches.step_rows(self.step_count - self.undone_steps)
        self.steps.step(rows)
        self.train_sums.examples += len(rows)
        self.step_count += 1

    def capture_steps(self, card: Card) -> None:
        """Launch steps as graphs from now on, where that works.

        Args:
            card: Captures the graphs.
        """
        make_capturable(self.optimizer.torch)
        self.train_sums.captured = True
        self.steps = GraphSteps(self.network_step, card)

    @property
    def regime(self) -> Regime:
        """Return the regime in force.

        Returns:
            The regime.
        """
        return self.control.regime

    @property
    def seed(self) -> int:
        """Return the seed of the order of batches and of everything drawn.

        Returns:
            The seed.
        """
        return self.control.seed

    @property
    def data(self) -> DeviceData:
        """Return the examples on the device.

        Returns:
            Both splits.
        """
        return self.batches.data

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of batches per epoch; the last may be smaller.

        Returns:
            ⌈n / batch⌉.
        """
        return self.batches.batches_per_epoch

    @property
    def epoch(self) -> float:
        """Return the progress in epochs.

        Returns:
            `step_count` / `steps_per_epoch`.
        """
        return self.step_count / self.steps_per_epoch

    def train_score(self) -> Score:
        """Return the mean over the batches since the last call, waiting for the device.

        Returns:
            NaN without batches.
        """
        return self.train_sums.fetch_score().score

    def test_score(self) -> Score:
        """Score the whole test set, without random numbers or gradients.

        Returns:
            Mean loss and accuracy.
        """
        whole = TestPass(self.network, self.data, self.config.training.loss)
        while (score := whole.advance()) is None:
            pass
        return score

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that is learnt or drawn.

        Returns:
            Both networks, optimiser state and fixed input, by name; not copied.
        """
        return self.control.tensors()

    def counters(self) -> dict[str, object]:
        """Return steps, draws, seed, and the sums of the current train score.

        Returns:
            Plain values, as a checkpoint stores them.
        """
        return {
            "step": self.step_count,
            "undone_steps": self.undone_steps,
            "draws": self.control.draws,
            "seed": self.seed,
            "train_sums": self.train_sums.sums.tolist(),
            "train_seen": self.train_sums.examples,
        }

    def restore_state(self, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
        """Load the state of another trainer; the caller sets regime and settings.

        Args:
            tensors: From `tensors`.
            counters: From `counters`.

        Raises:
            KeyError: A tensor is missing.
            RuntimeError: A tensor has the wrong shape.
            ValueError: More steps were undone than taken.
        """
        step, undone = int(counters["step"]), int(counters.get("undone_steps", 0))
        if not 0 <= undone <= step:
            raise ValueError(f"{undone} of {step} steps are undone")
        self.control.restore_tensors(tensors)
        self.step_count, self.undone_steps = step, undone
        self.control.draws = int(counters["draws"])
        self.set_seed(int(counters.get("seed", self.seed)))
        sums = torch.tensor(counters["train_sums"], dtype=self.train_sums.sums.dtype)
        self.train_sums.set_sums(sums, int(counters["train_seen"]))

    def set_seed(self, seed: int) -> None:
        """Use another seed for batches and draws from the next step on.

        The rest of the epoch follows the order of the new seed, so examples may repeat.

        Args:
            seed: The seed.
        """
        if seed == self.seed:
            return
        self.control.set_seed(seed)
        self.batches.set_seed(seed)
