"""A Bᵀ by the fastest library at hand: oneDNN doubles BLAS on some CPUs."""

from __future__ import annotations

import time
from functools import cache

import torch
from torch import Tensor

WORTH_IT = 1.2  # oneDNN is used where it is at least this much faster than the BLAS


def product(one: Tensor, two: Tensor, into: Tensor | None = None) -> Tensor:
    """one @ two.T for matrices (n, k) and (m, k), any float type and device.

    `into` (n, m) may be used for the result: fresh memory costs page faults.
    """
    if one.dtype == torch.float32 and one.device.type == "cpu" and onednn_is_faster():
        return _onednn(one.contiguous(), two.contiguous())
    return one @ two.T if into is None else torch.mm(one, two.T, out=into)


def _onednn(one: Tensor, two: Tensor) -> Tensor:
    # A private operator, the only single-threaded road to oneDNN's product: tried, never trusted.
    result: Tensor = torch.ops.mkldnn._linear_pointwise(one, two, None, "none", [], "")
    return result


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies float32 clearly faster here: timed once per process, 10 ms."""
    sample = torch.full((256, 512), 0.5)
    try:
        if not torch.equal(_onednn(sample, sample), sample @ sample.T):
            return False
    except (AttributeError, RuntimeError):
        return False
    onednn = min(_seconds(lambda: _onednn(sample, sample)) for _ in range(5))
    blas = min(_seconds(lambda: sample @ sample.T) for _ in range(5))
    return blas > WORTH_IT * onednn


def _seconds(call: object) -> float:
    assert callable(call)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
