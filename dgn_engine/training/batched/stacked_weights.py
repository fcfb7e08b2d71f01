"""The weights of a stack, (B, ...) with every network's own as views, and their optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgn_engine.config import RunConfig
from dgn_engine.model.stack import Stack
from dgn_engine.training.batched.dense import DenseChain
from dgn_engine.training.steps.optimizer import make_capturable, make_optimiser
from dgn_engine.training.trainer import Trainer


class StackedWeights:
    """The weights of B trainers as one stack: changes of the stack are changes of their networks.

    Attributes:
        value: The value networks.
        features: The feature networks if they are trained, else None.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        """Move weights and optimiser states into the stack.

        Args:
            trainers: Trainers of one kind at the same step.
        """
        self._trainers = trainers
        regime = trainers[0].regime
        self.value = _Part(trainers, "value", regime.trains_value)
        self._parts = [self.value]
        self.features: _Part | None = None
        if regime.trains_feature:
            self.features = _Part(trainers, "feature", True, headless=True)
            self._parts.append(self.features)
        self._slices = _equal_rate_ranges([trainer.config for trainer in trainers])
        self._optimiser = self._make_optimiser()
        self._adopt_states()

    def step(self) -> None:
        """Update the weights from the gradients."""
        self._optimiser.step()

    def make_capturable(self) -> None:
        """Keep learning rates and step counts where captured steps read them."""
        make_capturable(self._optimiser)

    def tensors(self) -> list[Tensor]:
        """Return every tensor that a step changes.

        Returns:
            Stacked weights and optimiser states.
        """
        stacked = [tensor for part in self._parts for tensor in part.stacked.values()]
        states = self._optimiser.state.values()
        return stacked + [v for state in states for v in state.values() if isinstance(v, Tensor)]

    def publish_states(self) -> None:
        """Update the optimiser state of each trainer, as views."""
        for part in self._parts:
            for name, pieces in part.pieces.items():
                for (begin, end), piece in zip(self._slices, pieces, strict=True):
                    state = self._optimiser.state.get(piece)
                    if state:
                        self._publish_state(part, name, range(begin, end), state)

    def release(self) -> None:
        """Give each trainer its own copies of weights and states."""
        self.publish_states()
        for trainer in self._trainers:
            states = trainer.optimizer.torch.state
            for parameter in trainer.network.parameters():
                parameter.data = parameter.data.clone()
                if states.get(parameter):
                    states[parameter] = {key: v.clone() for key, v in states[parameter].items()}
            trainer.optimizer.read_counts()

    def _publish_state(self, part: _Part, name: str, indices: range, state: dict[str, Any]) -> None:
        for row, index in enumerate(indices):
            trainer = self._trainers[index]
            trainer.optimizer.torch.state[part.own[name][index]] = {
                key: value[row] if value.dim() else value
                for key, value in state.items()
                if isinstance(value, Tensor)
            }

    def _make_optimiser(self) -> torch.optim.Optimizer:
        groups = []
        for begin, end in self._slices:
            parameters = []
            for part in self._parts:
                if part.gradients is None:
                    continue
                for name in part.trained:
                    piece = nn.Parameter(part.stacked[name][begin:end], requires_grad=True)
                    piece.grad = part.gradients[name][begin:end]
                    part.pieces.setdefault(name, []).append(piece)
                    parameters.append(piece)
            rate = self._trainers[begin].optimizer.torch.param_groups[0]["lr"]
            groups.append({"params": parameters, "lr": rate})
        return make_optimiser(groups, self._trainers[0].config.training)

    def _adopt_states(self) -> None:
        """Continue with the moments of trainers that have taken steps."""
        for part in self._parts:
            for name, pieces in part.pieces.items():
                for (begin, end), piece in zip(self._slices, pieces, strict=True):
                    states = [
                        self._trainers[b].optimizer.torch.state.get(part.own[name][b], {})
                        for b in range(begin, end)
                    ]
                    if any(states):
                        self._optimiser.state[piece] = _stack_states(states)


class _Part:
    """Value or feature networks: stacked tensors by name, and those of each trainer."""

    def __init__(
        self, trainers: Sequence[Trainer], part: str, trains: bool, headless: bool = False
    ) -> None:
        networks: list[Stack] = [getattr(trainer.network, part) for trainer in trainers]
        parallel = networks[0].architecture.is_parallel
        names = [name for name, _ in networks[0].named_parameters()]
        self.own = {n: [network.get_parameter(n) for network in networks] for n in names}
        self.stacked = {n: torch.stack([p.detach() for p in self.own[n]]) for n in names}
        for name, stacked in self.stacked.items():
            for index, parameter in enumerate(self.own[name]):
                parameter.data = stacked[index]
        self.chain = _as_chain(self.stacked, parallel)
        last = len(self.chain.weights) - 1
        self.trained = [n for n in names if not (headless and n.endswith(f".{last}"))]
        self.gradients: dict[str, Tensor] | None = None
        self.gradient_chain: DenseChain | None = None
        if trains:
            self.gradients = {n: torch.zeros_like(t) for n, t in self.stacked.items()}
            self.gradient_chain = _as_chain(self.gradients, parallel)
        self.pieces: dict[str, list[nn.Parameter]] = {}


def _as_chain(tensors: dict[str, Tensor], parallel: bool) -> DenseChain:
    def tensors_of_kind(kind: str) -> list[Tensor]:
        count = sum(name.startswith(f"{kind}.") for name in tensors)
        return [tensors[f"{kind}.{index}"] for index in range(count)]

    return DenseChain(tensors_of_kind("weights"), tensors_of_kind("biases"), parallel)


def _equal_rate_ranges(configs: Sequence[RunConfig]) -> list[tuple[int, int]]:
    """Return start and end of each run of neighbours with equal learning rate."""
    rates = [config.training.learning_rate for config in configs]
    begins = [b for b in range(len(rates)) if b == 0 or rates[b] != rates[b - 1]]
    return list(zip(begins, [*begins[1:], len(rates)], strict=True))


def _stack_states(states: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """Stack the states of several networks; step counts are equal."""
    return {
        key: value.clone() if not value.dim() else torch.stack([state[key] for state in states])
        for key, value in states[0].items()
        if isinstance(value, Tensor)
    }
