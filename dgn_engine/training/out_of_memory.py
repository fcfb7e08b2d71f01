"""Recognise running out of memory, and find the batch that would have fitted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from dgn_engine.errors import DoesNotFitError
from dgn_engine.training.losses import loss
from dgn_engine.training.optimizer import count_moments

if TYPE_CHECKING:
    from dgn_engine.training.trainer import Trainer

# What torch says where it has no type of its own for it: on the CPU, in cuBLAS and cuDNN, on MPS.
_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that memory could not be had."""
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
            "or another device."
        ) from None


def does_not_fit(trainer: Trainer) -> str:
    """One sentence for a run whose step ran out of memory, with a batch that would fit."""
    batch = min(trainer.config.training.batch, len(trainer.data.train_y))
    fitting = batch_that_fits(trainer, batch // 2)
    if fitting:
        return (
            f"Training does not fit in memory with a batch of {batch:,}; "
            f"a batch of about {fitting:,} would fit."
        )
    return (
        "Training does not fit in memory, not even with a batch of 1; "
        "choose a smaller network, smaller images or another device."
    )


def batch_that_fits(trainer: Trainer, most: int) -> int:
    """The first of most, most/2, most/4, … of which a forward and a backward pass succeed; or 0.

    Found by trying; no weight, no gradient and no random number is changed.
    """
    trainer.drop_gradients()  # of the pass that did not end
    trainer.steps.forget()  # graphs hold memory of their own
    size = most
    while size >= 1:
        free_memory()
        try:
            _try(trainer, size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return size
        size //= 2
    return 0


def _try(trainer: Trainer, size: int) -> None:
    """As a step of `size` examples, with room for what the optimiser will keep."""
    network, training = trainer.network, trainer.config.training
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    copies = 0 if trainer.optimizer.torch.state else count_moments(training)
    room = [torch.empty_like(weight) for weight in trained for _ in range(copies)]
    rows = torch.arange(size, device=trainer.data.train_x.device)
    logits = trainer.network_at(rows)(trainer.data.train_x[rows])
    value = loss(training.loss, logits, trainer.data.train_y[rows])
    torch.autograd.grad(value, trained, allow_unused=True)
    del room
