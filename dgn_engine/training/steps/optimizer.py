"""The optimiser over both networks, which can forget a group that was redrawn."""

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
    """One torch optimiser with two groups: 0 the value network, 1 the feature network."""

    def __init__(self, config: TrainingConfig, network: GatedNetwork) -> None:
        groups = [
            {"params": list(network.value.parameters())},
            {"params": list(network.feature.parameters())},
        ]
        self.torch = optimiser_over(groups, config)
        self.learning_rate = config.learning_rate
        self._states = 0  # how often states came or went otherwise than by a step
        self._moments: dict[int, _Moments] = {}  # by the stretch of weights that they belong to
        first = self.torch.param_groups[0]
        self._merges = bool(first.get("fused")) and isinstance(self.torch, torch.optim.Adam)
        # Weights with equal numbers have taken equally many steps. The counts themselves may lie
        # on a card, which no step waits for. A state that somebody replaced has no number.
        self._ages: dict[Tensor, tuple[dict[str, Any], int]] = {}
        self._new_age = itertools.count(1)

    def set_learning_rate(self, rate: float) -> None:
        """From the next step on, for both groups."""
        self.learning_rate = rate
        for group in self.torch.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # a captured step reads it there
            else:
                group["lr"] = rate

    @property
    def layout(self) -> tuple[object, ...]:
        """Changes where a captured step would not do: states are others, or a rate that is part
        of its kernels."""
        rates = (group["lr"] for group in self.torch.param_groups)
        return (self._states, *(rate for rate in rates if not isinstance(rate, Tensor)))

    def step(self) -> None:
        """Move the weights that have a gradient, then clear the gradients."""
        self._part_moments()
        groups = self.torch.param_groups if self._merges else []
        moved = [p for group in groups for p in group["params"] if p.grad is not None]
        ages = [self._age_of(parameter) for parameter in moved]
        self.torch.step()
        # Of one age before, of one age now; others have not moved. That also holds where the step
        # is only captured, and then replayed any number of times.
        after = {age: next(self._new_age) for age in set(ages)}
        for parameter, age in zip(moved, ages, strict=True):
            self._ages[parameter] = self.torch.state[parameter], after[age]
        self.torch.zero_grad(set_to_none=True)

    @torch.no_grad()
    def update(self, groups: Sequence[FlatWeights]) -> None:
        """As `step` for weights whose gradients are given; the others stay.

        Without the bookkeeping of torch's own `step`, which takes longer than the update of a
        narrow network; the arithmetic is the same kernel's.
        """
        group = self.torch.param_groups[0]
        moments = [self._moments_of(flat) for flat in groups] if self._merges else [None]
        known = [one for one in moments if one is not None]
        if len(known) < len(moments):
            for flat in groups:
                for parameter, gradient in zip(flat.parameters, flat.gradients, strict=True):
                    parameter.grad = gradient
            self.step()
            return
        _fused_adam(group, groups, known)

    def _moments_of(self, flat: FlatWeights) -> _Moments | None:
        """Those of a stretch of weights in one piece; None where one of them has none yet."""
        states = [self.torch.state.get(parameter) for parameter in flat.parameters]
        found = self._moments.get(id(flat))
        if found is not None and found.are(flat, states):
            return found
        there = [state for state in states if state]
        if len(there) < len(states) or len(set(map(self._age_of, flat.parameters))) > 1:
            return None
        # From now on they move together, and nothing else that had their age.
        age = next(self._new_age)
        for parameter, state in zip(flat.parameters, there, strict=True):
            self._ages[parameter] = state, age
        still = {key: moments for key, moments in self._moments.items() if moments.intact}
        self._moments = {**still, id(flat): _Moments(flat, there)}
        return self._moments[id(flat)]

    def _age_of(self, parameter: Tensor) -> int:
        """Return its number: 0 without a state, one of its own where its state is not known."""
        state = self.torch.state.get(parameter)
        if not state:
            return 0
        known, age = self._ages.get(parameter, (None, 0))
        return age if known is state else next(self._new_age)

    def read_counts(self) -> None:
        """Compare the counts of steps of states that came from elsewhere.

        A card is waited for, once: call it where states are replaced, not in a step.
        """
        self._ages.clear()
        states = {p: state for p, state in self.torch.state.items() if state}
        if not self._merges or not states:
            return
        counts = torch.stack([state["step"].reshape(()) for state in states.values()]).tolist()
        ages = {count: next(self._new_age) for count in set(counts)}
        pairs = zip(states.items(), counts, strict=True)
        self._ages = {p: (state, ages[count]) for (p, state), count in pairs}

    def _part_moments(self) -> None:
        """Each weight has a count of steps of its own again, as torch's step expects."""
        for moments in self._moments.values():
            moments.part()
        self._moments.clear()

    def forget(self, network: nn.Module) -> None:
        """Drop the state (moments, step counts) of redrawn weights."""
        self._states += 1
        for parameter in network.parameters():
            self.torch.state.pop(parameter, None)
            self._ages.pop(parameter, None)

    def replace_feature(self, feature: nn.Module) -> None:
        """Θ^f became a new module (an import with biases); its state starts afresh."""
        self._states += 1
        for parameter in self.torch.param_groups[1]["params"]:
            self.torch.state.pop(parameter, None)
            self._ages.pop(parameter, None)
        self.torch.param_groups[1]["params"] = list(feature.parameters())

    def tensors(self, network: GatedNetwork) -> dict[str, Tensor]:
        """Its state (moments, step counts) as 'optimiser.value.weights.0.exp_avg' and so on."""
        return {
            f"optimiser.{name}.{key}": value
            for name, parameter in _named(network)
            for key, value in self.torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore(self, network: GatedNetwork, tensors: Mapping[str, Tensor]) -> None:
        """Take over a state that `tensors` gave; weights that it does not name start afresh."""
        self._states += 1
        group = self.torch.param_groups[0]
        resident = bool(group.get("fused") or group.get("capturable"))
        for name, parameter in _named(network):
            prefix = f"optimiser.{name}."
            state: dict[str, Tensor] = {}
            for full in tensors:
                if full.startswith(prefix):
                    key = full.removeprefix(prefix)
                    # The count of steps lies on the device only where the kernel reads it there.
                    counts = key == "step" and not resident
                    device = torch.device("cpu") if counts else parameter.device
                    state[key] = tensors[full].to(device, copy=True)
            self.torch.state.pop(parameter, None)
            if state:
                self.torch.state[parameter] = state
        self.read_counts()


class _WithoutCompiler(torch.optim.Optimizer):
    """torch's own, which load its compiler (a second and a half) by being made, only to be left
    out of what that compiles; here nothing is compiled."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class _Adam(_WithoutCompiler, torch.optim.Adam):
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class _SGD(_WithoutCompiler, torch.optim.SGD):
    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


class _RMSprop(_WithoutCompiler, torch.optim.RMSprop):
    step = torch.no_grad()(inspect.unwrap(torch.optim.RMSprop.step))


def optimiser_over(groups: list[dict[str, Any]], config: TrainingConfig) -> torch.optim.Optimizer:
    """torch's own over these groups of parameters; a group may have another learning rate."""
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
    """Return how many numbers the optimiser keeps of each weight that it trains."""
    match config.optimiser:
        case "adam":
            return 2
        case "sgd":
            return int(config.momentum > 0)
        case "rmsprop":
            return 1


def make_capturable(optimiser: torch.optim.Optimizer) -> None:
    """Rates as tensors that kernels read, counts of steps on the card; before the first step."""
    for group in optimiser.param_groups:
        device = group["params"][0].device
        if device.type == "cuda" and "capturable" in group:
            group["capturable"] = True
        if group.get("fused") or group.get("capturable"):
            group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=device)


