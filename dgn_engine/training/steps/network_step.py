"""One training step of one network: batch, gradients, update, running score."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from dgn_engine.config import Precision, RunConfig
from dgn_engine.kernels.precision import float32_products
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from dgn_engine.training.device_data import Batches
from dgn_engine.training.metrics import RunningScore
from dgn_engine.training.network_control import NetworkControl
from dgn_engine.training.steps.choice import StepCase, choose_way
from dgn_engine.training.steps.dense_step import DenseStep, is_dense_chain
from dgn_engine.training.steps.losses import compute_loss

ROUNDING: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9}
"""Relative rounding error of the factors of a matrix product."""


def step_precision(kind: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return a context manager that computes a step in the given precision.

    bf16 uses autocast, tf32 the tensor cores of the card. Weights and optimiser state stay float32.
    Autocast keeps no cache of cast weights: a captured step must cast the weights it has moved. For
    float32 nothing is switched, since `use_full_products` was called before.

    Args:
        kind: Precision of the run's configuration.
        device: Device of the step.

    Returns:
        Enter it around the forward and backward pass.
    """
    if kind == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    if kind == "tf32" and device.type == "cuda":
        return float32_products("tf32")
    return nullcontext()


class NetworkStep:
    """The steps of one network, as a `StepRunner` launches them: never waits for the device.

    Attributes:
        on_eager: Called with the reason if steps cannot be captured although they should be.
    """

    def __init__(
        self, config: RunConfig, control: NetworkControl, batches: Batches, score: RunningScore
    ) -> None:
        """Bind the parts of a trainer.

        Args:
            config: Configuration of the run.
            control: The network and its optimiser.
            batches: The training examples.
            score: Receives the loss of each batch.
        """
        self._config = config
        self._control = control
        self._batches = batches
        self._score = score
        self._compared = False
        self._asked: tuple[object, ...] = ()  # the facts of the last choice
        self._dense: DenseStep | None = None
        self._by_hand: DenseStep | None = None  # None: autograd
        self.on_eager: Callable[[str], None] = lambda _: None

    def use_autograd(self) -> None:
        """Compute all further steps by autograd, to compare against it."""
        self._compared = True

    def take_step(self, rows: Tensor) -> None:
        """Train on a batch and add its loss to the running score.

        Args:
            rows: Indices of the training examples, (m,).
        """
        with step_precision(self._config.training.precision, rows.device):
            x, y = self._batches.gather_batch(rows)
            by_hand = self._choose_step()
            if by_hand is not None:
                value, logits = by_hand(x, y)
                self._control.optimizer.update_flat(by_hand.trained)
            else:
                value, logits = self._autograd_step(x, y, rows)
            self._score.add_batch(value, logits, y)

    def capture_key(self) -> tuple[object, ...]:
        """Return everything a captured step would not notice changing.

        Returns:
            Regime, seed, settings, addresses of weights and data, optimiser layout.
        """
        network, by_hand = self._control.network, self._choose_step()
        if by_hand is not None:
            by_hand.ensure_flat()
        return (
            self._control.regime.name,
            self._control.seed,  # drawn gates depend on it
            *network.settings,
            network.value.weights[0].data_ptr(),
            network.feature.weights[0].data_ptr(),
            id(self._batches.data),
            self._control.optimizer.capture_layout,
            by_hand is None,
        )

    def changed_tensors(self) -> list[Tensor]:
        """Return every tensor that a step changes.

        Returns:
            Weights, optimiser state, and the sums of the running score.
        """
        return [*self._control.tensors().values(), self._score.sums]

    def drop_gradients(self) -> None:
        """Drop the gradients of a step that did not finish."""
        self._control.optimizer.torch.zero_grad(set_to_none=True)

    @property
    def examples(self) -> int:
        """Return the number of training examples.

        Returns:
            Upper bound of `rows`, exclusive.
        """
        return self._batches.examples

    @property
    def rounding(self) -> float:
        """Return the relative rounding error of this run's precision.

        Returns:
            See `ROUNDING`.
        """
        return ROUNDING[self._config.training.precision]

    def _choose_step(self) -> DenseStep | None:
        """Return the dense step, or None for autograd; re-decide if regime or Θ^f changed."""
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

    def _autograd_step(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step by autograd; return the mean loss () and the logits (m, C)."""
        if x.dim() == 4 and self._takes_channels_last(x):
            # `clone`, since `contiguous` keeps the strides of one-channel images and thereby the
            # old layout.
            x = x.clone(memory_format=torch.channels_last)
        network, optimizer = self._control.network, self._control.optimizer
        network.gather_statistics(True)
        logits = self._control.network_at(rows)(x)
        network.gather_statistics(False)
        value = compute_loss(self._config.training.loss, logits, y)
        value.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        optimizer.step()
        return value.detach(), logits.detach()

    def _takes_channels_last(self, x: Tensor) -> bool:
        """Return whether to convert maps to channels_last.

        bf16 kernels would rearrange other layouts. On a CPU, float32 convolution chains train 1.1
        times as fast (1.0 to 1.2), but not if they are normalised, circular or pooled (`make
        bench`).
        """
        if self._config.training.precision == "bf16":
            return True
        chain = is_chain_of_convolutions(self._control.network.architecture)
        return chain and x.device.type == "cpu" and x.dtype == torch.float32


def is_chain_of_convolutions(architecture: Architecture) -> bool:
    """Return whether a network is a plain chain of convolutions with its head.

    Args:
        architecture: Architecture of one network.

    Returns:
        True if no convolution is normalised or circular, and only pooling, flatten and dense layers
        follow.
    """
    convolutions = [node for node in architecture.nodes if isinstance(node, Conv)]
    others = (GlobalAveragePool, Flatten, Dense)
    return (
        bool(convolutions)
        and not any(node.normal or node.circular for node in convolutions)
        and all(isinstance(node, (Conv, *others)) for node in architecture.nodes)
    )
