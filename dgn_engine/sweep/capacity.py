"""How much of a machine a unit takes, and how much there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.sweep.unit import Training, Unit

_SHAPE, _CLASSES = (3, 32, 32), 10  # any images: only the kinds of the layers matter here


def cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def dense(unit: Unit) -> bool:
    """Whether it trains a network without convolutions."""
    return isinstance(unit, Training) and not _convolves(unit.config.net)


def threads(unit: Unit) -> int:
    """That a unit takes on a CPU: a dense network one, what convolves all cores but one."""
    if not isinstance(unit, Training) or not _convolves(unit.config.net):
        return 1
    return max(1, (os.cpu_count() or 1) - 1)


def wants_gpu(unit: Unit) -> bool:
    """Whether it would train on a GPU that is there."""
    return isinstance(unit, Training) and unit.config.device in ("auto", "cuda")


def gpus(units: Sequence[Unit]) -> tuple[str, ...]:
    """The GPUs that these units would use, as CUDA_VISIBLE_DEVICES names them."""
    if not any(wants_gpu(unit) for unit in units):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [name.strip() for name in named if name.strip()]
    return tuple(named[:count]) if named else tuple(str(index) for index in range(count))


@lru_cache(maxsize=256)
def _convolves(net: NetConfig) -> bool:
    from dgn_engine.model.architecture import Conv
    from dgn_engine.model.nets import build_architecture

    try:
        architecture = build_architecture(net, _SHAPE, _CLASSES)
    except UserError:  # the run itself will say so
        return False
    return any(isinstance(node, Conv) for node in architecture.nodes)