class _Moments:
    """Adam's moments of some weights that lie side by side, and the one count of their steps."""

    def __init__(self, flat: FlatWeights, states: Sequence[dict[str, Tensor]]) -> None:
        """The states become views of them, and share the count."""
        self._flat, self._states = flat, states
        self.mean, self.square = (torch.zeros_like(flat.values) for _ in range(2))
        self.step = states[0]["step"].clone()
        for key, whole in (("exp_avg", self.mean), ("exp_avg_sq", self.square)):
            for state, own in zip(states, flat.views(whole), strict=True):
                own.copy_(state[key])
                state[key] = own
        for state in states:
            state["step"] = self.step

    def are(self, flat: FlatWeights, states: Sequence[dict[str, Tensor] | None]) -> bool:
        """Whether they belong to these weights, whose states nobody has replaced."""
        return self._flat is flat and all(map(operator.is_, self._states, states))

    @property
    def intact(self) -> bool:
        """Whether the weights still lie where they did."""
        return self._flat.intact

    def part(self) -> None:
        """Give each state a count of its own."""
        for state in self._states:
            state["step"] = self.step.clone()


def _fused_adam(
    group: Mapping[str, Any], weights: Sequence[FlatWeights], moments: Sequence[_Moments]
) -> None:
    """The call that torch.optim.Adam(fused=True) ends in."""
    counts = [one.step for one in moments]
    torch._foreach_add_(counts, 1)
    torch._fused_adam_(
        [flat.values for flat in weights],
        [flat.slopes for flat in weights],
        [one.mean for one in moments],
        [one.square for one in moments],
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


def _named(network: GatedNetwork) -> Iterator[tuple[str, nn.Parameter]]:
    for part, stack in (("value", network.value), ("feature", network.feature)):
        for name, parameter in stack.named_parameters():
            yield f"{part}.{name}", parameter
