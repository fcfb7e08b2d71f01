"""Random generators by purpose: each depends on its key alone, so runs repeat bit for bit."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def random_stream(*key: object) -> torch.Generator:
    """A generator seeded by `key` alone, usually a purpose and a seed: `random_stream("order", 0)`.

    Streams of different keys are independent, so drawing more from one changes no other.
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def send_to_device(drawn: Tensor, device: torch.device) -> Tensor:
    """Copy what was drawn on the CPU to the device; a card is not waited for."""
    if device.type != "cuda":
        return drawn.to(device)
    return drawn.pin_memory().to(device, non_blocking=True)
