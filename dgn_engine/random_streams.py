"""Random generators by purpose: each depends on its key alone, so runs are bit-identical when
repeated."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def random_stream(*key: object) -> torch.Generator:
    """Return a generator seeded by `key`, usually a purpose and a seed: `random_stream("order",
    0)`.

    Streams with different keys are independent: drawing more numbers from one does not affect
    others.
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def send_to_device(drawn: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor drawn on the CPU to the device, without waiting for a GPU."""
    if device.type != "cuda":
        return drawn.to(device)
    return drawn.pin_memory().to(device, non_blocking=True)
