"""The optimiser over both networks, which can forget a group that was redrawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgn_engine.config import TrainingConfig
from dgn_engine.model.network import GatedNetwork


class NetworkOptimizer:
    """One torch optimiser with two groups: 0 the value network, 1 the feature network."""

    def __init__(self, config: TrainingConfig, network: GatedNetwork) -> None:
        groups = [
            {"params": list(network.value.parameters())},
            {"params": list(network.feature.parameters())},
        ]
        self.torch = optimiser_over(groups, config)

    def set_learning_rate(self, rate: float) -> None:
        """From the next step on, for both groups."""
        for group in self.torch.param_groups:
            group["lr"] = rate

    def step(self) -> None:
        """Move the weights that have a gradient, then clear the gradients."""
        self.torch.step()
        self.torch.zero_grad(set_to_none=True)

    def update(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
        """As `step` for weights whose gradients are given; the others stay.

        Without the bookkeeping of torch's own `step`, which takes longer than the update of a
        narrow network; the arithmetic is the same kernel's.
        """
        states = [self.torch.state.get(parameter) for parameter in parameters]
        group = self.torch.param_groups[0]
        if not (group.get("fused") and isinstance(self.torch, torch.optim.Adam) and all(states)):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            self.step()
            return
        _fused_adam(group, parameters, gradients, [state for state in states if state])

    def forget(self, network: nn.Module) -> None:
        """Drop the state (moments, step counts) of redrawn weights."""
        for parameter in network.parameters():
            self.torch.state.pop(parameter, None)

    def replace_feature(self, feature: nn.Module) -> None:
        """Θ^f became a new module (an import with biases); its state starts afresh."""
        for parameter in self.torch.param_groups[1]["params"]:
            self.torch.state.pop(parameter, None)
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
        fused = bool(self.torch.param_groups[0].get("fused"))
        for name, parameter in _named(network):
            prefix = f"optimiser.{name}."
            state: dict[str, Tensor] = {}
            for full in tensors:
                if full.startswith(prefix):
                    key = full.removeprefix(prefix)
                    # The count of steps lies on the device only where the kernel reads it there.
                    counts = key == "step" and not fused
                    device = torch.device("cpu") if counts else parameter.device
                    state[key] = tensors[full].to(device, copy=True)
            self.torch.state.pop(parameter, None)
            if state:
                self.torch.state[parameter] = state


def optimiser_over(groups: list[dict[str, Any]], config: TrainingConfig) -> torch.optim.Optimizer:
    """torch's own over these groups of parameters; a group may have another learning rate."""
    fused = groups[0]["params"][0].device.type in ("cpu", "cuda", "mps")
    rate = config.learning_rate
    match config.optimiser:
        case "adam":
            return torch.optim.Adam(groups, lr=rate, fused=fused)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=config.momentum, fused=fused)
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=rate, alpha=config.smoothing)


@torch.no_grad()
def _fused_adam(
    group: Mapping[str, Any],
    parameters: Sequence[nn.Parameter],
    gradients: Sequence[Tensor],
    states: Sequence[Mapping[str, Tensor]],
) -> None:
    """The call that torch.optim.Adam(fused=True) ends in."""
    counts = [state["step"] for state in states]
    torch._foreach_add_(counts, 1)
    torch._fused_adam_(
        [parameter.detach() for parameter in parameters],
        list(gradients),
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
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
