"""Whether the network's numbers are still finite, and what to do where they are not."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Reading
from dgn_engine.training.probes import ProbeContext

OVERFLOW = "overflow"  # the fact 'fault' of a reading of such a network


def weights_overflowed(context: ProbeContext) -> bool:
    """Whether a weight of the network is infinite or NaN: its gates would look closed."""
    network = context.network
    return not all(_finite(each.detach()) for each in network.parameters())


def has_overflowed(context: ProbeContext) -> bool:
    """Whether a weight of the network or an output on the probe examples is infinite or NaN."""
    if weights_overflowed(context):
        return True
    try:
        with torch.no_grad():
            return not _finite(context.network(context.x))
    except (UserError, RuntimeError):  # what failed before fails again: it says so itself
        return False


def overflow_reading(probe: str, step: int) -> Reading:
    why = (
        f"The network's numbers overflowed: at step {step:,} weights or outputs are infinite or "
        "NaN. Undo the last change or go on from an earlier step, with a smaller learning rate; "
        "what was recorded before can be looked back at."
    )
    return Reading(probe, step, facts={"fault": OVERFLOW}, absent=why)


def stands_for(known: Reading | None, new: Reading) -> bool:
    """Whether a picture stays, with its own step, because the new one has nothing to draw: the
    network's numbers overflowed, or all entries of its matrices did."""
    if known is None or known.absent or not _is_drawable(known):
        return False
    return new.facts.get("fault") == OVERFLOW or not (new.absent or _is_drawable(new))


def _is_drawable(reading: Reading) -> bool:
    """Whether a matrix has a finite entry. That another one has none is no overflow: the overlap
    of gates that are all closed, or far from switching, is 0/0."""
    matrices = [array for array in reading.arrays.values() if array.ndim > 1 and array.size]
    finite = (array.dtype.kind != "f" or bool(np.isfinite(array).any()) for array in matrices)
    return not matrices or any(finite)


def _finite(numbers: Tensor) -> bool:
    """One sum, which may overflow by itself: only then each number is looked at."""
    return bool(torch.isfinite(numbers.sum())) or bool(torch.isfinite(numbers).all())
