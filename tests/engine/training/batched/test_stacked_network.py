"""A stack of networks is trained as each of them would be by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.training.batched import group_into_packs, reason_not_packed
from dgn_engine.training.batched.stack_groups import group_into_stacks
from dgn_engine.training.batched.stack_member import SharedData
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.run import Run
from tests.engine.training.changed_config import change_config
from tests.plugins import each

BASE = RunConfig(
    net=NetConfig(options=(("width", 8), ("depth", 4))),
    training=TrainingConfig(epochs=5, learning_rate=1e-3),
    probe_examples=20,
)
PACKED = [regime.name for regime in all_regimes() if not regime.drawn_gates]
STEPS = 30
SOURCES = SharedData()


@pytest.fixture(scope="module")
def gates_file(tmp_path_factory):
    """Gates for FL: a DL network that has learnt a little."""
    path = tmp_path_factory.mktemp("gates") / "gates.safetensors"
    run = begun(gated(BASE, "DL"))
    for _ in range(60):
        run.trainer.step()
    run.save_weights(path)
    return str(path)


def gated(config, regime, **gating):
    return change_config(config, gating={"regime": regime, **gating})


def begun(config, dtype=torch.float32):
    """A run whose numbers are of this type; networks of one data set share its images."""
    examples = SOURCES.get_examples(config.data)
    run = Run(1, config, lambda _: None, lambda *_: None, live=False, examples=examples)
    data = SOURCES.share_images(config.data, run.trainer.data)
    if dtype is torch.float64:
        data = DeviceData(doubled(data.train_x), data.train_y, doubled(data.test_x), data.test_y)
        run.trainer.network.double()
    run.trainer.batches.data = data
    return run


DOUBLED: dict[int, torch.Tensor] = {}


def doubled(images):
    return DOUBLED.setdefault(id(images), images.double())


def variety(regime, gates_file):
    """Seeds, turned gates, false labels; for some regimes other inputs, gates and rates too."""
    turned = {"wiring": (2, 0, 1), "rotation": (0, 3, 1)}
    noisy = replace(BASE.data, label_noise=0.3, variant_seed=1)
    learnt_gates = gates_file if find_regime(regime).takes_gates else ""
    plain = gated(BASE, regime, gates_from=learnt_gates)
    if regime in ("ReLU", "FR-DI", "FL", "DL"):
        yield plain
    yield replace(gated(plain, regime, **turned), seed=1, data=noisy)
    if regime in ("FR-II", "DL"):
        soft = {"beta": 4.0, "epsilon": 0.1}
        yield change_config(
            gated(plain, regime, value_input="ones"), training={"learning_rate": 2e-3}
        )
        yield gated(plain, regime, value_input="random", **turned, **soft)


def gates_of(run):
    """Of the whole test set, hard."""
    with torch.no_grad():
        trace = run.trainer.network.trace(run.trainer.data.test_x)
    return torch.cat([(gate > 0.5).flatten() for gate in trace.value.gates])


def packed_and_alone(configs, dtype, steps=STEPS):
    """Runs trained in stacks, and their twins trained one by one."""
    for places in group_into_stacks(configs):
        runs = [begun(configs[place], dtype) for place in places]
        pack = TrainerStack([run.trainer for run in runs])
        for _ in range(steps):
            pack.step()
        pack.publish()
        scores, _ = pack.test_scores()
        for run, score in zip(runs, scores, strict=True):
            twin = begun(run.config, dtype)
            twin.trainer.network_step.use_autograd()
            for _ in range(steps):
                twin.trainer.step()
            yield run, score, twin


def worst(run, twin):
    """Largest difference of weights and of all that the optimiser remembers."""
    ours, theirs = run.trainer.tensors(), twin.trainer.tensors()
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def assert_equal_runs(configs, dtype, most, gates):
    for run, score, twin in packed_and_alone(configs, dtype):
        assert worst(run, twin) < most, run.config.gating
        share = (gates_of(run) == gates_of(twin)).double().mean()
        assert share >= gates, run.config.gating
        alone = twin.trainer.test_score()
        assert score.loss == pytest.approx(alone.loss, abs=most * 10)
        sums, theirs = run.trainer.counters(), twin.trainer.counters()
        assert sums["train_seen"] == theirs["train_seen"]
        assert sums["train_sums"] == pytest.approx(theirs["train_sums"], rel=1e-4)


@pytest.mark.parametrize("regime", each(PACKED))
def test_in_float64_a_stack_is_equal_to_1e_10_and_in_every_gate(gates_file, regime):
    assert_equal_runs(list(variety(regime, gates_file)), torch.float64, 1e-10, 1.0)


@pytest.mark.parametrize("regime", each(PACKED))
def test_in_float32_a_stack_is_equal_to_1e_3_and_in_999_of_1000_gates(gates_file, regime):
    configs = [config for config in variety(regime, gates_file) if config.seed]
    assert_equal_runs(configs, torch.float32, 1e-3, 0.999)


def test_random_pixels_of_each_network_are_its_own():
    noise = [replace(BASE.data, pixels="random", variant_seed=seed) for seed in (0, 1)]
    configs = [replace(gated(BASE, "FR-II"), data=data) for data in (*noise, BASE.data)]
    assert len(group_into_stacks(configs)) == 1
    for run, _, twin in packed_and_alone(configs, torch.float64):
        assert worst(run, twin) < 1e-10


def test_configurations_are_split_into_packs_and_the_rest():
    dl = gated(BASE, "DL")
    wider = replace(dl, net=NetConfig(options=(("width", 16), ("depth", 4))))
    spelt = replace(dl, net=NetConfig(options=(("depth", 4), ("width", 8))), seed=4)
    conv = replace(BASE, net=NetConfig(name="gconv"))
    two_stages, coins = gated(BASE, "FL"), gated(BASE, "FRG")
    endless = change_config(BASE, training={"epochs": 0})
    groups = group_into_packs(
        [dl, conv, wider, two_stages, spelt, coins, endless, gated(BASE, "ReLU")]
    )
    assert groups.packs == ((0, 4, 7), (2,))
    assert groups.leftovers == (1, 3, 5, 6)
    assert "gconv" in reason_not_packed(conv)
    assert "two stages" in reason_not_packed(two_stages)


def test_variants_of_one_data_set_share_its_images():
    noisy = replace(BASE.data, label_noise=0.5)
    clean, other = SOURCES.get_examples(BASE.data), SOURCES.get_examples(noisy)
    assert other.train_x is clean.train_x
    assert (other.train_y != clean.train_y).any()
    assert (other.train_y == load_examples(noisy).train_y).all()
