"""Compute the memory that a run needs before anything is allocated.

An architecture is a list of shapes, so this is arithmetic. The numbers of copies below were counted
with torch's memory profiler; tests compare every network and regime with it.
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
from dgn_engine.model.feature_layers import value_and_feature
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.storage.free_memory import free_memory
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.training.metrics import examples_at_once
from dgn_engine.training.steps.dense_step import is_dense_architecture
from dgn_engine.training.steps.optimizer import count_moments

NUMBER = 4  # bytes of a float32
_LABEL = 8  # bytes of an int64
# Numbers stored per gated unit and example: pre-activation, gate and output.
_KEPT = 3
# The same for dense chains, whose buffers also hold the backward pass (`DensePass`):
# for one network with its own gates, and for feature and value network together.
_BUFFERED_ALONE, _BUFFERED_BOTH = 6, 12
_CHECKPOINT = 3  # copies while saving: snapshot, bytes of each tensor, bytes of the file
_NAMED = 3  # parts listed by a refusal


@dataclass(frozen=True)
class MemoryNeeded:
    """Peak memory of a run in bytes, by purpose.

    Attributes:
        weights: Value and feature network with biases and normalisations.
        gradients: Gradients of the weights.
        optimiser: Moments of the trained weights.
        activations: Of a training batch, forward and backward, and of a chunk of the test set.
        data: Training and test examples with their labels.
        probes: Forward pass and kernels of the probe examples; in a window also copies of the
            weights for readings.
        gates: Of all training examples, if the regime draws them, plus the extra memory while
            drawing.
        copies: Second copies of weights or moments while they are drawn or flattened.
        checkpoints: Weights and moments on their way to disk, and those kept for undo; always in
            main memory.
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
        """Return the sum of all parts.

        Returns:
            Bytes.
        """
        return sum(vars(self).values())

    @property
    def reclaimed_at_end(self) -> int:
        """Return the memory freed when a run ends between two steps.

        Returns:
            Bytes of weights, gradients and optimiser state.
        """
        return self.weights + self.gradients + self.optimiser

    @property
    def largest_parts(self) -> str:
        """Return the largest parts as text.

        Returns:
            'optimiser 29 GB, weights 14 GB, gradients 14 GB'.
        """
        parts = sorted(vars(self).items(), key=lambda part: -part[1])
        return ", ".join(f"{name} {bytes_in_words(size)}" for name, size in parts[:_NAMED] if size)


@dataclass(frozen=True)
class RunUse:
    """Uses of a run besides training it.

    Attributes:
        live: Whether a window shows it, reads probes and can undo changes.
        recorded: Whether checkpoints are written.
        card: Whether it runs on a CUDA card.
        probed: Whether probes are read and recorded without a window.
    """

    live: bool = False
    recorded: bool = True
    card: bool = False
    probed: bool = False


def memory_needed(
    config: RunConfig, architecture: Architecture, sizes: DataSizes, use: RunUse
) -> MemoryNeeded:
    """Compute the memory that a run needs, without allocating any.

    Args:
        config: Configuration of the run.
        architecture: From `architecture_for`, before tiling.
        sizes: Numbers of examples, and the shape of one.
        use: What the run is used for.

    Returns:
        Bytes, by purpose.

    Raises:
        UserError: The regime does not exist, or the tiling does not fit the layers.
    """
    networks = _Networks.from_config(config, architecture)
    gradients, optimiser, copies = _count_trained(networks, config)
    activations = NUMBER * _count_activations(networks, config, sizes, use.card)
    copies_kept = _CHECKPOINT * use.recorded + use.live  # undo in a window keeps one more
    return MemoryNeeded(
        weights=NUMBER * networks.weights,
        gradients=NUMBER * gradients,
        optimiser=NUMBER * optimiser,
        activations=activations,
        data=(sizes.train + sizes.test) * (NUMBER * math.prod(sizes.shape) + _LABEL),
        probes=NUMBER * _count_probes(networks, config, sizes, use),
        gates=_drawn_gates(networks, sizes, activations + NUMBER * (gradients + optimiser)),
        copies=NUMBER * copies,
        checkpoints=NUMBER * copies_kept * (networks.weights + optimiser),
    )


def _count_trained(networks: _Networks, config: RunConfig) -> tuple[int, int, int]:
    """Return the numbers of gradients, of moments, and of second copies of either."""
    both, trained, training = networks.weights, networks.trained_counts, config.training
    moments = count_moments(training)
    optimiser = moments * sum(trained)
    # The dense step keeps weights and gradients of both networks in flat buffers. Weights go there
    # before the first step, Adam's moments, one network after the other, at the second.
    gradients = both if networks.by_hand else sum(trained)
    laid = max(both - optimiser, moments * max(trained) * (training.optimiser == "adam"))
    drawn = (5 if config.net.init == "bernoulli" else 2) * networks.largest_weight
    copies = max(0, drawn - gradients - optimiser, laid * networks.by_hand)
    return gradients, optimiser, copies


