"""Pruning by path magnitude: what a weight's removal takes from the norm, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import path_pruning
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.kernels.path_norms import (
    PathWeights,
    path_value_distance,
    path_value_norms,
    sums_through_weights,
)
from dgn_engine.sweep.unit import CalculationInputs, Training, unit_folder
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.kernels.tiny import make_network

NET = NetConfig("resnet_fc", (("blocks", 2), ("depth", 2), ("width", 6)))
SMALL = build_architecture(NET, (5,), 3)


def small_weights() -> PathWeights:
    return PathWeights.from_stack(make_network(SMALL, bias=True).value)


def test_path_magnitude_is_what_pruning_a_weight_takes_from_the_norm() -> None:
    weights = small_weights()
    whole = path_value_norms(weights).l1
    for layer, sums in enumerate(sums_through_weights(weights)):
        for index in np.ndindex(*sums.shape):
            without = [weight.clone() for weight in weights.weights]
            without[layer][index] = 0.0
            less = path_value_norms(replace(weights, weights=tuple(without))).l1
            assert float(sums[index]) == pytest.approx(whole - less, rel=1e-9, abs=1e-9)


def test_rescaled_blocks_are_the_same_network_with_the_same_path_magnitudes() -> None:
    weights = small_weights()
    scaled = path_pruning.rescale_blocks(weights, 3)
    changed = [not torch.equal(a, b) for a, b in zip(weights.weights, scaled.weights, strict=True)]
    assert changed == [False, False, True, True, True, True, False, False]
    one, two = make_network(SMALL), make_network(SMALL)
    bare = replace(weights, biases=tuple(torch.zeros_like(bias) for bias in weights.biases))
    path_pruning.load_masked(one, bare, [torch.ones_like(w) for w in bare.weights])
    path_pruning.load_masked(two, path_pruning.rescale_blocks(bare, 3),
                             [torch.ones_like(w) for w in bare.weights])  # fmt: skip
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(one(x), two(x), rtol=1e-12, atol=1e-12)
    distance = path_value_distance(bare, path_pruning.rescale_blocks(bare, 3))
    assert distance.l1_high < 1e-12 * distance.l1_most
    ours, theirs = (sums_through_weights(w) for w in (bare, path_pruning.rescale_blocks(bare, 3)))
    assert all(map(torch.equal, ours, theirs))  # bit for bit: the factors are powers of two


def test_the_share_with_the_smallest_scores_is_pruned_over_all_layers() -> None:
    scores = (torch.tensor([[4.0, 1.0], [2.0, 8.0]]), torch.tensor([[0.5, 9.0]]))
    first, second = path_pruning.keep_largest(scores, 0.5)
    assert first.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert second.tolist() == [[0.0, 1.0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch that kept its weights at the end."""
    root = tmp_path_factory.mktemp("pruned")
    training = TrainingConfig(learning_rate=1e-2, epochs=1, keep_epochs=(1,))
    data = DataConfig(train_limit=120, test_limit=50)
    config = RunConfig(data, NET, GatingConfig("ReLU"), training)
    unit = Training("relu-s0", config)
    SerialExecutor().run([unit], root, lambda _: None, lambda: False)
    return unit_folder(root, unit.id)


def test_pruned_networks_answer_as_their_masked_weights(folder: Path) -> None:
    """Without fine-tuning, each in numpy; the weights are those of the file."""
    given = {"seed": 2, "epochs": 0}
    found = path_pruning.prune(CalculationInputs(given, folder, {"relu-s0": folder}))
    kept = load_file(folder / "weights" / "epoch-0001.safetensors")
    weights = [kept[f"value.weights.{layer}"].astype(float) for layer in range(8)]
    examples = load_examples(DataConfig(train_limit=120, test_limit=50))
    x, y = examples.test_x.reshape(50, -1).astype(float), examples.test_y
    sizes = np.sort(np.concatenate([abs(weight).ravel() for weight in weights]))
    for share, answers in zip(path_pruning.SHARES, found["wrong"]["magnitude"], strict=True):
        least = sizes[round(share * len(sizes))]
        z = x
        masked = [weight * (abs(weight) >= least) for weight in weights]
        for first, second in ((0, None), (1, None), (2, 3), (4, 5), (6, None)):
            start, z = z, np.maximum(z @ masked[first].T, 0.0)
            if second is not None:
                z = np.maximum(z @ masked[second].T, 0.0) + start
        assert answers == np.flatnonzero((z @ masked[7].T).argmax(1) != y).tolist()
    assert found["examples"] == 50
    assert found["differing"] == 0.0


def test_fine_tuning_is_repeatable_and_keeps_what_is_pruned_at_zero(folder: Path) -> None:
    inputs = CalculationInputs({"seed": 2, "epochs": 2}, folder, {"relu-s0": folder})
    assert path_pruning.prune(inputs) == path_pruning.prune(inputs)
    network = make_network(SMALL).float()
    weights = PathWeights.from_stack(network.value)
    masks = path_pruning.keep_largest([weight.abs() for weight in weights.weights], 0.6)
    x = torch.randn(90, 5, generator=torch.Generator().manual_seed(1))
    data = SimpleNamespace(train_x=x, train_y=torch.arange(90) % 3, test_x=x, test_y=x[:, 0] > 0)
    path_pruning.fine_tune(network, weights, masks, data, 0, inputs)  # type: ignore[arg-type]
    for weight, first, mask in zip(network.value.weights, weights.weights, masks, strict=True):
        assert bool((weight[mask == 0] == 0).all())
        assert bool((weight[mask == 1] != first[mask == 1]).any())
