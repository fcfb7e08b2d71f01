"""Jobs of readings, and what executors and the reading process exchange of them.

Orders and answers are pickles between two halves of one program, through pipes that nobody else
holds.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes import Probe, ProbeContext, ProbeResult

_keys = itertools.count(1)
_tickets = itertools.count(1)


class StepContexts:
    """The probe examples of one step, all and each n-th, under the network as it is or a copy."""

    def __init__(self, whole: ProbeContext, step: int) -> None:
        self.whole = whole
        self.step = step
        self.key = next(_keys)
        self._parts = {1: whole}

    def part(self, every: int) -> ProbeContext:
        """Return the context of each `every`-th example."""
        if every not in self._parts:
            self._parts[every] = self.whole.subsample(every)
        return self._parts[every]

    def forget(self) -> None:
        """Free what readings of this step have in common."""
        for part in self._parts.values():
            part.forget()

    def copy_network(self) -> StepContexts:
        """Return the same examples under a copy of the network, which later steps do not change.

        Gates of a compared network are left out, here and where it is packed: what compares is
        quick.
        """
        given, network = self.whole, deepcopy(self.whole.network)
        x, labels, regime = given.x, given.labels, given.regime
        classes, training = given.classes, given.training
        whole = ProbeContext(network, x, labels, regime, classes=classes, training=training)
        return StepContexts(whole, self.step)


@dataclass(eq=False)
class ExactJob:
    """Read one probe once, of each `every`-th example.

    `is_charged`: training waits for it, and the budget pays. `began`, `busy`: when the thread that
    trains turned to it, by two clocks. `is_wanted`: the network is still the one to be shown.
    """

    name: str
    probe: Probe
    options: Mapping[str, OptionValue]
    memory: object
    every: int
    deliver: Callable[[ExactJob, ExactAnswer], None]
    is_charged: bool
    began: float
    busy: float
    is_wanted: bool = True


@dataclass(frozen=True)
class ExactAnswer:
    """What a probe read or raised, and under which network.

    `seconds`: by the clock. `worked`: of them, those that the thread has worked. `aside`: it was
    made beside training, of a copy of the network.
    """

    contexts: StepContexts
    result: ProbeResult | None
    error: Exception | None
    seconds: float
    worked: float
    aside: bool = False


@dataclass(eq=False)
class RefinedJob:
    """Read one probe better and better, slice by slice: in the end exactly, of all examples.

    `first`: nothing of this network is shown for the probe yet.
    """

    name: str
    options: Mapping[str, OptionValue]
    deliver: Callable[[JobSlice | JobOver], None]
    first: bool = False
    ticket: int = field(default_factory=lambda: next(_tickets))

    def order_for(self, contexts: StepContexts) -> BeginJob:
        return BeginJob(self.ticket, contexts.key, self.name, dict(self.options), contexts.step)


def pack_context(context: ProbeContext) -> bytes:
    """Return what `unpack_context` reads, whatever device the network lies on."""
    settings = (context.regime, context.classes, context.training)
    parts = (context.network, context.x, context.labels, *settings)
    stream = io.BytesIO()
    _TensorPickler(stream, protocol=5).dump(parts)
    return stream.getvalue()


def unpack_context(content: bytes) -> ProbeContext:
    """Return the packed network with its examples, on the CPU."""
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
class BeginJob:
    """Read this probe better and better; `key`: of the step, greater for what is newer."""

    ticket: int
    key: int
    probe: str
    options: Mapping[str, OptionValue]
    seed: int


@dataclass(frozen=True)
class BeginJobs:
    """Begin jobs that read the same packed network."""

    network: bytes
    jobs: tuple[BeginJob, ...]


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


Order = BeginJobs | StopJob
Answer = ProcessReady | JobSlice | JobOver
