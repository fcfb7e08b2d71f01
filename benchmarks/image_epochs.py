"""Epochs of an image network at any precision, and of the same network in plain torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from benchmarks.case import Amounts, Method, Work
from benchmarks.floors import count_training_work
from benchmarks.training_epochs import CLASSES, make_epochs
from dgn_engine.config import Precision, RunConfig
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

PRECISIONS: dict[Precision, str] = {"bf16": "bf16", "tf32": "TF32", "float32": "float32"}
PLAIN = "plain eager, float32"
MakeOptimiser = Callable[[list[Tensor]], Optimizer]


class ImageEpochs:
    """Training epochs of one network on random images.

    Args:
        config: the run configuration; each method sets its own precision.
        optimiser: creates the optimiser that plain torch uses for the same network.
    """

    def __init__(
        self, config: RunConfig, architecture: Architecture, optimiser: MakeOptimiser
    ) -> None:
        self._config = config
        self._architecture = architecture
        self._optimiser = optimiser

    @property
    def methods(self) -> tuple[Method, ...]:
        """Return one method for each precision, then plain torch."""
        ours = (
            Method(f"dgn_engine, {word}", self._ours(kind), arithmetic=kind)
            for kind, word in PRECISIONS.items()
        )
        return (*ours, Method(PLAIN, self._plain))

    def floor(self, n: int) -> Amounts:
        """Return the least work of an epoch of n examples."""
        steps = math.ceil(n / self._config.training.batch)
        return count_training_work(self._config, self._architecture, n, steps)

    def _trainer(self, device: torch.device, n: int, precision: Precision) -> Trainer:
        generator = torch.Generator().manual_seed(1)
        x = torch.rand((n, *self._architecture.input_shape), generator=generator).to(device)
        y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
        config = replace(self._config, training=replace(self._config.training, precision=precision))
        tested = min(n, config.training.batch)
        data = DeviceData(x, y, x[:tested], y[:tested])
        regime = find_regime(config.gating.regime)
        return Trainer(config, self._architecture, data, regime, device)

    def _ours(self, precision: Precision) -> Callable[[torch.device, int], Work]:
        return lambda device, n: make_epochs(self._trainer(device, n, precision), precision)

    def _plain(self, device: torch.device, n: int) -> Work:
        """Return epochs by the network's forward pass and autograd; the loss is read at the end."""
        trainer = self._trainer(device, n, "float32")
        network, batch = trainer.network, self._config.training.batch
        network.gather_statistics(True)  # batch normalisation by the batch
        optimiser = self._optimiser(list(network.parameters()))

        def work() -> Tensor:
            total = torch.zeros((), device=device)
            for rows in torch.arange(n, device=device).split(batch):
                logits = network(trainer.data.train_x[rows])
                loss = F.cross_entropy(logits, trainer.data.train_y[rows])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
                optimiser.step()
                total += loss.detach() * len(rows)
            return (total / n).cpu().reshape(1)

        return work
