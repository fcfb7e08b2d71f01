"""What a run needs in memory, computed from its numbers before anything is allocated.

The architecture of a configuration is a list of shapes; all of this is arithmetic on them. The
numbers of copies below were counted with torch's profiler of memory: the tests hold every network
in every regime against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from dgn_engine.config import RunConfig
from dgn_engine.data import DataSizes
from dgn_engine.errors import DoesNotFitError, Where
from dgn_engine.importing.from_config import find_net, options_of
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.tiling import tiled
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.storage.free_memory import free_memory
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.training.metrics import examples_at_once
from dgn_engine.training.steps.dense_step import is_dense_architecture
from dgn_engine.training.steps.optimizer import count_moments

NUMBER = 4  # bytes of a float32
_LABEL = 8  # and of an int64
# Numbers of a gated unit and example that a pass keeps: pre-activation, gate and output.
_KEPT = 3
# The same of dense chains, which are trained in buffers that also hold what comes back
# (`DensePass`): of one network that makes its own gates, and of a feature and a value network.
_BUFFERED_ALONE, _BUFFERED_BOTH = 6, 14
_CHECKPOINT = 3  # copies of what is saved: the snapshot, each tensor's bytes, the file's bytes
_NAMED = 3  # parts that a refusal names


@dataclass(frozen=True)
class MemoryNeeded:
    """Bytes that a run takes at its peak, by what they are for.

    Attributes:
        weights: Value and feature network with their biases and normalisations.
        gradients: Of the weights.
        optimiser: The moments of the weights that are trained.
        activations: Of a training batch, forwards and backwards, and of a chunk of the test set.
        data: Training and test examples with their labels.
        probes: The pass over the probe examples and their kernels; in a window also the weights
            that readings keep.
        gates: Of all training examples, where the regime draws them, and what drawing them takes
            beyond a step.
        copies: Second copies of weights or moments, while they are drawn or laid side by side.
        checkpoints: Weights and moments on their way to disk, and those that undo keeps. They lie
            in main memory wherever the run is computed.
    """

    weights: int
    gradients: int
    optimiser: int
    activations: int
    data: int
    probes: int
    gates: int
    copies: int
    checkpoints: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())

    @property
    def lasting(self) -> int:
        """What is given back where the run ends between two steps."""
        return self.weights + self.gradients + self.optimiser

    @property
    def in_words(self) -> str:
        """The largest parts: 'optimiser 29 GB, weights 14 GB, gradients 14 GB'."""
        parts = sorted(vars(self).items(), key=lambda part: -part[1])
        return ", ".join(f"{name} {bytes_in_words(size)}" for name, size in parts[:_NAMED] if size)


@dataclass(frozen=True)
class RunUse:
    """What is done with a run beside training it.

    Attributes:
        live: A window shows it, which reads probes and can undo changes.
        recorded: Checkpoints are written.
        card: It is computed on a CUDA card.
        probed: Probes are read, though no window shows it: their frames are recorded.
    """

    live: bool = False
    recorded: bool = True
    card: bool = False
    probed: bool = False


def memory_needed(
    config: RunConfig, architecture: Architecture, sizes: DataSizes, use: RunUse
) -> MemoryNeeded:
    """Compute what a run needs in memory; nothing is allocated.

    Args:
        config: The run.
        architecture: Its architecture, as `architecture_for` gives it: before tiling.
        sizes: How many examples its data have, and the shape of one.
        use: What is done with it beside training.

    Raises:
        UserError: There is no such regime, or the tiling does not fit the layers.
    """
    networks = _Networks.of(config, architecture)
    gradients, optimiser, copies = _count_trained(networks, config)
    activations = NUMBER * _count_activations(networks, config, sizes, use.card)
    kept = _CHECKPOINT * use.recorded + use.live  # in a window undo keeps one more
    return MemoryNeeded(
        weights=NUMBER * networks.weights,
        gradients=NUMBER * gradients,
        optimiser=NUMBER * optimiser,
        activations=activations,
        data=(sizes.train + sizes.test) * (NUMBER * math.prod(sizes.shape) + _LABEL),
        probes=NUMBER * _count_probes(networks, config, sizes, use),
        gates=_drawn_gates(networks, sizes, activations + NUMBER * (gradients + optimiser)),
        copies=NUMBER * copies,
        checkpoints=NUMBER * kept * (networks.weights + optimiser),
    )


def _count_trained(networks: _Networks, config: RunConfig) -> tuple[int, int, int]:
    """Return the numbers of gradients, of moments, and of second copies of weights or moments."""
    both, trained, training = networks.weights, networks.trained, config.training
    moments = count_moments(training)
    optimiser = moments * sum(trained)
    # By hand, weights and room for gradients are buffers of both networks. Weights are laid there
    # before the first step, Adam's moments, one network after the other, at the second.
    gradients = both if networks.by_hand else sum(trained)
    laid = max(both - optimiser, moments * max(trained) * (training.optimiser == "adam"))
    drawn = (5 if config.net.init == "bernoulli" else 2) * networks.largest_weight
    copies = max(0, drawn - gradients - optimiser, laid * networks.by_hand)
    return gradients, optimiser, copies


def _count_activations(networks: _Networks, config: RunConfig, sizes: DataSizes, card: bool) -> int:
    """Return the numbers that a step keeps of its batch, or a test pass of a chunk, if more."""
    batch = min(config.training.batch, sizes.train)
    at_once = min(examples_at_once(networks.wide, card), sizes.test)
    tested = at_once * networks.regime.generalises * networks.passed
    if networks.by_hand:
        # Its buffers stay, and there are some for the smaller last batch.
        buffered = _BUFFERED_ALONE if networks.alone else _BUFFERED_BOTH
        return (batch + sizes.train % batch) * buffered * networks.value.units + tested
    step = networks.passed + networks.normalised
    if networks.regime.drawn_gates:  # its gates last, so what comes back needs room of its own
        step += 2 * max(networks.value.layers, default=0)
    return max(batch * step, tested)


def _count_probes(networks: _Networks, config: RunConfig, sizes: DataSizes, use: RunUse) -> int:
    """Return the numbers of the gates of the probe examples, which are computed chunk by chunk, and
    of their kernels; in a window also of the weights in the process that reads, and as they were at
    the beginning. None where nothing reads probes."""
    if not (use.live or use.probed):
        return 0
    probes = min(config.probe_examples, sizes.train)
    gates = [math.prod(shape) for shape in networks.wide.gated_shapes]
    kept = probes * sum(gates) + probes**2 * len(gates)
    return kept + 2 * networks.weights * use.live


def _drawn_gates(networks: _Networks, sizes: DataSizes, trained: int) -> int:
    """Return the bytes of the gates of all training examples, where they are drawn.

    Each is a byte. While those of a layer are drawn they are numbers; what a step takes beside
    them, `trained` bytes, is not there yet.
    """
    if not networks.regime.drawn_gates:
        return 0
    units = networks.feature.layers
    whole = sum(units)
    drawing = max(sum(units[: i + 1]) + NUMBER * units[i] for i in range(len(units)))
    return max(sizes.train * whole, sizes.train * drawing - trained)


@dataclass(frozen=True)
class _Networks:
    """Both networks of a run; `wide`: the architecture of the value network, after tiling.

    `by_hand`: they are trained without autograd.
    """

    wide: Architecture
    value: _Network
    feature: _Network
    regime: Regime
    by_hand: bool

    @staticmethod
    def of(config: RunConfig, architecture: Architecture) -> _Networks:
        tiling, regime = config.gating.tiling, find_regime(config.gating.regime)
        wide = tiled(architecture, tiling) if tiling else architecture
        value, feature = (_Network.of(one, config.net.bias) for one in (wide, architecture))
        by_hand = value.dense and config.training.precision != "bf16" and not regime.drawn_gates
        return _Networks(wide, value, feature, regime, by_hand)

    @property
    def alone(self) -> bool:
        """Whether only the value network is computed in a step."""
        return self.regime.own_gates or self.regime.drawn_gates

    @property
    def weights(self) -> int:
        return self.value.weights + self.feature.weights

    @property
    def largest_weight(self) -> int:
        return max(self.value.largest_weight, self.feature.largest_weight)

    @property
    def trained(self) -> tuple[int, int]:
        """Weights of the value and of the feature network that are trained."""
        regime = self.regime
        return (
            self.value.weights * regime.trains_value,
            self.feature.weights * regime.trains_feature,
        )

    @property
    def passed(self) -> int:
        """Numbers that a pass keeps of one example."""
        return self.value.passed + self.feature.passed * (not self.alone)

    @property
    def normalised(self) -> int:
        """What a pass that trains keeps beside them."""
        return self.value.normalised + self.feature.normalised * (not self.alone)


@dataclass(frozen=True)
class _Network:
    """Numbers of one network: its weights, and those that a pass keeps of one example.

    `layers`: units of its gate layers; `normalised`: what a pass that trains keeps beside
    `passed`; `dense`: it is a chain of dense layers.
    """

    weights: int
    largest_weight: int
    layers: tuple[int, ...]
    passed: int
    normalised: int
    dense: bool

    @property
    def units(self) -> int:
        return sum(self.layers)

    @staticmethod
    def of(architecture: Architecture, bias: bool) -> _Network:
        weights = [math.prod(arch.weight_shape(layer)) for layer in architecture.weighted]
        outputs = sum(layer.outputs for layer in architecture.weighted) * bias
        units = tuple(math.prod(shape) for shape in architecture.gated_shapes)
        channels = normalised = 0
        passed = _KEPT * sum(units)
        for node, shape in architecture.shapes():
            if isinstance(node, arch.Conv) and node.normal:
                channels += node.outputs
                normalised += math.prod(shape)
            if isinstance(node, arch.MaxPool | arch.GlobalMaxPool):  # and where each largest was
                passed += math.prod(shape) * (1 + _LABEL // NUMBER)
        return _Network(
            weights=sum(weights) + outputs + 4 * channels,  # γ, shift, mean and variance
            largest_weight=max(weights),
            layers=units,
            passed=passed,
            normalised=normalised,
            dense=is_dense_architecture(architecture),
        )


def check_memory(
    config: RunConfig,
    architecture: Architecture,
    sizes: DataSizes,
    device: torch.device,
    use: RunUse,
    loaded: float = 0.0,
    reclaimed: float = 0.0,
) -> MemoryNeeded:
    """Compute what a run needs, and refuse it where that exceeds the memory that is free.

    Nothing is allocated. What a run takes on a CPU, or of main memory beside a card, is compared
    with what the machine and its control group leave; what it takes on a card, with that card.

    Args:
        config: The run; `architecture`, `sizes` and `use` as for `memory_needed`.
        device: Where it is computed.
        loaded: Bytes of its data that lie in main memory already.
        reclaimed: Bytes that will be given back before its first step, by the run it replaces.

    Raises:
        DoesNotFitError: It needs more, in one sentence with the numbers and with what would fit.
    """
    use = replace(use, card=device.type == "cuda")
    needed = memory_needed(config, architecture, sizes, use)
    main = free_memory() + (0 if use.card else loaded)
    free = _Free(main, reclaimed, _free_on_card(device) if use.card else None)
    short = free.short_of(needed)
    if short is None:
        return needed
    where, takes, there = short
    what = _what_fits(config, sizes, lambda other: free.short_of(other) is None, use)
    raise DoesNotFitError(
        f"This run needs about {bytes_in_words(takes)}{where} ({needed.in_words}) and "
        f"{bytes_in_words(there)} are free; " + what,
        kind="no-memory",
        value=takes,
    )


@dataclass(frozen=True)
class _Free:
    """Bytes that can be had: of main memory, of it or the card once the run before has ended, and
    of the card where there is one."""

    main: float
    reclaimed: float
    card: float | None

    def short_of(self, needed: MemoryNeeded) -> tuple[str, float, float] | None:
        """Where there is too little, how much is needed and how much is free; None: it fits."""
        on_device = needed.total - needed.checkpoints
        if self.card is not None and on_device > self.card + self.reclaimed:
            return " on the card", on_device, self.card + self.reclaimed
        # On a card: weights are drawn in main memory, and checkpoints are copied to it.
        takes = needed.total if self.card is None else max(needed.weights, needed.checkpoints)
        there = self.main + (self.reclaimed if self.card is None else 0)
        if takes > there:
            return "" if self.card is None else " of main memory", takes, there
        if needed.weights > self.main:
            return " for its weights", needed.weights, self.main
        return None


def _free_on_card(device: torch.device) -> float:
    """Bytes that this process can have on a card: those that torch keeps for it are free."""
    free = torch.cuda.mem_get_info(device)[0]
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _what_fits(
    config: RunConfig, sizes: DataSizes, fits: Callable[[MemoryNeeded], bool], use: RunUse
) -> str:
    """The end of a refusal: the number, computed, with which the run would fit."""

    def needed(other: RunConfig) -> MemoryNeeded:
        architecture = architecture_for(other.net, sizes.shape, sizes.classes)
        return memory_needed(other, architecture, sizes, use)

    batch = min(config.training.batch, sizes.train)
    of_batch = _Reduction("training.batch", 1, batch, partial(_with_batch, config))
    changes: list[_Reduction] = []
    net = find_net(config.net)
    if net is not None and not config.gating.tiling:
        options = options_of(config.net)
        for one in net.options:
            if type(one.default) is int:
                place, to = f"net.options.{one.name}", partial(_with_option, config, one.name)
                changes.append(_Reduction(place, int(one.least or 1), int(options[one.name]), to))
    changes.sort(key=lambda one: -one.now)  # the larger a number, the finer it is: a width first
    parts = vars(needed(config))
    changes.insert(0 if parts["activations"] == max(parts.values()) else len(changes), of_batch)
    for change in changes:
        least, most = change.least, change.now
        if most <= least or not fits(needed(change.to(least))):
            continue
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if fits(needed(change.to(middle))) else (least, middle)
        return "it would fit with " + Where(change.place) + f" at most {_rounded_down(least):,}."
    return "choose a smaller network, fewer or smaller images, or another device."


@dataclass(frozen=True)
class _Reduction:
    """A whole number of a configuration that may be made smaller, down to `least`."""

    place: str
    least: int
    now: int
    to: Callable[[int], RunConfig]


def _with_batch(config: RunConfig, batch: int) -> RunConfig:
    return replace(config, training=replace(config.training, batch=batch))


def _with_option(config: RunConfig, name: str, value: int) -> RunConfig:
    options = {**dict(config.net.options), name: value}
    return replace(config, net=replace(config.net, options=tuple(options.items())))


def _rounded_down(count: int) -> int:
    """To two digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return count // unit * unit
