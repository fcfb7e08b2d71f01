"""Networks that tests of commands save: the layers, and files that hold them in every way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 10))


def convolutional() -> nn.Sequential:
    """A stride, BatchNorm, no pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def pooled() -> nn.Sequential:
    """BatchNorm and a max pooling; the second convolution has no padding."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def named(module: nn.Sequential, *names: str) -> OrderedDict[str, Tensor]:
    """The state dict with the layers under other names."""
    state = module.state_dict()
    heads = list(dict.fromkeys(key.rpartition(".")[0] for key in state))
    new = dict(zip(heads, names, strict=True))
    return OrderedDict(
        (f"{new[key.rpartition('.')[0]]}.{key.rpartition('.')[2]}", value)
        for key, value in state.items()
    )


def saved(path: Path | str, content: object) -> Path:
    if isinstance(content, nn.Module):
        content.eval()
    torch.save(content, path)
    return Path(path)


def normed() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(64, 10)))


def ones(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}


SQUARE = (64, 64)
# What no command reads as a network, with a word of the reason.
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "weight normalisation": (lambda: normed().state_dict(), "weight normalisation"),
    "old weight normalisation": (
        lambda: {"0.weight_g": torch.ones(9, 1), "0.weight_v": torch.ones(1, 64)},
        "weight normalisation",
    ),
    "a LoRA pair": (lambda: ones(**{"q.lora_A": (4, 64), "q.lora_B": (10, 4)}), "LoRA"),
    "an attention": (lambda: ones(q=SQUARE, k=SQUARE, v=SQUARE, o=SQUARE), "attention"),
    "a projected attention": (
        lambda: ones(**{f"a.{name}_proj": SQUARE for name in "qkvo"}),
        "attention",
    ),
    "a layer past others": (lambda: ones(one=SQUARE, skip=SQUARE, two=SQUARE), "skip connection"),
    "other inputs": (lambda: ones(a=(4, 9), b=(10, 4)), "takes 9 inputs"),
}
OTHERS: dict[str, Callable[[], object]] = {
    "a whole dense Sequential": dense,
    "a whole convolutional Sequential": convolutional,
    "a whole Sequential with GELU": lambda: nn.Sequential(
        nn.Linear(64, 8), nn.GELU(), nn.Linear(8, 10)
    ),
    "a whole convolutional Sequential with GELU": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.GELU(), nn.Flatten(), nn.Linear(108, 10)
    ),
    "dense layers by number": lambda: dense().state_dict(),
    "dense layers by name": lambda: named(dense(), "one", "two", "three"),
    "dense layers with a skip": lambda: named(dense(), "one", "skip", "three"),
    "one dense layer": lambda: nn.Linear(64, 10).state_dict(),
    "dense layers that do not chain": lambda: ones(a=(9, 64), b=(10, 8)),
    "values that are not finite": lambda: {
        **ones(b=(10, 9)),
        "a.weight": torch.full((9, 64), torch.nan),
    },
    "tied layers": lambda: (
        {name: torch.arange(64.0 * 64).reshape(64, 64) for name in ("a.weight", "b.weight")}
        | ones(c=(10, 64))
    ),
    "convolutions by name": lambda: named(convolutional(), "c1", "b1", "c2", "fc"),
    "convolutions by number": lambda: pooled().state_dict(),
    "one vector": lambda: {"a": torch.ones(4)},
}
