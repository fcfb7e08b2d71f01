"""Estimate how long training steps take, from the operations of a network, or time some here."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import torch

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import to_device
from dgn_engine.training.steps.dense_step import is_dense_architecture
from dgn_engine.training.trainer import Trainer

# Seconds and operations a second of one core, fitted to steps that were timed on a shared core of
# an AMD EPYC (docs/scale.md says how well they fit).
STEP = 1.5e-4  # of a step, however small: Python, the loss, the optimiser
LAYER = 2e-6  # of a layer in one pass of a chain of dense layers, whose steps are taken by hand
NODE = 1e-4  # of a node in one pass of any other network
ELEMENT = 1e-9  # of a number in a map in one pass: gates, pooling, memory
DENSE, CONV = 5e10, 9e10
PACKED_LAYER, PACKED = 1.1e-4, 3.6e10  # of dense networks in a stack, which share their Python
EPOCH = 5e-3  # seconds at the end of an epoch, beside its test pass: losses, log, checkpoint

_TIMED, _WARM = 0.3, 2  # seconds of steps that are timed, and steps before them


def operations(architecture: Architecture) -> float:
    """Return the floating-point operations of one example in one forward pass."""
    return float(sum(2 * math.prod(weight) * places for weight, places in weights_of(architecture)))


def weights_of(architecture: Architecture) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the weight shape of each layer, and at how many positions it is applied."""
    weighted = set(map(id, architecture.weighted))
    for node, shape in architecture.shapes():
        if id(node) in weighted:
            yield weight_shape(node), math.prod(shape[1:])  # type: ignore[arg-type]


def feature_passes(config: RunConfig) -> int:
    """Return the passes of the feature network in a step: 0 without one, 1 frozen, 3 trained."""
    regime = find_regime(config.gating.regime)
    if regime.own_gates or regime.open_gates or regime.drawn_gates:
        return 0
    return 3 if regime.trains_feature else 1


def seconds_a_step(
    config: RunConfig, architecture: Architecture, examples: int, stack: int = 1
) -> float:
    """Estimate the seconds that one CPU core takes for a step of one full batch.

    Args:
        architecture: of the configuration's network.
        examples: of the training set; a batch has no more.
        stack: how many networks are trained side by side; the seconds are those of one of them.
    """
    feature, batch = feature_passes(config), min(config.training.batch, examples)
    if stack > 1:
        passes = 3 + (0 if feature == 1 else feature)  # a stack computes frozen gates once
        layers = len(architecture.weighted)
        work = passes * operations(architecture) * batch
        return passes * layers * PACKED_LAYER / stack + work / PACKED
    passes = 3 + feature  # backward is twice forward
    return STEP + passes * _seconds_a_pass(architecture, batch)


def seconds_to_test(
    config: RunConfig, architecture: Architecture, examples: int, stack: int = 1
) -> float:
    """Estimate the seconds that one CPU core takes for a test pass, and for ending the epoch."""
    networks = 1 + bool(feature_passes(config))
    if stack > 1:
        return EPOCH / stack + networks * operations(architecture) * examples / PACKED
    return EPOCH + networks * _seconds_a_pass(architecture, examples)


def time_steps(
    config: RunConfig, input_shape: tuple[int, ...], architecture: Architecture, examples: int
) -> float:
    """Train on noise for a third of a second of CPU time; return the seconds of a step of one core.

    One thread: several that wait for each other on a busy machine would count as work.
    """
    logits = architecture.classes
    noise = np.random.default_rng(0)
    count, classes = min(2 * config.training.batch, examples), max(logits, 2)
    made = Examples(
        name="noise",
        train_x=noise.random((count, *input_shape), np.float32),
        train_y=noise.integers(0, classes, count),
        test_x=noise.random((1, *input_shape), np.float32),
        test_y=noise.integers(0, classes, 1),
        class_names=tuple(str(number) for number in range(classes)),
        fingerprint="",
        signed=logits == 1,
    )
    cpu = torch.device("cpu")
    data = to_device(made, architecture, cpu)
    trainer = Trainer(config, architecture, data, find_regime(config.gating.regime), cpu)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(_WARM):
            trainer.step()
        began, steps = time.process_time(), 0
        while not steps or time.process_time() - began < _TIMED:
            trainer.step()
            steps += 1
        return (time.process_time() - began) / steps
    finally:
        torch.set_num_threads(threads)


def _seconds_a_pass(architecture: Architecture, examples: int) -> float:
    work = operations(architecture) * examples
    numbers = sum(math.prod(shape) for _, shape in architecture.shapes() if len(shape) > 1)
    rate = CONV if numbers else DENSE
    each = LAYER if is_dense_architecture(architecture) else NODE
    return len(architecture.nodes) * each + work / rate + numbers * examples * ELEMENT
