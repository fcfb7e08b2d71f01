"""Estimate how long training steps take, from operation counts or by timing some."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.model.architecture import Architecture, FromInput, weight_shape
from dgn_engine.model.feature_layers import value_and_feature
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import to_device
from dgn_engine.training.steps.choice import StepCase, choose_way
from dgn_engine.training.steps.dense_step import is_dense_architecture
from dgn_engine.training.trainer import Trainer

# Seconds, and FLOP/s of one core, fitted to 82 kinds of steps and test passes in processor time of
# an AMD EPYC core, 29 November 2026: fc of 13 shapes at batch 32, 64 and 256, cnn4, gconv, vconv,
# davidnet and resnet_fc, in ReLU, FR-II and DL. Estimate / measured is 0.73 to 1.53 for steps.
#   step = STEP + UNFUSED + passes (nodes NODE + operations / rate + numbers MAP)
# with 3 passes of a trained network, and 1 more for a frozen or 3 for a trained feature network.
STEP = 1e-4  # per step: Python, loss, optimiser
UNFUSED = 1.5e-4  # per trained network with RMSprop, which has no fused step
LAYER, NODE, MAP_NODE = 5e-6, 2e-5, 7e-5  # per node and pass: hand-written, of vectors, of maps
MAP = 2e-9  # per number of a map and pass: gates, pooling, memory traffic
TESTED, TESTED_MAP = 2e-9, 8e-9  # per unit of a test pass: its chunks do not fit in the cache
DENSE, CONV = 8e10, 9e10
PACKED_LAYER, PACKED = 4.5e-5, 4.6e10  # of dense networks in a stack
EPOCH = 1e-3  # per epoch, besides its test pass: scores, log, checkpoint

_TIMED, _WARM = 0.3, 2  # seconds of timed steps, and warm-up steps


def count_operations(architecture: Architecture) -> float:
    """Count the operations of one example in one forward pass.

    Args:
        architecture: Architecture of one network.

    Returns:
        FLOP.
    """
    return float(
        sum(
            2 * math.prod(weight) * positions
            for weight, positions in iterate_weight_shapes(architecture)
        )
    )


def iterate_weight_shapes(architecture: Architecture) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the weights of each layer.

    Args:
        architecture: Architecture of one network.

    Yields:
        Shape of the weight, and the number of positions where it is applied.
    """
    weighted = set(map(id, architecture.weight_layers))
    for node, shape in architecture.shapes():
        if id(node) in weighted:
            yield weight_shape(node), math.prod(shape[1:])  # type: ignore[arg-type]


def feature_passes(config: RunConfig) -> int:
    """Return the cost of the feature network in a step.

    Args:
        config: Configuration of the run.

    Returns:
        Forward passes: 0 without feature network, 1 if frozen, 3 if trained.
    """
    regime = find_regime(config.gating.regime)
    if regime.own_gates or regime.open_gates or regime.drawn_gates:
        return 0
    return 3 if regime.trains_feature else 1


def seconds_a_step(
    config: RunConfig, architecture: Architecture, examples: int, stack: int = 1
) -> float:
    """Estimate the time of a step with a full batch on one CPU core.

    Args:
        config: Configuration of the run.
        architecture: Architecture of its network.
        examples: Number of training examples, which limits the batch.
        stack: Number of networks trained in one stack.

    Returns:
        Seconds per network.
    """
    feature, batch = feature_passes(config), min(config.training.batch, examples)
    makers = _feature_network(config, architecture)
    if stack > 1:
        feature = 0 if feature == 1 else feature  # a stack computes frozen gates once
        layers = len(architecture.weight_layers)
        operations = 3 * count_operations(architecture) + feature * count_operations(makers)
        return (3 + feature) * layers * PACKED_LAYER / stack + operations * batch / PACKED
    unfused = UNFUSED * (1 + (feature > 1)) if config.training.optimiser == "rmsprop" else 0.0
    value_pass = _seconds_a_pass(config, architecture, batch)  # backward is twice forward
    return STEP + unfused + 3 * value_pass + feature * _seconds_a_pass(config, makers, batch)


def seconds_to_test(
    config: RunConfig, architecture: Architecture, examples: int, stack: int = 1
) -> float:
    """Estimate the time of a test pass and of ending the epoch on one CPU core.

    Args:
        config: Configuration of the run.
        architecture: Architecture of its network.
        examples: Number of test examples.
        stack: Number of networks trained in one stack.

    Returns:
        Seconds per network.
    """
    networks = [architecture]
    networks += [_feature_network(config, architecture)] * bool(feature_passes(config))
    if stack > 1:
        return EPOCH / stack + sum(map(count_operations, networks)) * examples / PACKED
    return EPOCH + sum(_seconds_a_pass(config, one, examples, tests=True) for one in networks)


def _feature_network(config: RunConfig, architecture: Architecture) -> Architecture:
    """Return the architecture of the feature network, without tiling."""
    return value_and_feature(architecture, (), config.gating.feature_layers)[1]


def time_steps(
    config: RunConfig, input_shape: tuple[int, ...], architecture: Architecture, examples: int
) -> float:
    """Measure the time of a step by training on noise for a third of a second of CPU time.

    With a single thread, since threads that wait for each other would count as work.

    Args:
        config: Configuration of the run.
        input_shape: Shape of one example in the data.
        architecture: Architecture of its network.
        examples: Number of training examples, which limits the batch.

    Returns:
        Processor seconds per step.
    """
    logits = architecture.classes
    noise = np.random.default_rng(0)
    count, classes = min(2 * config.training.batch, examples), max(logits, 2)
    data_set = Examples(
        name="noise",
        train_x=noise.random((count, *input_shape), np.float32),
        train_y=noise.integers(0, classes, count),
        test_x=noise.random((1, *input_shape), np.float32),
        test_y=noise.integers(0, classes, 1),
        class_names=tuple(str(label) for label in range(classes)),
        fingerprint="",
        signed=logits == 1,
    )
    cpu = torch.device("cpu")
    data = to_device(data_set, architecture, cpu)
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


def _seconds_a_pass(
    config: RunConfig, architecture: Architecture, examples: int, *, tests: bool = False
) -> float:
    """Return the seconds of a forward pass of `examples` examples."""
    work = count_operations(architecture) * examples
    maps = sum(math.prod(shape) for _, shape in architecture.shapes() if len(shape) > 1)
    if maps:
        rate, per_node, per_number = CONV, MAP_NODE, TESTED_MAP if tests else MAP
    else:
        case = StepCase(config, find_regime(config.gating.regime))
        dense = is_dense_architecture(architecture)
        by_hand = choose_way("gradients", replace(case, dense=dense)).way == "dense"
        rate, per_node = DENSE, LAYER if by_hand else NODE
        per_number = TESTED if tests else 0.0
    shapes = [shape for node, shape in architecture.shapes() if not isinstance(node, FromInput)]
    numbers = maps or sum(math.prod(shape) for shape in shapes)
    return len(shapes) * per_node + work / rate + numbers * examples * per_number
