"""Detect weights and outputs that are not finite, and decide what to display then."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Reading
from dgn_engine.training.probes import ProbeContext

OVERFLOW = "overflow"  # value of the fact 'fault'


def weights_overflowed(context: ProbeContext) -> bool:
    """Return whether a weight is infinite or NaN; its gates would look closed.

    Args:
        context: The step.

    Returns:
        True if any weight is not finite.
    """
    network = context.network
    return not all(_is_finite(weight.detach()) for weight in network.parameters())


def has_overflowed(context: ProbeContext) -> bool:
    """Return whether a weight, or an output on the probe examples, is infinite or NaN.

    Args:
        context: The step.

    Returns:
        False if the forward pass fails for another reason.
    """
    if weights_overflowed(context):
        return True
    try:
        with torch.no_grad():
            return not _is_finite(context.network(context.x))
    except (UserError, RuntimeError):  # the probe reports this error itself
        return False


def overflow_reading(probe: str, step: int) -> Reading:
    """Return the reading of a probe whose network overflowed.

    Args:
        probe: Key of the probe.
        step: Training step.

    Returns:
        A reading without arrays that says what to do.
    """
    why = (
        f"The network overflowed: at step {step:,} weights or outputs are infinite or NaN. Undo "
        "the last change, or continue from an earlier step with a smaller learning rate; the "
        "recorded history is still available."
    )
    return Reading(probe, step, facts={"fault": OVERFLOW}, absent=why)


def should_keep_picture(known: Reading | None, new: Reading) -> bool:
    """Return whether to keep a picture, because the new reading has nothing to draw.

    Args:
        known: The displayed reading, or None.
        new: The new reading.

    Returns:
        True if the new one overflowed, or all entries of its matrices did.
    """
    if known is None or known.absent or not _is_drawable(known):
        return False
    return new.facts.get("fault") == OVERFLOW or not (new.absent or _is_drawable(new))


def _is_drawable(reading: Reading) -> bool:
    """Return whether any matrix has a finite entry.

    A single matrix without one is no overflow: the overlap of gates that are all closed is 0/0.
    """
    matrices = [array for array in reading.arrays.values() if array.ndim > 1 and array.size]
    finite = (array.dtype.kind != "f" or bool(np.isfinite(array).any()) for array in matrices)
    return not matrices or any(finite)


def _is_finite(numbers: Tensor) -> bool:
    """Return whether all numbers are finite; tries their sum first, which is cheaper."""
    return bool(torch.isfinite(numbers.sum())) or bool(torch.isfinite(numbers).all())
