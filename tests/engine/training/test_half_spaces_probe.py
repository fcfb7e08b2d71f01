"""Half-spaces of a run, against products of its weights in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine import kernels as k
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext, half_spaces
from dgn_engine.training.probes._probe import InputGeometry
from dgn_engine.training.readings.reading_jobs import StepContexts, pack_context, unpack_context
from dgn_engine.training.run import Run

TREE = DataConfig(
    "oblique-tree", options=(("depth", 2), ("dim", 3), ("halving", True), ("n", 60)), variant_seed=5
)
CONFIG = RunConfig(data=TREE, net=NetConfig("fc", (("depth", 4), ("width", 5))), probe_examples=8)


def planes_of(run: Run) -> list[np.ndarray]:
    """Unit rows (w, b) of each layer; the constant input counts for b."""
    product, rows = np.eye(4), []
    for weight in list(run.trainer.network.feature.weights)[:-1]:
        product = weight.detach().double().numpy() @ product
        size = np.linalg.norm(product[:, :3], axis=1, keepdims=True)
        rows.append(product / size)
    return rows


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.degrees(np.arccos(np.clip(abs(one @ other), 0, 1))))


def test_angles_to_cuts_and_angles_moved_are_those_of_products_of_weights(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("DL-linear", CONFIG)
    before = planes_of(run)
    memory = half_spaces.PROBE.read(run.probed.probe_context(), {}, None).memory
    for _ in range(20):
        run.step()
    found = half_spaces.PROBE.read(run.probed.probe_context(), {}, memory)
    cuts = load_examples(TREE).cuts
    assert cuts is not None
    after, best = planes_of(run), []
    for layer, (then, now) in enumerate(zip(before, after, strict=True)):
        np.testing.assert_allclose(
            found.arrays[f"planes_{layer}"], np.insert(now, 3, 0.0, axis=1), atol=1e-5
        )
        moved = [np.degrees(np.arccos(a @ b)) for a, b in zip(then[:, :3], now[:, :3], strict=True)]
        assert found.scalars[f"moved_{layer}"] == pytest.approx(np.mean(moved), abs=1e-3)
        nearest = []
        for cut in cuts:
            pairs = []
            for row in now:
                side = np.sign(row[:3] @ cut[:3])
                apart = np.append(row[:3] - side * cut[:3], row[3] - side * cut[4])
                pairs.append((np.linalg.norm(apart), angle(row[:3], cut[:3]), abs(apart[3])))
            nearest.append(min(pairs))
        best.append(nearest)
        expected = np.mean([one[1] for one in nearest])
        assert found.scalars[f"cuts_{layer}"] == pytest.approx(expected, abs=1e-3)
    whole = [min(each) for each in zip(*best, strict=True)]
    assert found.scalars["cuts"] == pytest.approx(np.mean([one[1] for one in whole]), abs=1e-3)
    assert found.scalars["offset"] == pytest.approx(np.mean([one[2] for one in whole]), abs=1e-4)
    owners = [int(np.argmin([layer[c][0] for layer in best])) for c in range(len(cuts))]
    assert found.arrays["nearest"].tolist() == owners


def test_frozen_gates_do_not_move_and_relu_features_have_one_layer(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("FR-linear", CONFIG)
    memory = half_spaces.PROBE.read(run.probed.probe_context(), {}, None).memory
    for _ in range(3):
        run.step()
    found = half_spaces.PROBE.read(run.probed.probe_context(), {}, memory)
    assert [found.scalars[f"moved_{layer}"] for layer in range(3)] == [0.0, 0.0, 0.0]
    relu = half_spaces.PROBE.read(make_run("ReLU", CONFIG).probed.probe_context(), {}, None)
    assert [name for name in relu.arrays if name.startswith("planes")] == ["planes_0"]
    assert relu.facts["later"] == half_spaces.AFTER_GATES
    for regime in ("FRG", "DLN"):
        context = make_run(regime, CONFIG).probed.probe_context()
        assert half_spaces.PROBE.read(context, {}, None).absent == half_spaces.NO_HYPERPLANES


def test_planes_of_other_layers_are_no_beginning(make_run: Callable[..., Run]) -> None:
    """After a swap from ReLU to linear features, angles are measured from the first of these."""
    memory = half_spaces.PROBE.read(make_run("ReLU", CONFIG).probed.probe_context(), {}, None)
    context = make_run("DL-linear", CONFIG).probed.probe_context()
    found = half_spaces.PROBE.read(context, {}, memory.memory)
    assert [found.scalars[f"moved_{layer}"] for layer in range(3)] == [0.0, 0.0, 0.0]


def test_cuts_reach_copies_of_the_step_and_other_data_have_none(
    make_run: Callable[..., Run],
) -> None:
    context = make_run("DL-linear", CONFIG).probed.probe_context()
    copies = (
        context.subsample(2),
        context.with_labels(),
        StepContexts(context, 0).copy_network().whole,
        unpack_context(pack_context(context)),
    )
    here = half_spaces.PROBE.read(context, {}, None).scalars
    assert here["cuts"] > 0
    for copy in copies:
        assert half_spaces.PROBE.read(copy, {}, None).scalars == here
    other = make_run("DL-linear", replace(CONFIG, data=DataConfig(train_limit=60)))
    found = half_spaces.PROBE.read(other.probed.probe_context(), {}, None)
    assert "cuts" not in found.arrays
    assert "cuts" not in found.scalars
    assert found.arrays["image"].tolist() == [1, 8, 8]


def test_the_first_layer_of_a_module_is_read_and_dead_units_count_for_nothing() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    module[0].weight.data[1] = 0.0
    network = k.adapt(module, (3,))
    x, cuts = torch.randn(6, 3), torch.tensor([[1.0, 0.0, 0.0, 0.0]]).double()
    geometry = InputGeometry((3,), cuts)
    context = ProbeContext(network, x, torch.arange(6) % 2, find_regime("ReLU"), geometry=geometry)
    found = half_spaces.PROBE.read(context, {}, None)
    rows = module[0].weight.detach().numpy()
    size = np.linalg.norm(rows, axis=1)
    planes = found.arrays["planes_0"]
    assert np.isnan(planes[1]).all()
    for unit in (0, 2, 3):
        expected = np.append(rows[unit], module[0].bias.detach().numpy()[unit]) / size[unit]
        np.testing.assert_allclose(planes[unit], expected, rtol=1e-5)
    assert found.arrays["angles_0"].shape == (3,)
    assert found.facts["later"] == half_spaces.AFTER_GATES


def test_of_images_only_the_first_units_are_read_and_another_network_begins_anew(
    make_run: Callable[..., Run],
) -> None:
    config = RunConfig(
        data=DataConfig(train_limit=60), net=NetConfig("fc", (("depth", 3), ("width", 50)))
    )
    own = half_spaces.PROBE.read(make_run("ReLU", config).probed.probe_context(), {}, None)
    run = make_run("FR-II", config)
    found = half_spaces.PROBE.read(run.probed.probe_context(), {}, own.memory)
    assert found.scalars["moved_0"] == 0.0
    rows = run.trainer.network.feature.weights[0].detach().numpy()[: half_spaces.SHOWN]
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(found.arrays["planes_0"][:, :-1], expected, atol=1e-6)
