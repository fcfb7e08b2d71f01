"""In which numbers a step is computed; weights and moments are float32 in all of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from dgn_engine.config import Precision
from dgn_engine.kernels.precision import products

ROUNDING: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9}
"""How far a number is rounded, as a share of it, where a step multiplies."""


def step_precision(kind: Precision, device: torch.device) -> AbstractContextManager[object]:
    """In here a step is computed as asked: 'bf16' by autocast, 'tf32' by what the card multiplies.

    Without caches of cast weights: a captured step must cast those that it moved. Steps in float32
    switch nothing: `use_full_products` did.
    """
    if kind == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    if kind == "tf32" and device.type == "cuda":
        return products("tf32")
    return nullcontext()
