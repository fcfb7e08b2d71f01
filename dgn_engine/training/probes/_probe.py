"""The interface of a probe, and the context that all probes of one step share."""

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

NO_GATE_OPEN = "No gate is open for any probe example, so all overlaps are 0."
ASSUMED_FLOPS = 2e10  # FLOP/s of one CPU core, before anything was measured; of …
ASSUMED_CARD_FLOPS = 1e12  # … a card
ComparedGates = Callable[[], tuple[Tensor, ...] | None]
ComparedNetwork = Callable[[], GatedNetwork | None]


def assumed_flops(device: torch.device) -> float:
    """Return the assumed speed of a device before anything was measured.

    Args:
        device: The device.

    Returns:
        FLOP/s.
    """
    return ASSUMED_FLOPS if device.type == "cpu" else ASSUMED_CARD_FLOPS


def no_comparison() -> None:
    """Return nothing: there is no network to compare with.

    Returns:
        None.
    """


@dataclass(frozen=True)
class TrainingState:
    """State of a network's training.

    Attributes:
        step: Number of steps taken.
        loss: Loss of the run.
        optimiser: Optimiser of the run.
        learning_rate: Learning rate of the next step.
        momentum: Momentum of SGD.
        batch: Batch size.
        examples: Number of training examples.
        augmented: Whether training images are augmented.
    """

    step: int
    loss: Loss
    optimiser: Optimiser
    learning_rate: float
    momentum: float
    batch: int
    examples: int
    augmented: bool


@dataclass(frozen=True)
class InputGeometry:
    """The space that examples come from.

    Attributes:
        shape: Shape of an example in the data, even if the network takes vectors.
        cuts: Hyperplanes w·x + b = 0 at which the true labels change, a row (w, b) each, (m, d + 1)
            on the CPU; None if they are unknown.
    """

    shape: tuple[int, ...]
    cuts: Tensor | None = None


