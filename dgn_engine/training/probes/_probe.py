"""What a probe is, and the context that all probes of one step share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dgn_engine.config import Loss, Optimiser
from dgn_engine.kernels import SharedKernels
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.regimes import Regime

NO_GATE_OPEN = "No gate is open for any probe example: every overlap is 0, and none has a scale."
ASSUMED_FLOPS = 2e10  # a second of one CPU core, before anything was measured; of …
ASSUMED_CARD_FLOPS = 1e12  # … a card
ComparedGates = Callable[[], tuple[Tensor, ...] | None]


def assumed_flops(device: torch.device) -> float:
    """Return the FLOP a second to expect of a device before anything was measured."""
    return ASSUMED_FLOPS if device.type == "cpu" else ASSUMED_CARD_FLOPS


def no_comparison() -> None:
    """There is no other network to compare with."""


@dataclass(frozen=True)
class TrainingState:
    """How the network is trained at the moment: `step` steps are done, each on a batch of `batch`
    of the `examples` training examples; `learning_rate` is that of the next step."""

    step: int
    loss: Loss
    optimiser: Optimiser
    learning_rate: float
    momentum: float
    batch: int
    examples: int
    augmented: bool


class ProbeContext:
    """One step as the probes see it: what several of them need is computed once, when asked for.

    `x` (n, *input_shape): the probe set; `labels` (n,); `regime`: the one in force; `compared`
    gives the gates of the network that is compared with, on the same examples; `training`: None
    where nothing trains the network. `every`: of the probe examples each n-th is here.
    """

    def __init__(
        self,
        network: GatedNetwork,
        x: Tensor,
        labels: Tensor,
        regime: Regime,
        compared: ComparedGates = no_comparison,
        classes: int = 0,
        training: TrainingState | None = None,
        every: int = 1,
    ) -> None:
        """`classes`: of the labels, where the network has other outputs than one for each."""
        self.every = every
        self.network = network
        self.training = training
        self.classes = classes or max(network.architecture.classes, 2)  # a pair shares one output
        self.x = x
        self._compared = compared
        self.labels = labels
        self.regime = regime
        self.forget()

    def forget(self) -> None:
        self._kernels: SharedKernels | None = None

    @property
    def kernels(self) -> SharedKernels:
        """The kernels of this step; `ArgumentError` where a weight is not finite."""
        if self._kernels is None:
            self._kernels = SharedKernels(self.network, self.x)
        return self._kernels

    def subsample(self, every: int) -> ProbeContext:
        """The same step on each `every`-th example, sorted by class as before."""
        network, given = self.network, self.network.given_gates
        if given is not None:
            network = network.with_gates(_subsample(given, every))

        def compared() -> tuple[Tensor, ...] | None:
            return None if (gates := self.compared_gates) is None else _subsample(gates, every)

        x, labels = self.x[::every], self.labels[::every]
        classes, training, apart = self.classes, self.training, self.every * every
        return ProbeContext(network, x, labels, self.regime, compared, classes, training, apart)

    def row_of(self, place: int) -> int:
        """Where the probe example of this place stands in `x`: the example itself, or where it is
        not here the nearest before it; of a place beyond the last, the last."""
        return min(max(place, 0) // self.every, len(self.x) - 1)

    def place_of(self, row: int) -> int:
        """The place among all probe examples of a row of `x`."""
        return row * self.every

    def with_labels(self) -> ProbeContext:
        """The same step on the examples that have a class: what asks for a loss has no other. Gates
        given for examples are not cut: such are given for examples of the data only."""
        if self.labelled:
            return self
        known = self.labels < self.classes
        x, labels, training = self.x[known], self.labels[known], self.training
        return ProbeContext(
            self.network,
            x,
            labels,
            self.regime,
            classes=self.classes,
            training=training,
            every=self.every,
        )

    @property
    def labelled(self) -> bool:
        """Whether every example has a class: one of the user's own has none."""
        return bool((self.labels < self.classes).all())

    @property
    def compared_gates(self) -> tuple[Tensor, ...] | None:
        """The gates of the network that is compared with; None where there is none."""
        return self._compared()

    @property
    def architecture(self) -> Architecture:
        return self.network.architecture

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """G_l as value layer l uses it."""
        return self.kernels.gates


def _subsample(gates: tuple[Tensor, ...], every: int) -> tuple[Tensor, ...]:
    return tuple(layer[::every] for layer in gates)


@dataclass(frozen=True)
class ProbeResult:
    """What a probe returns; `memory` comes back to it at its next reading of the same run."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""
    memory: object = None


def no_gate_is_open(context: ProbeContext) -> bool:
    """Return whether every layer is closed for every probe example, as in a ReLU network whose
    units have all died."""
    return not any(bool(gates.any()) for gates in context.gates)


def no_cost(architecture: Architecture, examples: int) -> float:
    """For probes that cost no more than a forward pass."""
    return 0.0


@dataclass(frozen=True)
class Refinement:
    """A better reading of the same step, after one more slice of work.

    `done`: the share of the work, in (0, 1]; 1 is the last one. `error`: the relative standard
    error (Frobenius) of an estimate, 0 where it is exact.
    """

    result: ProbeResult
    done: float
    error: float = 0.0


Refine = Callable[[ProbeContext, Mapping[str, OptionValue], torch.Generator], Iterator[Refinement]]


@dataclass(frozen=True)
class Probe:
    """`read(context, options, memory)` measures; `cost(architecture, n)` estimates its FLOP.

    `refine(context, options, generator)` measures step by step: each `next` is one slice of work
    of about half a second, and each result is at least as good as the one before. Its random
    numbers come from `generator`, which is not the run's. None: `read` is quick enough.
    """

    title: str
    read: Callable[[ProbeContext, Mapping[str, OptionValue], object], ProbeResult]
    cost: Callable[[Architecture, int], float] = no_cost
    compares: bool = False  # it reads `ProbeContext.compared_gates`, too
    refine: Refine | None = None


def numpy(tensor: Tensor) -> Array:
    return tensor.detach().cpu().numpy()
