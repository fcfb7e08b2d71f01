"""Every setting of a configuration changes a run as the theory says: against the slow run.

A setting without a case fails `test_every_setting_has_a_case`: what is lost on the way from the
configuration to the network would be lost on both sides of any comparison of two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.training import devices
from dgn_engine.training.run import Run
from tests.engine.session.drawn_runs import IMAGE, INPUTS, data_of, examples_of
from tests.engine.slow_run import SlowRun
from tests.engine.slow_table import stream
from tests.engine.training.changed_config import change_config
from tests.refusals import refused

BASE = RunConfig.from_dict(
    {
        "net": {"options": {"width": 6, "depth": 4}},
        "gating": {"regime": "DL", "beta": 2.0},
        "training": {"batch": 4, "epochs": 2, "learning_rate": 0.02},
        "device": "cpu",
        "probe_examples": 4,
    }
)
MAPS = {"name": "cnn4", "options": (("channels", 2),)}
SLOW: dict[str, dict[str, Any]] = {
    "net.name": {"net": MAPS},
    "net.options": {"net": {"options": (("depth", 3), ("width", 5))}},
    "net.bias": {"net": {"bias": True}},
    "net.feature_bias": {"net": {"feature_bias": True}},
    "net.init": {"net": {"init": "bernoulli"}},
    "net.sigma": {"net": {"sigma": 0.3}},
    "gating.regime": {"gating": {"regime": "FR-II"}},
    "gating.beta": {"gating": {"beta": 4.0}},
    "gating.epsilon": {"gating": {"epsilon": 0.2}},
    "gating.value_input": {"gating": {"value_input": "random"}},
    "gating.wiring": {"gating": {"wiring": (2, 0, 1)}},
    "gating.rotation": {"gating": {"rotation": (0, 4, -1)}},
    "gating.shift": {"net": MAPS, "gating": {"shift": (0, 1, 2, -1)}},
    "gating.tiling": {"gating": {"tiling": (1, 3, 2), "rotation": (0, 2, 0)}},
    "gating.feature_layers": {"gating": {"feature_layers": "parallel", "rotation": (0, 2, 0)}},
    "gating.gate_probability": {"gating": {"regime": "FRG", "gate_probability": 0.2}},
    "gating.pretrain_epochs": {"gating": {"regime": "FL", "pretrain_epochs": 1}},
    "training.loss": {"training": {"loss": "squared"}},
    "training.optimiser": {"training": {"optimiser": "sgd"}},
    "training.learning_rate": {"training": {"learning_rate": 0.005}},
    "training.momentum": {"training": {"optimiser": "sgd", "momentum": 0.7}},
    "training.smoothing": {"training": {"optimiser": "rmsprop", "smoothing": 0.75}},
    "training.batch": {"training": {"batch": 5}},
    "training.epochs": {"training": {"epochs": 3}},
    "training.until": {"training": {"epochs": 40, "until": 0.6}},
    "seed": {"seed": 5},
}
DATA: dict[str, dict[str, Any]] = {
    "data.name": {"name": "xor", "options": (("n", 20),), "train_limit": 0},
    "data.binary": {"binary": (7, 3)},
    "data.train_limit": {"train_limit": 30},
    "data.test_limit": {"test_limit": 10},
    "data.label_noise": {"label_noise": 0.4},
    "data.pixels": {"pixels": "random"},
    "data.variant_seed": {"label_noise": 0.5, "variant_seed": 3},
    "data.normalise": {"normalise": "0.5/0.25"},
    "data.image_size": {"image_size": 4},
    "data.image_channels": {"image_channels": 3},
    "data.split_seed": {"split_seed": 4},
}
HERE = {
    "gating.gates_from",
    "training.weights_from",
    "training.precision",
    "training.augmentation",
    "training.pace",
    "device",
    "probe_examples",
    "probe_set",
}
ELSEWHERE = {
    "data.root": "test_data_torchvision_sets",
    "data.download": "test_downloads",
    "data.test_indices": "test_split",
    "training.patience": "test_evaluation_schedule",
    "training.keep_epochs": "test_weight_keeper",
    "training.keep_best": "test_weight_keeper",
}


@pytest.fixture
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def run_of(config: RunConfig, **given: Any) -> Run:
    return Run(1, config, lambda _: None, lambda *_: None, live=False, **given)


def test_every_setting_has_a_case() -> None:
    known = {
        f"{part}.{name}" if part else name for part, found in SETTINGS.items() for name in found
    }
    assert known == {*SLOW, *DATA, *HERE, *ELSEWHERE} - {"net.options"}  # those of each network
    files = {path.stem for path in Path(__file__).parents[1].rglob("test_*.py")}
    assert set(ELSEWHERE.values()) <= files


def trained(config: RunConfig) -> tuple[Run, SlowRun]:
    """A run to its end, and one that is computed slowly."""
    data = data_of(False, IMAGE if config.net.name == "cnn4" else (INPUTS,))
    run, slow = run_of(config, examples=examples_of(data)), SlowRun(config, data, lambda: 0.0, None)
    while not run.is_finished:
        run.step()
    slow.resume()
    while slow.running:
        slow.turn()
    return run, slow


@pytest.mark.parametrize("place", SLOW)
def test_a_setting_changes_a_run_as_it_does_the_slow_run(place: str, in_float64: None) -> None:
    config = change_config(BASE, **SLOW[place])
    assert config != BASE
    run, slow = trained(config)
    assert run.step_count == slow.state.step
    expected = dict(slow.state.tensors)
    for name, moments in slow.state.moments.items():
        expected |= {f"optimiser.{name}.{key}": value for key, value in moments.items()}
    tensors = run.trainer.tensors()
    assert set(tensors) == set(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(
            tensors[name].double(), tensor.double(), atol=1e-6, rtol=1e-6, msg=name
        )
    if not run.trainer.regime.drawn_gates:
        score = run.trainer.test_score()
        assert (score.loss, score.accuracy) == pytest.approx(slow.test_score(), rel=1e-6)


@pytest.mark.parametrize("place", DATA)
def test_a_setting_of_the_data_gives_a_run_what_the_loader_gives(place: str) -> None:
    config = change_config(BASE, data={"train_limit": 40, "test_limit": 20})
    before = load_examples(config.data)
    config = change_config(config, data=DATA[place])
    found, run = load_examples(config.data), run_of(config)
    for ours, theirs in (
        (run.trainer.data.train_x, found.train_x),
        (run.trainer.data.train_y, found.train_y),
        (run.trainer.data.test_x, found.test_x),
        (run.trainer.data.test_y, found.test_y),
    ):
        assert np.array_equal(ours.numpy().ravel(), theirs.ravel())
    assert run.architecture.classes == (1 if found.signed else len(found.class_names))
    same = [
        np.array_equal(getattr(before, name), getattr(found, name))
        for name in ("train_x", "train_y", "test_x", "test_y")
    ]
    assert not all(same)


def test_gates_and_weights_of_a_file_are_those_of_each_network(tmp_path: Path) -> None:
    shapes = [(6, 64), (6, 6), (6, 6), (10, 6)]
    tensors = {f"{i}.weight": torch.randn(shape) for i, shape in enumerate(shapes)}
    save_file(tensors, tmp_path / "taken.safetensors")
    path = str(tmp_path / "taken.safetensors")
    gates = run_of(change_config(BASE, gating={"regime": "FL", "gates_from": path})).trainer.network
    values = run_of(change_config(BASE, training={"weights_from": path})).trainer.network
    for taken, other in ((gates.feature, gates.value), (values.value, values.feature)):
        assert all(map(torch.equal, taken.weights, tensors.values()))
        assert not torch.equal(other.weights[0], tensors["0.weight"])


def first_loss(config: RunConfig, x: Tensor, rows: Tensor, dtype: torch.dtype) -> float:
    """Of a ReLU network on these examples, by hand."""
    run = run_of(config)
    *hidden, last = (weight.detach().to(dtype) for weight in run.trainer.network.value.weights)
    z = x.to(dtype).flatten(1)
    for weight in hidden:
        z = torch.relu(z @ weight.t())
    logits, labels = (z @ last.t()).float(), run.trainer.data.train_y[rows]
    by_hand = -torch.log_softmax(logits, 1)[torch.arange(len(rows)), labels].mean()
    run.trainer.step()
    assert run.trainer.train_score().loss == pytest.approx(float(by_hand), rel=1e-5)
    assert {weight.dtype for weight in run.trainer.network.parameters()} == {torch.float32}
    return float(by_hand)


def test_a_step_in_bf16_is_that_of_rounded_numbers_and_tf32_needs_a_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "multiplies_bf16", lambda: True)
    config = change_config(BASE, gating={"regime": "ReLU"}, data={"train_limit": 50})
    config = change_config(config, training={"batch": 50})
    rows = torch.arange(50)
    x = run_of(config).trainer.data.train_x
    coarse = change_config(config, training={"precision": "bf16"})
    assert first_loss(config, x, rows, torch.float32) != first_loss(coarse, x, rows, torch.bfloat16)
    run = run_of(change_config(config, training={"precision": "tf32"}))
    ignored = {one.place for one in run.find_ignored(live=False, recorded=True)}
    assert "training.precision" in ignored


def test_augmented_images_are_shown_in_the_order_of_the_epoch() -> None:
    config = change_config(BASE, net=MAPS, data={"train_limit": 50})
    config = change_config(config, training={"augmentation": "davidnet", "batch": 50})
    trainer = run_of(config).trainer
    order = torch.randperm(50, generator=stream("order", 0, 0))
    shown = trainer.batches.augmentation.augment_images(trainer.data.train_x[order], order, 0)
    assert not torch.equal(shown, trainer.data.train_x[order])
    logits, labels = trainer.network(shown).detach(), trainer.data.train_y[order]
    by_hand = -torch.log_softmax(logits, 1)[torch.arange(50), labels].mean()
    trainer.step()
    assert trainer.train_score().loss == pytest.approx(float(by_hand), rel=1e-5)


def test_pace_device_and_probe_examples_are_those_that_were_asked_for() -> None:
    run = run_of(change_config(BASE, training={"pace": 4.0}, probe_examples=23))
    assert (run.control.pace, run.device) == (4.0, torch.device("cpu"))
    counts = np.bincount(run.probed.probe_set.labels)
    assert (counts.sum(), len(run.probed.probe_context().x)) == (23, 23)
    assert counts.max() - counts.min() <= 1
    chosen = run_of(change_config(BASE, probe_set="classes 3,8")).probed.probe_set
    assert set(chosen.labels) == {3, 8}
    run = run_of(change_config(BASE, probe_set="rows 7,3,20"))
    assert sorted(run.probed.probe_set.indices) == [3, 7, 20]
    rows = list(run.probed.probe_set.indices)
    assert torch.equal(run.probed.probe_context().x, run.trainer.data.train_x[rows])
    if not torch.backends.mps.is_available():
        with refused("no-device", value="mps"):
            run_of(change_config(BASE, device="mps"))
