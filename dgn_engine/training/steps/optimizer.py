"""The optimiser over value and feature network.

It wraps torch's optimisers, can drop the state of redrawn weights, and updates flat weights with
one fused kernel.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgn_engine.config import TrainingConfig
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training.steps.dense_buffers import FlatWeights


class NetworkOptimizer:
    """One torch optimiser with two parameter groups: 0 the value network, 1 the feature network.

    Attributes:
        torch: The torch optimiser.
        learning_rate: Current learning rate of both groups.
    """

    def __init__(self, config: TrainingConfig, network: GatedNetwork) -> None:
        """Create the torch optimiser.

        Args:
            config: Optimiser, learning rate and its hyperparameters.
            network: The network to train.
        """
        groups = [
            {"params": list(network.value.parameters())},
            {"params": list(network.feature.parameters())},
        ]
        self.torch = make_optimiser(groups, config)
        self.learning_rate = config.learning_rate
        self._states = 0  # how often states were replaced or dropped outside of a step
        self._moments: dict[int, _Moments] = {}  # by id of their `FlatWeights`
        first = self.torch.param_groups[0]
        self._merges = bool(first.get("fused")) and isinstance(self.torch, torch.optim.Adam)
        # Weights of equal age took equally many steps. The counts themselves may lie on a card,
        # which no step waits for. States replaced from outside are missing here.
        self._ages: dict[Tensor, tuple[dict[str, Any], int]] = {}
        self._new_age = itertools.count(1)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of both groups from the next step on.

        Args:
            rate: Learning rate; a captured step picks it up without a new graph.
        """
        self.learning_rate = rate
        for group in self.torch.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # a captured step reads it there
            else:
                group["lr"] = rate

    @property
    def capture_layout(self) -> tuple[object, ...]:
        """Return what requires a new graph when it changes.

        Returns:
            A counter of replaced states, and learning rates that are baked into the kernels.
        """
        rates = (group["lr"] for group in self.torch.param_groups)
        return (self._states, *(rate for rate in rates if not isinstance(rate, Tensor)))

    def step(self) -> None:
        """Update the weights that have a gradient, then clear the gradients."""
        self._split_moments()
        groups = self.torch.param_groups if self._merges else []
        moved = [p for group in groups for p in group["params"] if p.grad is not None]
        ages = [self._age_of(parameter) for parameter in moved]
        self.torch.step()
        # Weights of one age move on together. That also holds if the step is only captured, and
        # then replayed any number of times.
        after = {age: next(self._new_age) for age in set(ages)}
        for parameter, age in zip(moved, ages, strict=True):
            self._ages[parameter] = self.torch.state[parameter], after[age]
        self.torch.zero_grad(set_to_none=True)

    @torch.no_grad()
    def update_flat(self, groups: Sequence[FlatWeights]) -> None:
        """Update flat weights whose gradients are in `slopes`; all other weights stay.

        Skips the bookkeeping of torch's own `step`, which takes longer than updating a narrow
        network, and calls the same kernel.

        Args:
            groups: Flat weights to update.
        """
        group = self.torch.param_groups[0]
        moments = [self._moments_of(flat) for flat in groups] if self._merges else [None]
        known = [item for item in moments if item is not None]
        if len(known) < len(moments):
            for flat in groups:
                for parameter, gradient in zip(flat.parameters, flat.gradients, strict=True):
                    parameter.grad = gradient
            self.step()
            return
        _fused_adam(group, groups, known)

    def _moments_of(self, flat: FlatWeights) -> _Moments | None:
        """Return the flat Adam moments of some weights, or None while any weight has no state."""
        states = [self.torch.state.get(parameter) for parameter in flat.parameters]
        known = self._moments.get(id(flat))
        if known is not None and known.belongs_to(flat, states):
            return known
        existing = [state for state in states if state]
        if len(existing) < len(states) or len(set(map(self._age_of, flat.parameters))) > 1:
            return None
        # From now on they share an age that no other weight has.
        age = next(self._new_age)
        for parameter, state in zip(flat.parameters, existing, strict=True):
            self._ages[parameter] = state, age
        intact = {key: moments for key, moments in self._moments.items() if moments.is_intact}
        self._moments = {**intact, id(flat): _Moments(flat, existing)}
        return self._moments[id(flat)]

    def _age_of(self, parameter: Tensor) -> int:
        """Return a number equal for weights that took equally many steps; 0 without state.

        A state that was replaced from outside gets a number of its own.
        """
        state = self.torch.state.get(parameter)
        if not state:
            return 0
        known, age = self._ages.get(parameter, (None, 0))
        return age if known is state else next(self._new_age)

    def read_counts(self) -> None:
        """Compare the step counts of states that came from elsewhere.

        Waits for the card once, so call it where states are replaced, not in a step.
        """
        self._ages.clear()
        states = {p: state for p, state in self.torch.state.items() if state}
        if not self._merges or not states:
            return
        counts = torch.stack([state["step"].reshape(()) for state in states.values()]).tolist()
        ages = {count: next(self._new_age) for count in set(counts)}
        pairs = zip(states.items(), counts, strict=True)
        self._ages = {p: (state, ages[count]) for (p, state), count in pairs}

    def _split_moments(self) -> None:
        """Give each weight its own step count again, as torch's `step` expects."""
        for moments in self._moments.values():
            moments.split_counts()
        self._moments.clear()

    def forget_state(self, network: nn.Module) -> None:
        """Drop the state (moments, step counts) of redrawn weights.

        Args:
            network: Value or feature network.
        """
        self._states += 1
        for parameter in network.parameters():
            self.torch.state.pop(parameter, None)
            self._ages.pop(parameter, None)

    def replace_feature(self, feature: nn.Module) -> None:
        """Optimise a new feature module, without state.

        Args:
            feature: Replaces Θ^f, for example after an import with biases.
        """
        self._states += 1
        for parameter in self.torch.param_groups[1]["params"]:
            self.torch.state.pop(parameter, None)
            self._ages.pop(parameter, None)
        self.torch.param_groups[1]["params"] = list(feature.parameters())

    def state_tensors(self, network: GatedNetwork) -> dict[str, Tensor]:
        """Return the optimiser state by name.

        Args:
            network: The network that is optimised.

        Returns:
            Moments and step counts, as 'optimiser.value.weights.0.exp_avg'; not copied.
        """
        return {
            f"optimiser.{name}.{key}": value
            for name, parameter in _named_parameters(network)
            for key, value in self.torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore_state(self, network: GatedNetwork, tensors: Mapping[str, Tensor]) -> None:
        """Load a state returned by `state_tensors`.

        Args:
            network: The network that is optimised.
            tensors: State by name, copied; weights without an entry start without state.
        """
        self._states += 1
        group = self.torch.param_groups[0]
        resident = bool(group.get("fused") or group.get("capturable"))
        for name, parameter in _named_parameters(network):
            prefix = f"optimiser.{name}."
            state: dict[str, Tensor] = {}
            for full in tensors:
                if full.startswith(prefix):
                    key = full.removeprefix(prefix)
                    # Step counts lie on the device only if the kernel reads them there.
                    counts = key == "step" and not resident
                    device = torch.device("cpu") if counts else parameter.device
                    state[key] = tensors[full].to(device, copy=True)
            self.torch.state.pop(parameter, None)
            if state:
                self.torch.state[parameter] = state
        self.read_counts()


class _WithoutCompiler(torch.optim.Optimizer):
    """torch's optimisers without `torch.compile` support.

    torch's own import the compiler (1.5 s) when constructed, only to exclude themselves from
    compilation.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class _Adam(_WithoutCompiler, torch.optim.Adam):
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class _SGD(_WithoutCompiler, torch.optim.SGD):
    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


class _RMSprop(_WithoutCompiler, torch.optim.RMSprop):
    step = torch.no_grad()(inspect.unwrap(torch.optim.RMSprop.step))


def make_optimiser(groups: list[dict[str, Any]], config: TrainingConfig) -> torch.optim.Optimizer:
    """Create the torch optimiser of a configuration.

    Args:
        groups: Parameter groups as torch takes them; a group may set its own 'lr'.
        config: Optimiser, learning rate and its hyperparameters.

    Returns:
        The optimiser, fused where the device supports it.
    """
    fused = groups[0]["params"][0].device.type in ("cpu", "cuda", "mps")
    rate = config.learning_rate
    match config.optimiser:
        case "adam":
            return _Adam(groups, lr=rate, fused=fused)
        case "sgd":
            return _SGD(groups, lr=rate, momentum=config.momentum, fused=fused)
        case "rmsprop":
            return _RMSprop(groups, lr=rate, alpha=config.smoothing)


def count_moments(config: TrainingConfig) -> int:
    """Return how many numbers the optimiser keeps per trained weight.

    Args:
        config: Optimiser and its hyperparameters.

    Returns:
        2 for Adam, 1 for RMSprop and SGD with momentum, else 0.
    """
    match config.optimiser:
        case "adam":
            return 2
        case "sgd":
            return int(config.momentum > 0)
        case "rmsprop":
            return 1


def make_capturable(optimiser: torch.optim.Optimizer) -> None:
    """Keep learning rates and step counts in tensors that kernels read; call before the first step.

    Args:
        optimiser: The optimiser, changed in place.
    """
    for group in optimiser.param_groups:
        device = group["params"][0].device
        if device.type == "cuda" and "capturable" in group:
            group["capturable"] = True
        if group.get("fused") or group.get("capturable"):
            group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=device)


class _Moments:
    """Adam's moments of weights that lie side by side, with one shared step count."""

    def __init__(self, flat: FlatWeights, states: Sequence[dict[str, Tensor]]) -> None:
        """Turn the states into views of flat moments that share one step count."""
        self._flat, self._states = flat, states
        self.mean, self.square = (torch.zeros_like(flat.values) for _ in range(2))
        self.step = states[0]["step"].clone()
        for key, whole in (("exp_avg", self.mean), ("exp_avg_sq", self.square)):
            for state, own in zip(states, flat.split_views(whole), strict=True):
                own.copy_(state[key])
                state[key] = own
        for state in states:
            state["step"] = self.step

    def belongs_to(self, flat: FlatWeights, states: Sequence[dict[str, Tensor] | None]) -> bool:
        """Return whether the moments belong to these weights and no state was replaced."""
        return self._flat is flat and all(map(operator.is_, self._states, states))

    @property
    def is_intact(self) -> bool:
        """Return whether the weights still lie in their flat buffer."""
        return self._flat.is_intact

    def split_counts(self) -> None:
        """Give each state a step count of its own."""
        for state in self._states:
            state["step"] = self.step.clone()


def _fused_adam(
    group: Mapping[str, Any], weights: Sequence[FlatWeights], moments: Sequence[_Moments]
) -> None:
    """Call the kernel behind `torch.optim.Adam(fused=True)`."""
    counts = [moment.step for moment in moments]
    torch._foreach_add_(counts, 1)
    torch._fused_adam_(
        [flat.values for flat in weights],
        [flat.slopes for flat in weights],
        [moment.mean for moment in moments],
        [moment.square for moment in moments],
        [],
        counts,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
    )


def _named_parameters(network: GatedNetwork) -> Iterator[tuple[str, nn.Parameter]]:
    for part, stack in (("value", network.value), ("feature", network.feature)):
        for name, parameter in stack.named_parameters():
            yield f"{part}.{name}", parameter