def _count_activations(networks: _Networks, config: RunConfig, sizes: DataSizes, card: bool) -> int:
    """Return the activations of a training batch, or of a test chunk if that is more."""
    batch = min(config.training.batch, sizes.train)
    at_once = min(examples_at_once(networks.wide, card), sizes.test)
    tested = at_once * networks.regime.generalises * networks.passed_values
    if networks.by_hand:
        # Buffers are kept per batch size, and the last batch may be smaller.
        buffered = _BUFFERED_ALONE if networks.value_only else _BUFFERED_BOTH
        return (batch + sizes.train % batch) * buffered * networks.value.units + tested
    step = networks.passed_values + networks.normalised_values
    if networks.regime.drawn_gates:  # gates are kept, so gradients need memory of their own
        step += 2 * max(networks.value.layers, default=0)
    return max(batch * step, tested)


def _count_probes(networks: _Networks, config: RunConfig, sizes: DataSizes, use: RunUse) -> int:
    """Return the numbers in gates and kernels of the probe examples; 0 if no probes are read.

    In a window two copies of the weights are added: in the reading process, and from the start.
    """
    if not (use.live or use.probed):
        return 0
    probes = min(config.probe_examples, sizes.train)
    gates = [math.prod(shape) for shape in networks.wide.gated_shapes]
    probe_numbers = probes * sum(gates) + probes**2 * len(gates)
    return probe_numbers + 2 * networks.weights * use.live


def _drawn_gates(networks: _Networks, sizes: DataSizes, trained: int) -> int:
    """Return the bytes of drawn gates of all training examples, one byte each.

    While a layer is drawn its gates are float32; `trained` bytes of a step are not in use yet.
    """
    if not networks.regime.drawn_gates:
        return 0
    units = networks.feature.layers
    whole = sum(units)
    drawing = max(sum(units[: i + 1]) + NUMBER * units[i] for i in range(len(units)))
    return max(sizes.train * whole, sizes.train * drawing - trained)


@dataclass(frozen=True)
class _Networks:
    """Both networks of a run; `wide` is the value architecture after tiling.

    `by_hand` says that they are trained without autograd.
    """

    wide: Architecture
    value: _Network
    feature: _Network
    regime: Regime
    by_hand: bool

    @staticmethod
    def from_config(config: RunConfig, architecture: Architecture) -> _Networks:
        """Return the networks of a configuration."""
        gating, regime = config.gating, find_regime(config.gating.regime)
        wide, makers = value_and_feature(architecture, gating.tiling, gating.feature_layers)
        value = _Network.from_architecture(wide, config.net.bias)
        feature = _Network.from_architecture(makers, config.net.bias or config.net.feature_bias)
        by_hand = value.dense and config.training.precision != "bf16" and not regime.drawn_gates
        return _Networks(wide, value, feature, regime, by_hand)

    @property
    def value_only(self) -> bool:
        """Return whether a step only runs the value network."""
        return self.regime.own_gates or self.regime.drawn_gates

    @property
    def weights(self) -> int:
        """Return the number of weights of both networks."""
        return self.value.weights + self.feature.weights

    @property
    def largest_weight(self) -> int:
        """Return the size of the largest weight tensor."""
        return max(self.value.largest_weight, self.feature.largest_weight)

    @property
    def trained_counts(self) -> tuple[int, int]:
        """Return the numbers of trained weights of value and feature network."""
        regime = self.regime
        return (
            self.value.weights * regime.trains_value,
            self.feature.weights * regime.trains_feature,
        )

    @property
    def passed_values(self) -> int:
        """Return the numbers a pass stores per example."""
        return self.value.passed + self.feature.passed * (not self.value_only)

    @property
    def normalised_values(self) -> int:
        """Return the numbers a training pass stores in addition."""
        return self.value.normalised + self.feature.normalised * (not self.value_only)


