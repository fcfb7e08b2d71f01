"""Detect out-of-memory errors, and turn them into refusals."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dgn_engine.errors import DoesNotFitError

# Messages of torch where it has no exception type: on the CPU, in cuBLAS and cuDNN, on MPS.
_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out.

    Args:
        error: Any exception.

    Returns:
        True on any device, whatever type torch raises.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _WORDS)


def free_memory() -> None:
    """Collect garbage and empty torch's CUDA cache."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # does nothing unless CUDA was used


@contextmanager
def refused_without_memory(what: str) -> Iterator[None]:
    """Refuse with a reason if memory runs out in the block.

    Args:
        what: What does not fit, at the start of a sentence.

    Yields:
        Nothing.

    Raises:
        DoesNotFitError: Memory ran out.
    """
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
