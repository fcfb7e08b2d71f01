"""Saved modules and settings that are read beside the tensors of a file, where they are hostile."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.faults.honest_files import saved

W = torch.ones(2, 2)


def odd() -> dict[str, tuple[bytes, tuple[str, ...], str]]:
    """As `hostile_pickles.odd`: what is shown beside, and what is ignored."""
    things: dict[str, Any] = {
        "modules that are shared in 2^40 ways": _shared(40),
        "5,001 modules in one": nn.ModuleList(nn.Identity() for _ in range(5001)),
        "modules in each other 80 deep": _nested(80),
        "a module under a name of 10,000 letters": nn.ModuleDict({"n" * 10_000: nn.Identity()}),
        "100,000 settings": {f"setting{number}": number for number in range(100_000)},
        "a setting of four megabytes": {"activation": "x" * (4 << 20)},
        "a setting that steers a terminal": {"arch\x1b[2J\u202e": "net\x1b]0;x\x07\r\n"},
        "a setting of 600 digits": {"layers": 10**600, "more": [10**600] * 16},
        "an optimiser of 50,000 groups": {"param_groups": [{"lr": 0.1, "params": [1]}] * 50_000},
        "groups of an optimiser that are none": {"param_groups": [1, None, {"params": 3}, []]},
    }
    return {name: (saved({"w": W, "odd": thing}), ("w",), "") for name, thing in things.items()}


def refused() -> dict[str, tuple[bytes, str]]:
    """Name → content, and a pattern of the sentence."""
    outer, inner = nn.ModuleDict(), nn.ModuleDict()
    outer["inner"], inner["outer"] = inner, outer
    settings: dict[str, Any] = {"activation": "tanh"}
    settings["again"] = settings
    return {
        "modules that hold each other": (saved({"w": W, "odd": outer}), "contains itself"),
        "settings that hold themselves": (saved({"w": W, "args": settings}), "contains itself"),
    }


def _shared(depth: int) -> nn.Module:
    found: nn.Module = nn.Tanh()
    for _ in range(depth):
        found = nn.ModuleDict({"a": found, "b": found})
    return found


def _nested(depth: int) -> nn.Module:
    found: nn.Module = nn.Tanh()
    for _ in range(depth):
        found = nn.ModuleDict({"a": found})
    return found