@dataclass(frozen=True)
class _Network:
    """Sizes of one network: its weights, and what a pass stores per example.

    `layers` are the units of its gate layers, `normalised` what a training pass stores in addition
    to `passed`, and `dense` says that it is a chain of dense layers.
    """

    weights: int
    largest_weight: int
    layers: tuple[int, ...]
    passed: int
    normalised: int
    dense: bool

    @property
    def units(self) -> int:
        """Return the number of gated units."""
        return sum(self.layers)

    @staticmethod
    def from_architecture(architecture: Architecture, bias: bool) -> _Network:
        """Return the sizes of an architecture."""
        weights = [math.prod(arch.weight_shape(layer)) for layer in architecture.weight_layers]
        outputs = sum(layer.outputs for layer in architecture.weight_layers) * bias
        units = tuple(math.prod(shape) for shape in architecture.gated_shapes)
        channels = normalised = 0
        passed = _KEPT * sum(units)
        for node, shape in architecture.shapes():
            if isinstance(node, arch.Conv) and node.normal:
                channels += node.outputs
                normalised += math.prod(shape)
            if isinstance(node, arch.MaxPool | arch.GlobalMaxPool):  # values and arg-max
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
    """Compute the memory that a run needs, and refuse it if that exceeds the free memory.

    Nothing is allocated. Main memory is compared with what the machine and its control group have
    left, memory of a card with that card.

    Args:
        config: Configuration of the run.
        architecture: From `architecture_for`, before tiling.
        sizes: Numbers of examples, and the shape of one.
        device: Where it runs.
        use: What the run is used for.
        loaded: Bytes of its data already in main memory.
        reclaimed: Bytes freed before its first step by the run it replaces.

    Returns:
        Bytes, by purpose.

    Raises:
        DoesNotFitError: It needs more; the message has the numbers and what would fit.
    """
    use = replace(use, card=device.type == "cuda")
    needed = memory_needed(config, architecture, sizes, use)
    main = free_memory() + (0 if use.card else loaded)
    free = _Free(main, reclaimed, _free_on_card(device) if use.card else None)
    short = free.find_shortage(needed)
    if short is None:
        return needed
    where, needs, available = short
    what = _suggest_fitting(config, sizes, lambda other: free.find_shortage(other) is None, use)
    raise DoesNotFitError(
        f"This run needs about {bytes_in_words(needs)}{where} ({needed.largest_parts}) but only "
        f"{bytes_in_words(available)} are free; " + what,
        kind="no-memory",
        value=needs,
    )


@dataclass(frozen=True)
class _Free:
    """Free bytes of main memory and card, and those the previous run will free."""

    main: float
    reclaimed: float
    card: float | None

    def find_shortage(self, needed: MemoryNeeded) -> tuple[str, float, float] | None:
        """Return where memory is short, the need and what is free; None if the run fits."""
        on_device = needed.total - needed.checkpoints
        if self.card is not None and on_device > self.card + self.reclaimed:
            return " on the card", on_device, self.card + self.reclaimed
        # With a card, main memory holds the weights while they are drawn, and checkpoints.
        needs = needed.total if self.card is None else max(needed.weights, needed.checkpoints)
        free = self.main + (self.reclaimed if self.card is None else 0)
        if needs > free:
            return "" if self.card is None else " of main memory", needs, free
        if needed.weights > self.main:
            return " for its weights", needed.weights, self.main
        return None


def _free_on_card(device: torch.device) -> float:
    """Return the free bytes of a card; memory cached by torch counts as free."""
    free = torch.cuda.mem_get_info(device)[0]
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _suggest_fitting(
    config: RunConfig, sizes: DataSizes, fits: Callable[[MemoryNeeded], bool], use: RunUse
) -> str:
    """Return the end of a refusal: the largest value of a setting with which the run would fit."""

    def memory_of(other: RunConfig) -> MemoryNeeded:
        architecture = architecture_for(other.net, sizes.shape, sizes.classes)
        return memory_needed(other, architecture, sizes, use)

    batch = min(config.training.batch, sizes.train)
    of_batch = _Reduction("training.batch", 1, batch, partial(_with_batch, config))
    changes: list[_Reduction] = []
    net = find_net(config.net)
    if net is not None and not config.gating.tiling:
        options = options_of(config.net)
        for option in net.options:
            if type(option.default) is int:
                setting_name, to = (
                    f"net.options.{option.name}",
                    partial(_with_option, config, option.name),
                )
                changes.append(
                    _Reduction(setting_name, int(option.least or 1), int(options[option.name]), to)
                )
    # Large numbers are finer steps: widths first.
    changes.sort(key=lambda option: -option.now)
    parts = vars(memory_of(config))
    changes.insert(0 if parts["activations"] == max(parts.values()) else len(changes), of_batch)
    for change in changes:
        least, most = change.least, change.now
        if most <= least or not fits(memory_of(change.to(least))):
            continue
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if fits(memory_of(change.to(middle))) else (least, middle)
        return "it would fit with " + Where(change.place) + f" at most {_rounded_down(least):,}."
    return "choose a smaller network, fewer or smaller images, or another device."


@dataclass(frozen=True)
class _Reduction:
    """An integer setting that may be reduced down to `least`."""

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
    """Round down to two digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return count // unit * unit
