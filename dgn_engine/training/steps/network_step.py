"""The training step of one network: its batch, its gradients, its update, its scores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from dgn_engine.config import Precision, RunConfig
from dgn_engine.kernels.precision import products
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from dgn_engine.training.device_data import Batches
from dgn_engine.training.metrics import RunningScore
from dgn_engine.training.network_control import NetworkControl
from dgn_engine.training.steps.choice import StepCase, choose_way
from dgn_engine.training.steps.dense_step import DenseStep, is_dense_chain
from dgn_engine.training.steps.losses import loss

ROUNDING: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9}
"""How far a number is rounded, as a share of it, where a step multiplies."""


def step_precision(kind: Precision, device: torch.device) -> AbstractContextManager[object]:
    """In here a step is computed as asked: 'bf16' by autocast, 'tf32' by what the card multiplies.

    Weights and moments are float32 in all of them. Without caches of cast weights: a captured step
    must cast those that it moved. Steps in float32 switch nothing: `use_full_products` did.
    """
    if kind == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    if kind == "tf32" and device.type == "cuda":
        return products("tf32")
    return nullcontext()


class NetworkStep:
    """Work of the device alone, for which nothing here waits; what a `StepRunner` launches.

    `on_eager`: told why steps are not captured, where they should be.
    """

    def __init__(
        self, config: RunConfig, control: NetworkControl, batches: Batches, score: RunningScore
    ) -> None:
        self._config = config
        self._control = control
        self._batches = batches
        self._score = score
        self._compared = False
        self._asked: tuple[object, ...] = ()  # of what the way was chosen
        self._dense: DenseStep | None = None
        self._by_hand: DenseStep | None = None  # None: autograd takes the step
        self.on_eager: Callable[[str], None] = lambda _: None

    def use_autograd(self) -> None:
        """Take every step by autograd from now on: the slow road, for whoever compares."""
        self._compared = True

    def take(self, rows: Tensor) -> None:
        """Train on these examples, (m,), and add up their losses."""
        with step_precision(self._config.training.precision, rows.device):
            x, y = self._batches.take(rows)
            by_hand = self._choose()
            if by_hand is not None:
                value, logits = by_hand(x, y)
                self._control.optimizer.update(by_hand.trained)
            else:
                value, logits = self._by_autograd(x, y, rows)
            self._score.add(value, logits, y)

    def structure(self) -> tuple[object, ...]:
        """All that a captured step would not notice; weights lie where the step leaves them."""
        network, by_hand = self._control.network, self._choose()
        if by_hand is not None:
            by_hand.lay_weights()
        return (
            self._control.regime.name,
            self._control.seed,  # of gates that are drawn
            *network.settings,
            network.value.weights[0].data_ptr(),
            network.feature.weights[0].data_ptr(),
            id(self._batches.data),
            self._control.optimizer.layout,
            by_hand is None,
        )

    def moved(self) -> list[Tensor]:
        return [*self._control.tensors().values(), self._score.sums]

    def drop_gradients(self) -> None:
        self._control.optimizer.torch.zero_grad(set_to_none=True)

    @property
    def examples(self) -> int:
        return self._batches.examples

    @property
    def rounding(self) -> float:
        return ROUNDING[self._config.training.precision]

    def _choose(self) -> DenseStep | None:
        """Ask the table again where the regime or the feature network is another one."""
        network, regime = self._control.network, self._control.regime
        asked = (regime, network.feature, self._compared)
        if asked == self._asked:
            return self._by_hand
        if self._asked[1:2] != asked[1:2]:
            self._dense = None
        self._asked, self._by_hand = asked, None
        dense = is_dense_chain(network)
        case = StepCase(self._config, regime, dense=dense, compared=self._compared)
        if choose_way("gradients", case).way == "dense":
            if self._dense is None:
                self._dense = DenseStep(network, self._config.training.loss)
            self._by_hand = self._dense
        return self._by_hand

    def _by_autograd(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and logits of the batch; the weights have moved."""
        if x.dim() == 4 and self._takes_channels_last(x):
            # A copy: of images of one channel `contiguous` would keep the strides, and so the
            # order.
            x = x.clone(memory_format=torch.channels_last)
        network, optimizer = self._control.network, self._control.optimizer
        network.gather(True)
        logits = self._control.network_at(rows)(x)
        network.gather(False)
        value = loss(self._config.training.loss, logits, y)
        value.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        optimizer.step()
        return value.detach(), logits.detach()

    def _takes_channels_last(self, x: Tensor) -> bool:
        """Whether maps are taken in this order: what multiplies bf16 would rearrange others, and a
        CPU trains a chain of convolutions in float32 1.1 times as fast (1.0 to 1.2), but no faster
        where they are normalised, wrapped around or pooled (`make bench`)."""
        if self._config.training.precision == "bf16":
            return True
        chain = is_chain_of_convolutions(self._control.network.architecture)
        return chain and x.device.type == "cpu" and x.dtype == torch.float32


def is_chain_of_convolutions(architecture: Architecture) -> bool:
    """Whether it is convolutions, neither normalised nor wrapped around, and what follows them."""
    convolutions = [node for node in architecture.nodes if isinstance(node, Conv)]
    others = (GlobalAveragePool, Flatten, Dense)
    return (
        bool(convolutions)
        and not any(node.normal or node.circular for node in convolutions)
        and all(isinstance(node, (Conv, *others)) for node in architecture.nodes)
    )
