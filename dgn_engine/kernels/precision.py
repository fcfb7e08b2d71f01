"""Kernels are computed in full float32 or float64, whatever a training step may do.

cuDNN rounds what convolutions multiply to TF32 (ten bits) unless it is told not to, and a step may
ask for that everywhere (`training.precision`). Both are switches of the whole process: who turns
them holds a lock, so that a kernel on one thread never meets a step in TF32 on another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["ieee", "tf32"]
_SWITCHES = threading.RLock()


@contextmanager
def products(kind: Products) -> Iterator[None]:
    """Products of float32 on a card are of this kind in here, or in what this decorates; what was
    there before is put back. Without a card there is nothing to switch."""
    if not _has_card():
        yield
        return
    with _SWITCHES:
        dense = torch.backends.cuda.matmul
        maps = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # set when it is imported
        before = dense.fp32_precision, maps.fp32_precision
        dense.fp32_precision = maps.fp32_precision = kind
        try:
            yield
        finally:
            dense.fp32_precision, maps.fp32_precision = before


full_precision = products("ieee")  # a decorator, which begins anew with every call


def _has_card() -> bool:
    return torch.cuda.is_available()
