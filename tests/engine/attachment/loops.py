"""Training loops of somebody else, small ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def mlp() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def smooth() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


def examples(count: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 6, generator=generator)
    return x, torch.randint(0, 3, (count,), generator=generator)


def train(
    model: nn.Module, steps: int, after: Callable[[Tensor], object] = lambda loss: None
) -> list[Tensor]:
    """Batches are drawn by torch's own generator; `after` is called after each step."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = examples(40)
    for _ in range(steps):
        rows = torch.randint(0, 40, (8,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        after(loss)
    return [p.detach().clone() for p in model.parameters()]
