"""Jobs of probe readings, and the messages between executors and the reading process.

Orders and answers are pickled between two halves of one program, through pipes that no one else can
write to.
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
    """The probe examples of one step, complete and thinned, under the network or a copy of it.

    Attributes:
        whole: All probe examples.
        step: Training step.
        key: Grows with every instance, so that a larger key is newer.
    """

    def __init__(self, whole: ProbeContext, step: int) -> None:
        """Wrap the probe examples of a step.

        Args:
            whole: All probe examples.
            step: Training step.
        """
        self.whole = whole
        self.step = step
        self.key = next(_keys)
        self._parts = {1: whole}

    def thinned_context(self, every: int) -> ProbeContext:
        """Return the context of every n-th example, created on first use.

        Args:
            every: The n; 1 for all examples.

        Returns:
            The context, shared by all callers.
        """
        if every not in self._parts:
            self._parts[every] = self.whole.subsample(every)
        return self._parts[every]

    def drop_kernels(self) -> None:
        """Free the kernels that readings of this step share."""
        for part in self._parts.values():
            part.drop_kernels()

    def copy_network(self) -> StepContexts:
        """Return the same examples under a copy of the network that later steps do not change.

        Gates of a compared network are left out, here and in `pack_context`: comparing probes are
        quick.

        Returns:
            New contexts with their own network; examples and labels are shared.
        """
        given, network = self.whole, deepcopy(self.whole.network)
        x, labels, regime = given.x, given.labels, given.regime
        whole = ProbeContext(
            *(network, x, labels, regime),
            classes=given.classes,
            training=given.training,
            loss=given.loss,
            own_labels=given.own_labels,
            geometry=given.geometry,
        )
        return StepContexts(whole, self.step)


@dataclass(eq=False)
class ExactJob:
    """Read one probe once, on every `every`-th example.

    Attributes:
        name: Key of the probe.
        probe: The probe.
        options: Options of the probe.
        memory: What its previous reading left for this one.
        every: Stride through the probe examples.
        deliver: Called with the job and its answer.
        is_charged: Whether training waits for it, so that the budget pays.
        began: Wall seconds when the training thread turned to it.
        busy: Processor seconds at that time.
        is_wanted: Whether the network is still the displayed one.
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
    """The result or error of an exact job.

    Attributes:
        contexts: The examples, with the network that was read.
        result: What the probe returned, or None.
        error: What it raised, or None.
        seconds: Wall seconds it took.
        worked: Seconds of them in which the thread worked.
        aside: Whether it was read alongside training, from a copy of the network.
    """

    contexts: StepContexts
    result: ProbeResult | None
    error: Exception | None
    seconds: float
    worked: float
    aside: bool = False


@dataclass(eq=False)
class RefinedJob:
    """Read one probe in slices with growing accuracy, finally exactly and on all examples.

    Attributes:
        name: Key of the probe.
        options: Options of the probe.
        deliver: Called with each slice, and when the job is over.
        first: Whether the probe has no picture of this network yet.
        ticket: Identifies the job.
    """

    name: str
    options: Mapping[str, OptionValue]
    deliver: Callable[[JobSlice | JobOver], None]
    first: bool = False
    ticket: int = field(default_factory=lambda: next(_tickets))

    def order_for(self, contexts: StepContexts) -> BeginJob:
        """Return the order that starts this job.

        Args:
            contexts: The probe examples under the network to read.

        Returns:
            The order; its seed is the training step.
        """
        return BeginJob(self.ticket, contexts.key, self.name, dict(self.options), contexts.step)


def pack_context(context: ProbeContext) -> bytes:
    """Pickle a network with its probe examples.

    Args:
        context: On any device.

    Returns:
        Input of `unpack_context`.
    """
    settings = (context.regime, context.classes, context.training, context.geometry)
    parts = (context.network, context.x, context.labels, *settings)
    stream = io.BytesIO()
    _TensorPickler(stream, protocol=5).dump(parts)
    return stream.getvalue()


def unpack_context(content: bytes) -> ProbeContext:
    """Unpickle a network with its probe examples.

    Args:
        content: Output of `pack_context`.

    Returns:
        The context, on the CPU.
    """
    network, x, labels, regime, classes, training, geometry = pickle.loads(content)
    return ProbeContext(
        network, x, labels, regime, classes=classes, training=training, geometry=geometry
    )


class _TensorPickler(pickle.Pickler):
    """Pickles tensors as numpy arrays: independent of the device, and without torch's overhead."""

    def reducer_override(self, value: Any) -> Any:
        """Reduce tensors to arrays; bfloat16, which numpy lacks, is left to torch.

        Args:
            value: Object to pickle.

        Returns:
            A reduction, or NotImplemented.
        """
        if not isinstance(value, Tensor) or value.dtype is torch.bfloat16:
            return NotImplemented
        array = value.detach().cpu().numpy()
        as_parameter = isinstance(value, torch.nn.Parameter)
        return _tensor_from_array, (np.ascontiguousarray(array), as_parameter, value.requires_grad)


def _tensor_from_array(array: Array, as_parameter: bool, trains: bool) -> Tensor:
    tensor = torch.from_numpy(np.array(array))
    return torch.nn.Parameter(tensor, trains) if as_parameter else tensor.requires_grad_(trains)


# To the process


@dataclass(frozen=True)
class BeginJob:
    """Order to refine one probe; a larger `key` is a newer step."""

    ticket: int
    key: int
    probe: str
    options: Mapping[str, OptionValue]
    seed: int


@dataclass(frozen=True)
class BeginJobs:
    """Order to begin jobs that read the same packed network."""

    network: bytes
    jobs: tuple[BeginJob, ...]


@dataclass(frozen=True)
class StopJob:
    """Order to stop a job."""

    ticket: int


# From it


@dataclass(frozen=True)
class ProcessReady:
    """Answer once torch is loaded and orders can be handled."""


@dataclass(frozen=True)
class JobSlice:
    """Answer after one slice.

    Attributes:
        ticket: Identifies the job.
        result: The reading; None if it is still the previous one.
        done: Share of the work, in (0, 1].
        error: Relative standard error of an estimate, 0 if exact.
        examples: Number of examples shown; 0 for all.
        elapsed: Seconds since the job's first slice began.
        compiles: Whether it is the slice before, sent again because the next one first has to
          compile loops, which takes seconds.
    """

    ticket: int
    result: ProbeResult | None
    done: float
    error: float
    examples: int
    elapsed: float
    compiles: bool = False


@dataclass(frozen=True)
class JobOver:
    """Last answer of a job; `trouble` says why it ended early, as part of a sentence."""

    ticket: int
    trouble: str = ""
    details: str = ""


Order = BeginJobs | StopJob
Answer = ProcessReady | JobSlice | JobOver