class ProbeContext:
    """One training step as probes see it; shared results are computed once, on first use.

    Attributes:
        network: The network under its current regime.
        x: Probe examples, (n, *input_shape).
        labels: Class numbers, (n,) int; `classes` for an example without a class.
        regime: Regime in force.
        classes: Number of classes, at least 2.
        training: How the network is trained; None if nothing trains it.
        every: Stride through the probe set: row r is probe example r · every.
        loss: Loss that the outputs were trained for; None if unknown.
        own_labels: Whether output c stands for class c of the labels.
        geometry: What is known of the space that the examples come from.
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
        loss: Loss | None = None,
        own_labels: bool = True,
        geometry: InputGeometry | None = None,
        compared_network: ComparedNetwork = no_comparison,
    ) -> None:
        """Create the context; nothing is computed yet.

        Args:
            network: The network under its current regime.
            x: Probe examples, (n, *input_shape).
            labels: Class numbers, (n,) int.
            regime: Regime in force.
            compared: Returns the gates of a compared network on the same examples.
            classes: Number of classes, if the network does not have one output per class.
            training: How the network is trained.
            every: Stride through the probe set.
            loss: Loss that the outputs were trained for, if nothing trains the network now.
            own_labels: Whether the labels are classes of the network.
            geometry: What is known of the space that the examples come from. Default: the shape of
                `x`.
            compared_network: Returns the compared network.
        """
        self.geometry = geometry or InputGeometry(tuple(x.shape[1:]))
        self.every = every
        self.loss = loss if training is None else training.loss
        self.network = network
        self.training = training
        outputs = network.architecture.classes
        self.classes = classes or max(outputs, 2)  # a pair shares one output
        self.own_labels = own_labels and self.classes == max(outputs, 2)
        self.x = x
        self._compared = compared
        self._compared_network = compared_network
        self.labels = labels
        self.regime = regime
        self.drop_kernels()

    def drop_kernels(self) -> None:
        """Free the shared kernels."""
        self._kernels: SharedKernels | None = None

    @property
    def kernels(self) -> SharedKernels:
        """Return the kernels of this step, created on first use.

        Returns:
            Shared by all probes.

        Raises:
            ArgumentError: A weight is not finite.
        """
        if self._kernels is None:
            self._kernels = SharedKernels(self.network, self.x)
        return self._kernels

    def subsample(self, every: int) -> ProbeContext:
        """Return the same step on every n-th example; examples stay sorted by class.

        Args:
            every: The n.

        Returns:
            A new context, with its own kernels.
        """
        network, given = self.network, self.network.given_gates
        if given is not None:
            network = network.with_gates(_thin_gates(given, every))

        def subsample_compared() -> tuple[Tensor, ...] | None:
            return None if (gates := self.compared_gates) is None else _thin_gates(gates, every)

        x, labels = self.x[::every], self.labels[::every]
        classes, training, apart = self.classes, self.training, self.every * every
        return ProbeContext(
            *(network, x, labels, self.regime, subsample_compared, classes, training, apart),
            loss=self.loss,
            own_labels=self.own_labels,
            geometry=self.geometry,
            compared_network=self._compared_network,
        )

    def row_for_example(self, index: int) -> int:
        """Return the row of a probe example.

        Args:
            index: Index in the whole probe set.

        Returns:
            Row of `x` with that example, or the nearest before it that is included.
        """
        return min(max(index, 0) // self.every, len(self.x) - 1)

    def example_of_row(self, row: int) -> int:
        """Return the probe example of a row.

        Args:
            row: Row of `x`.

        Returns:
            Index in the whole probe set.
        """
        return row * self.every

    def with_labels(self) -> ProbeContext:
        """Return the same step on the examples that have a class, as a loss requires.

        Gates given per example are not subset: only examples of the data set have such gates.

        Returns:
            This context if all examples have a class.
        """
        if self.is_labelled:
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
            geometry=self.geometry,
        )

    @property
    def is_labelled(self) -> bool:
        """Return whether every example has a class; examples drawn by the user have none.

        Returns:
            True if all labels are below `classes`.
        """
        return bool((self.labels < self.classes).all())

    @property
    def compared_gates(self) -> tuple[Tensor, ...] | None:
        """Return the gates of the compared network.

        Returns:
            One tensor per gate layer, (n, units) or (n, C, H, W); None without a compared network.
        """
        return self._compared()

    @property
    def compared_network(self) -> GatedNetwork | None:
        """Return the compared network.

        Returns:
            The network under its own regime; None without one.
        """
        return self._compared_network()

    @property
    def architecture(self) -> Architecture:
        """Return the architecture of the value network.

        Returns:
            Nodes and shapes.
        """
        return self.network.architecture

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """Return G_l as value layer l uses it.

        Returns:
            One tensor per gate layer, (n, units) or (n, C, H, W).
        """
        return self.kernels.gates


def _thin_gates(gates: tuple[Tensor, ...], every: int) -> tuple[Tensor, ...]:
    return tuple(layer[::every] for layer in gates)


@dataclass(frozen=True)
class ProbeResult:
    """Result of one reading of a probe.

    Attributes:
        arrays: Arrays by name.
        scalars: Numbers by name, plotted over time.
        facts: Short texts by name.
        absent: Why there is no result, one sentence; '' otherwise.
        memory: Passed to the next reading of this probe in the same run.
    """

    arrays: Mapping[str, Array] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""
    memory: object = None


def no_gate_is_open(context: ProbeContext) -> bool:
    """Return whether every gate is closed for every probe example, as in a dead ReLU network.

    Args:
        context: The step.

    Returns:
        True if all gates are 0.
    """
    return not any(bool(gates.any()) for gates in context.gates)


def no_cost(architecture: Architecture, examples: int) -> float:
    """Return 0, the cost of probes that need no more than a forward pass.

    Args:
        architecture: Ignored.
        examples: Ignored.

    Returns:
        0.0 FLOP.
    """
    return 0.0


@dataclass(frozen=True)
class Refinement:
    """A better reading of the same step, after one more slice of work.

    Attributes:
        result: The reading.
        done: Share of the work, in (0, 1]; 1 for the last.
        error: Relative standard error (Frobenius) of an estimate, 0 if exact.
    """

    result: ProbeResult
    done: float
    error: float = 0.0


Refine = Callable[[ProbeContext, Mapping[str, OptionValue], torch.Generator], Iterator[Refinement]]


@dataclass(frozen=True)
class Probe:
    """A quantity measured on the probe set.

    Attributes:
        title: Title of the panel.
        read: `read(context, options, memory)` measures it.
        cost: `cost(architecture, n)` estimates the FLOP of a reading of n examples.
        compares: Whether it uses `ProbeContext.compared_gates` or `compared_network`.
        refine: `refine(context, options, generator)` measures in slices: each `next` takes about
            half a second, and no result is worse than the one before. Random numbers come from
            `generator`, never from the run's streams. None if `read` is fast enough.
    """

    title: str
    read: Callable[[ProbeContext, Mapping[str, OptionValue], object], ProbeResult]
    cost: Callable[[Architecture, int], float] = no_cost
    compares: bool = False
    refine: Refine | None = None


def to_numpy(tensor: Tensor) -> Array:
    """Copy a tensor to the host.

    Args:
        tensor: On any device.

    Returns:
        Array of the same shape and dtype.
    """
    return tensor.detach().cpu().numpy()
