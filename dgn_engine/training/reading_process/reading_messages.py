"""What the engine and its reading process say to each other; pickles between two halves of one
program, through pipes that nobody else holds.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes import ProbeContext, ProbeResult

_keys = itertools.count(1)


class NetworkSnapshot:
    """Network, probe examples and regime of one step; later steps do not change it.

    Gates of a compared network are left out: readings that compare are quick.
    """

    def __init__(self, context: ProbeContext, in_process: bool = False) -> None:
        """`in_process`: for who reads it here, a copy of the network instead of bytes."""
        self.key = next(_keys)
        self.examples = len(context.x)
        self.content = _copied(context) if in_process else _packed(context)


def _copied(context: ProbeContext) -> ProbeContext:
    """The same examples under a copy of the network."""
    network, classes, training = deepcopy(context.network), context.classes, context.training
    x, labels, regime = context.x, context.labels, context.regime
    return ProbeContext(network, x, labels, regime, classes=classes, training=training)


def _packed(context: ProbeContext) -> bytes:
    settings = (context.regime, context.classes, context.training)
    parts = (context.network, context.x, context.labels, *settings)
    stream = io.BytesIO()
    _TensorPickler(stream, protocol=5).dump(parts)
    return stream.getvalue()


def unpacked(content: bytes) -> ProbeContext:
    """What a snapshot shows, on the CPU."""
    network, x, labels, regime, classes, training = pickle.loads(content)
    return ProbeContext(network, x, labels, regime, classes=classes, training=training)


class _TensorPickler(pickle.Pickler):
    """Tensors as arrays: whatever device they lie on, without what torch adds to each."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype is torch.bfloat16:
            return NotImplemented
        array = value.detach().cpu().numpy()
        as_parameter = isinstance(value, torch.nn.Parameter)
        return _tensor, (np.ascontiguousarray(array), as_parameter, value.requires_grad)


def _tensor(array: Array, as_parameter: bool, trains: bool) -> Tensor:
    tensor = torch.from_numpy(np.array(array))
    return torch.nn.Parameter(tensor, trains) if as_parameter else tensor.requires_grad_(trains)


# To the process


@dataclass(frozen=True)
class LoadSnapshot:
    key: int
    content: bytes | ProbeContext


@dataclass(frozen=True)
class DropSnapshot:
    key: int


@dataclass(frozen=True)
class BeginJob:
    """Read this probe of a loaded snapshot, better and better; `first`: nothing of this network is
    shown for it yet."""

    ticket: int
    key: int
    probe: str
    options: Mapping[str, OptionValue]
    seed: int
    first: bool = False


@dataclass(frozen=True)
class StopJob:
    ticket: int


# From it


@dataclass(frozen=True)
class ProcessReady:
    """torch is loaded and the first message may come."""


@dataclass(frozen=True)
class JobSlice:
    """One slice was done. `result`: None where it is still the one before.

    `done`: share of the work; `error`: relative standard error of an estimate; `examples`: that it
    shows, 0 for all; `elapsed`: seconds since the job's first slice began.
    """

    ticket: int
    result: ProbeResult | None
    done: float
    error: float
    examples: int
    elapsed: float


@dataclass(frozen=True)
class JobOver:
    """The last word about a job. `trouble`: why it ended early, as part of a sentence."""

    ticket: int
    trouble: str = ""
    details: str = ""


Listener = Callable[[JobSlice | JobOver], None]
Order = LoadSnapshot | DropSnapshot | BeginJob | StopJob
Answer = ProcessReady | JobSlice | JobOver
