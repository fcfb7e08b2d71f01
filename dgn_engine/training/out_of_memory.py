"""Recognise running out of memory, and find the batch that would have fitted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dgn_engine.errors import DoesNotFitError

# What torch says where it has no type of its own for it: on the CPU, in cuBLAS and cuDNN, on MPS.
_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _WORDS)


def free_memory() -> None:
    """Give back what is held for later."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # does nothing where CUDA was not used


@contextmanager
def refused_without_memory(what: str) -> Iterator[None]:
    """A `DoesNotFitError` that names what does not fit, where memory runs out."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        free_memory()
        raise DoesNotFitError(
            f"{what} does not fit in memory; choose a smaller network, fewer or smaller images, "
            "or another device.",
            kind="no-memory",
        ) from None
