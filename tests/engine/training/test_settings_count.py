"""Every setting of a configuration changes what it is there for, by a value worked out by hand.

A setting without a case fails `test_every_setting_has_a_case`: what is lost on the way from the
configuration to the network would be lost on both sides of any comparison of two runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Conv
from dgn_engine.protocol.events import Event, Measured, RegimeSwapped
from dgn_engine.session.frame_publisher import StepRate
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.run import Run
from tests.engine.slow_table import stream

BASE = RunConfig.from_dict(
    {
        "data": {"train_limit": 50, "test_limit": 20},
        "net": {"options": {"width": 9, "depth": 4}},
        "gating": {"regime": "DL", "beta": 2.0},
        "training": {"batch": 20, "epochs": 2, "learning_rate": 0.01},
        "device": "cpu",
        "probe_examples": 10,
    }
)
CASES: dict[str, Callable[[Path], None]] = {}
NO_SETTING = {"options"}  # of a data set and of a network: declared by their plug-ins


def case(*names: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def keep(check: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES.update(dict.fromkeys(names, check))
        return check

    return keep


def changed(config: RunConfig = BASE, **parts: dict[str, object] | object) -> RunConfig:
    """`changed(net={'bias': True}, seed=3)`."""
    whole = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return replace(config, **whole)


def run_of(config: RunConfig = BASE, events: list[Event] | None = None, **parts: Any) -> Run:
    emit = (lambda _: None) if events is None else events.append
    return Run(1, changed(config, **parts), emit, lambda *_: None, live=False)


def examples_of(**data: object) -> Examples:
    return load_examples(changed(data=data).data)


def parameters(run: Run) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.trainer.network.parameters()]


def value_weights(run: Run) -> list[Tensor]:
    return [weight.detach().clone() for weight in run.trainer.network.value.weights]


def first_gradients(run: Run) -> list[Tensor]:
    """Of the mean loss of the first batch, by autograd, for the value weights."""
    trainer, training = run.trainer, run.config.training
    order = torch.randperm(len(trainer.data.train_y), generator=stream("order", run.config.seed, 0))
    rows = order[: training.batch]
    logits = trainer.network(trainer.data.train_x[rows])
    loss = -torch.log_softmax(logits, 1)[torch.arange(len(rows)), trainer.data.train_y[rows]].mean()
    return list(torch.autograd.grad(loss, list(trainer.network.value.weights)))


def first_move(**training: object) -> tuple[list[Tensor], list[Tensor]]:
    """What the first step adds to the value weights, and the gradients before it."""
    run = run_of(training=training)
    gradients, before = first_gradients(run), value_weights(run)
    run.trainer.step()
    return [a - b for a, b in zip(value_weights(run), before, strict=True)], gradients


def assert_close(ours: list[Tensor], theirs: list[Tensor], atol: float = 1e-6) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=1e-4)


def test_every_setting_has_a_case() -> None:
    known = {
        f"{part}.{name}" if part else name for part, found in SETTINGS.items() for name in found
    }
    missing, gone = known - set(CASES), set(CASES) - known - {"data.options", "net.options"}
    assert not missing, f"Write a case here that works out what {sorted(missing)} changes."
    assert not gone, f"There are cases of settings that are gone: {sorted(gone)}."


# Data


@case("data.name", "data.options")
def _(_: Path) -> None:
    found = examples_of(name="identical", train_limit=0, options=(("dim", 5), ("n", 8)))
    assert found.train_x.shape == (8, 5)
    assert (found.train_x == found.train_x[0]).all()
    assert np.linalg.norm(found.train_x[0]) == pytest.approx(1.0)
    assert examples_of().train_x.shape == (50, 1, 8, 8)


@case("data.root", "data.download")
def _(place: Path) -> None:
    with pytest.raises(UserError, match=str(place / "data")):
        examples_of(name="mnist", root=str(place / "data"))
    (place / "file").write_text("")  # a download would have to be written below a file
    with pytest.raises(UserError, match=str(place / "file")):
        examples_of(name="mnist", root=str(place / "file" / "data"), download=True)


@case("data.binary")
def _(_: Path) -> None:
    whole = examples_of(train_limit=0)
    pair = examples_of(train_limit=0, binary=(7, 3))
    rows = np.isin(whole.train_y, (3, 7))
    assert (pair.train_x == whole.train_x[rows]).all()
    assert (pair.train_y == (whole.train_y[rows] == 3)).all()
    assert pair.signed
    assert pair.class_names == ("7", "3")
    assert run_of(data={"binary": (7, 3)}).architecture.classes == 1
    assert run_of().architecture.classes == 10


@case("data.train_limit", "data.test_limit")
def _(_: Path) -> None:
    found = examples_of(train_limit=30, test_limit=20)
    assert np.bincount(found.train_y).tolist() == [3] * 10
    assert np.bincount(found.test_y).tolist() == [2] * 10
    assert len(examples_of(train_limit=0, test_limit=0).train_y) == 1437
    run = run_of(data={"train_limit": 30, "test_limit": 20})
    assert run.examples == (30, 20)


@case("data.label_noise")
def _(_: Path) -> None:
    true = examples_of(train_limit=1000).train_y
    noisy = examples_of(train_limit=1000, label_noise=0.4).train_y
    assert np.mean(true != noisy) == pytest.approx(0.4 * 0.9, abs=4 * math.sqrt(0.36 * 0.64 / 1000))


@case("data.pixels")
def _(_: Path) -> None:
    true, noise = examples_of(train_limit=500), examples_of(train_limit=500, pixels="random")
    assert noise.train_x.mean() == pytest.approx(true.train_x.mean(), abs=0.01)
    assert noise.train_x.std() == pytest.approx(true.train_x.std(), abs=0.01)
    assert noise.train_x.min() < 0
    assert (noise.test_x == true.test_x).all()


@case("data.variant_seed")
def _(_: Path) -> None:
    first, again, other = (
        examples_of(label_noise=1.0, pixels="random", variant_seed=seed) for seed in (1, 1, 2)
    )
    assert (first.train_x == again.train_x).all()
    assert (first.train_y == again.train_y).all()
    assert not np.isclose(first.train_x, other.train_x).any(axis=(1, 2, 3)).all()
    assert (first.train_y != other.train_y).any()


# Network


@case("net.name")
def _(_: Path) -> None:
    options = (("channels", 3),)
    architecture = run_of(net={"name": "cnn4", "options": options}).architecture
    assert sum(isinstance(node, Conv) for node in architecture.nodes) == 4


@case("net.options")
def _(_: Path) -> None:
    shapes = [tuple(w.shape) for w in value_weights(run_of())]
    assert shapes == [(9, 64), (9, 9), (9, 9), (10, 9)]


@case("net.bias")
def _(_: Path) -> None:
    run = run_of(net={"bias": True})
    assert [b.tolist() for b in run.trainer.network.value.biases] == [
        [0.0] * n for n in (9, 9, 9, 10)
    ]
    before = run.trainer.network.feature.biases[0].detach().clone()
    run.trainer.step()
    assert all(bool((b != 0).any()) for b in run.trainer.network.value.biases)
    assert not torch.equal(before, run.trainer.network.feature.biases[0])
    assert not len(run_of().trainer.network.value.biases)


@case("net.init")
def _(_: Path) -> None:
    wide = (("depth", 3), ("width", 200))
    for init, kurtosis, largest in (
        ("kaiming", 3.0, 6.0),
        ("bernoulli", 1.0, 1.0),
        ("glorot", 1.8, math.sqrt(3.0)),
    ):
        network = run_of(net={"init": init, "options": wide}).trainer.network
        for weight in (network.value.weights[1], network.feature.weights[1]):
            deviation = math.sqrt(2 / 200) if init != "glorot" else math.sqrt(2 / 400)
            scaled = weight.detach() / deviation
            assert float(scaled.mean()) == pytest.approx(0.0, abs=4 / 200)
            assert float(scaled.square().mean()) == pytest.approx(1.0, abs=0.05)
            assert float((scaled**4).mean()) == pytest.approx(kurtosis, abs=0.25)
            assert float(scaled.abs().max()) < largest + 1e-5


@case("net.sigma")
def _(_: Path) -> None:
    run = run_of(net={"init": "bernoulli", "sigma": 0.3})
    for weight in (*value_weights(run), *run.trainer.network.feature.weights):
        assert set((weight.detach() / 0.3).round(decimals=5).flatten().tolist()) == {-1.0, 1.0}


# Gates


@case("gating.regime")
def _(_: Path) -> None:
    own, other = run_of(gating={"regime": "ReLU"}), run_of(gating={"regime": "FR-II"})
    assert (own.trainer.regime.name, other.trainer.regime.name) == ("ReLU", "FR-II")
    x = own.context().x
    hidden = (own.trainer.network.value.weights[0] @ x.T).T
    assert torch.equal(own.context().gates[0], (hidden > 0).float())
    hidden = (other.trainer.network.feature.weights[0] @ x.T).T
    assert torch.equal(other.context().gates[0], (hidden > 0).float())


@case("gating.beta", "gating.epsilon")
def _(_: Path) -> None:
    for regime, part in (("DL", "feature"), ("soft-ReLU", "value")):
        run = run_of(gating={"regime": regime, "beta": 3.0, "epsilon": 0.2})
        x, network = run.context().x.double(), run.trainer.network
        q = x @ getattr(network, part).weights[0].double().T
        by_hand = 1.2 / (1.0 + torch.exp(-3.0 * q))
        torch.testing.assert_close(run.context().gates[0].double(), by_hand, atol=1e-6, rtol=1e-5)
    run.set_beta(1.0)  # ε stays
    torch.testing.assert_close(
        run.context().gates[0].double(), 1.2 / (1.0 + torch.exp(-q)), atol=1e-6, rtol=1e-5
    )


@case("gating.value_input")
def _(_: Path) -> None:
    run = run_of(gating={"value_input": "ones"})
    x, network = run.context().x, run.trainer.network
    sums = network.value.weights[0].sum(dim=1)
    torch.testing.assert_close(network.trace(x).value.pre[0], sums.expand(len(x), -1))
    run = run_of(gating={"value_input": "random"})
    fixed = torch.rand(64, generator=stream("input", 0))
    product = run.trainer.network.value.weights[0] @ fixed
    torch.testing.assert_close(
        run.trainer.network.trace(x).value.pre[0], product.expand(len(x), -1)
    )


@case("gating.wiring", "gating.rotation")
def _(_: Path) -> None:
    run = run_of(gating={"wiring": (2, 0, 1), "rotation": (0, 4, -1)})
    trace = run.trainer.network.trace(run.context().x)
    made = [torch.sigmoid(2.0 * q) for q in trace.feature.pre]
    units = torch.arange(9)
    for layer, (source, turn) in enumerate(((2, 0), (0, 4), (1, -1))):
        torch.testing.assert_close(trace.value.gates[layer], made[source][:, (units - turn) % 9])


@case("gating.shift")
def _(_: Path) -> None:
    maps = {"name": "cnn4", "options": (("channels", 3),)}
    run = run_of(net=maps, gating={"shift": (0, 1, 2, 0)})
    trace = run.trainer.network.trace(run.context().x)
    made, used = torch.sigmoid(2.0 * trace.feature.pre[2]), trace.value.gates[2]
    side = made.shape[2]
    for row in range(side):
        for column in range(side):
            there = made[:, :, (row - 2) % side, (column - 2) % side]
            torch.testing.assert_close(used[:, :, row, column], there)


@case("gating.tiling")
def _(_: Path) -> None:
    run = run_of(gating={"tiling": (1, 3, 2), "rotation": (0, 2, 0)})
    trace = run.trainer.network.trace(run.context().x)
    made = torch.sigmoid(2.0 * trace.feature.pre[1])
    turned = made[:, [(unit - 2) % 9 for unit in range(9)]]
    torch.testing.assert_close(trace.value.gates[1], torch.cat([turned] * 3, dim=1))
    assert [tuple(w.shape) for w in value_weights(run)] == [(9, 64), (27, 9), (18, 27), (10, 18)]


@case("gating.gate_probability")
def _(_: Path) -> None:
    run = run_of(gating={"regime": "FRG", "gate_probability": 0.2}, data={"train_limit": 500})
    rows = torch.arange(500)
    gates = run.trainer.network_at(rows).trace(run.trainer.data.train_x).value.gates
    for gate in gates:
        assert float(gate.mean()) == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / 4500))
        shares = gate.mean(dim=0)  # a coin for each example and unit, not one for all examples
        assert float(shares.max()) < 0.35


@case("gating.gates_from", "training.weights_from")
def _(place: Path) -> None:
    shapes = [(9, 64), (9, 9), (9, 9), (10, 9)]
    tensors = {f"{i}.weight": torch.randn(shape) for i, shape in enumerate(shapes)}
    save_file(tensors, place / "taken.safetensors")
    path = str(place / "taken.safetensors")
    network = run_of(gating={"regime": "FL", "gates_from": path}).trainer.network
    assert all(map(torch.equal, network.feature.weights, tensors.values()))
    assert not torch.equal(network.value.weights[0], tensors["0.weight"])
    network = run_of(training={"weights_from": path}).trainer.network
    assert all(map(torch.equal, network.value.weights, tensors.values()))
    assert not torch.equal(network.feature.weights[0], tensors["0.weight"])


@case("gating.pretrain_epochs")
def _(_: Path) -> None:
    for epochs, before in ((1, 3), (3, 9), (0, 6)):  # 0: as many as epochs
        events: list[Event] = []
        run = run_of(events=events, gating={"regime": "FL", "pretrain_epochs": epochs})
        while not run.finished:
            run.step()
        (swap,) = [event for event in events if isinstance(event, RegimeSwapped)]
        assert (swap.step, run.step_count) == (before, before + 6)


# Training


@case("training.loss")
def _(_: Path) -> None:
    for loss in ("cross-entropy", "squared"):
        run = run_of(training={"loss": loss, "batch": 50})
        logits = run.trainer.network(run.trainer.data.train_x).detach().double().numpy()
        labels = run.trainer.data.train_y.numpy()
        run.trainer.step()
        if loss == "squared":
            targets = 2.0 * np.eye(10)[labels] - 1.0
            by_hand = (0.5 * (logits - targets) ** 2).sum(axis=1).mean()
        else:
            shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            by_hand = -np.log(shares[np.arange(50), labels]).mean()
        score = run.trainer.train_score()
        assert score.loss == pytest.approx(by_hand, rel=1e-5)
        assert score.accuracy == np.mean(logits.argmax(axis=1) == labels)


@case("training.optimiser", "training.learning_rate")
def _(_: Path) -> None:
    for rate in (0.01, 0.03):
        moves, gradients = first_move(optimiser="adam", learning_rate=rate)
        assert_close(moves, [-rate * g / (g.abs() + 1e-8) for g in gradients])
        moves, gradients = first_move(optimiser="sgd", learning_rate=rate)
        assert_close(moves, [-rate * g for g in gradients])
        moves, gradients = first_move(optimiser="rmsprop", learning_rate=rate)
        assert_close(moves, [-rate * g / ((0.01 * g**2).sqrt() + 1e-8) for g in gradients])


@case("training.momentum")
def _(_: Path) -> None:
    run = run_of(training={"optimiser": "sgd", "momentum": 0.7, "batch": 50})
    start, first = value_weights(run), first_gradients(run)
    run.trainer.step()
    second = first_gradients(run)  # the batch is the whole set
    run.trainer.step()
    by_hand = [w - 0.01 * (1.7 * a + b) for w, a, b in zip(start, first, second, strict=True)]
    assert_close(value_weights(run), by_hand)


@case("training.batch")
def _(_: Path) -> None:
    run = run_of(training={"batch": 15})
    assert run.trainer.steps_per_epoch == 4  # 15, 15, 15, 5
    seen = []
    for _step in range(4):
        before = run.trainer.counters()["train_seen"]
        run.trainer.step()
        seen.append(run.trainer.counters()["train_seen"] - before)
    assert seen == [15, 15, 15, 5]


@case("training.epochs")
def _(_: Path) -> None:
    assert [run_of(training={"epochs": n}).total_steps for n in (0, 1, 5)] == [0, 3, 15]
    endless = run_of(training={"epochs": 0})
    for _step in range(7):
        endless.step()
    assert not endless.finished


@case("training.augmentation")
def _(_: Path) -> None:
    maps = {"name": "cnn4", "options": (("channels", 3),)}
    run = run_of(net=maps, training={"augmentation": "davidnet", "batch": 50})
    trainer = run.trainer
    order = torch.randperm(50, generator=stream("order", 0, 0))
    shown = trainer._augmentation.show(trainer.data.train_x[order], order, 0)
    assert not torch.equal(shown, trainer.data.train_x[order])
    labels = trainer.data.train_y[order]
    logits = trainer.network(shown).detach()
    by_hand = -torch.log_softmax(logits, 1)[torch.arange(50), labels].mean()
    trainer.step()
    assert trainer.train_score().loss == pytest.approx(float(by_hand), rel=1e-5)


@case("training.keep_epochs", "training.keep_best")
def _(place: Path) -> None:
    config = changed(training={"epochs": 3, "keep_epochs": (0, 2), "keep_best": True})
    watcher: Any = type("Nobody", (), {"stepped": lambda *_: 0, "on_event": lambda *_: 0})()
    folder = RunFolder.create(place / "run", config)
    HeadlessRun(watcher, lambda: False).train(config, folder)
    kept = {path.name: load_file(path) for path in (place / "run").rglob("*epoch-*.safetensors")}
    assert set(kept) == {"epoch-0000.safetensors", "epoch-0002.safetensors"}
    events: list[Event] = []
    run, best = run_of(config, events), {}
    for step in range(9):
        if step in (0, 6):
            expected = run.trainer.network.value.weights[1]
            assert torch.equal(
                kept[f"epoch-{step // 3:04}.safetensors"]["value.weights.1"], expected
            )
        run.step()
        last = events[-1] if step % 3 == 2 else None  # the end of an epoch
        if isinstance(last, Measured) and last.test_accuracy is not None:
            best.setdefault(last.test_accuracy, value_weights(run)[1])
    (path,) = (place / "run").rglob("best.safetensors")
    assert torch.equal(load_file(path)["value.weights.1"], best[max(best)])


@case("training.until")
def _(_: Path) -> None:
    run = run_of(training={"epochs": 60, "until": 0.6, "learning_rate": 0.02})
    data, right, epochs = run.trainer.data, 0, []
    while not run.finished:
        epoch, batch = divmod(run.step_count, 3)
        order = torch.randperm(50, generator=stream("order", 0, epoch))
        rows = order[20 * batch : 20 * (batch + 1)]
        guessed = run.trainer.network(data.train_x[rows]).argmax(dim=1)
        right += int((guessed == data.train_y[rows]).sum())
        run.step()
        if batch == 2:
            epochs.append(right / 50)
            right = 0
    assert 1 < len(epochs) < 60
    assert max(epochs[:-1]) < 0.6 <= epochs[-1]


def epochs_until_flat(accuracies: list[float], patience: int) -> int:
    """After how many epochs the best accuracy has risen by less than half a point for so many."""
    best = [max(accuracies[: end + 1]) for end in range(len(accuracies))]
    return next(
        end + 1 for end in range(patience, len(best)) if best[end] - best[end - patience] < 0.005
    )


@case("training.patience")
def _(_: Path) -> None:
    base = {"epochs": 60, "learning_rate": 0.02}
    curve, run = [], run_of(training=base)
    while not run.finished:
        run.step()
        if run.step_count % 3 == 0:
            curve.append(run.evaluation.epoch_accuracy)
    for patience in (1, 2, 5):
        run = run_of(training=base | {"patience": patience})
        while not run.finished:
            run.step()
        assert run.step_count == 3 * epochs_until_flat(curve, patience)
    assert epochs_until_flat(curve, 1) < epochs_until_flat(curve, 5) < 60


@case("training.pace")
def _(_: Path) -> None:
    assert run_of(training={"pace": 4.0}).pace == 4.0
    rate = StepRate()
    rate.tick(4.0)
    assert 0.0 < rate.wait() <= 0.25
    rate.tick(0.0)
    assert rate.wait() == 0.0


# The run


@case("seed")
def _(_: Path) -> None:
    for seed in (0, 5):
        run = run_of(seed=seed)
        drawn = torch.randn((9, 64), generator=stream("weights", seed, 0)) * math.sqrt(2 / 64)
        assert torch.equal(run.trainer.network.value.weights[0], drawn)
        drawn = torch.randn((9, 64), generator=stream("weights", seed, 1)) * math.sqrt(2 / 64)
        assert torch.equal(run.trainer.network.feature.weights[0], drawn)


@case("device")
def _(_: Path) -> None:
    assert run_of(device="cpu").device == torch.device("cpu")
    if not torch.backends.mps.is_available():
        with pytest.raises(UserError, match="'mps'"):
            run_of(device="mps")


@case("probe_examples")
def _(_: Path) -> None:
    for examples in (10, 23):
        run = run_of(probe_examples=examples)
        assert len(run.probe_set.indices) == len(run.context().x) == examples
        assert max(np.bincount(run.probe_set.labels)) - min(np.bincount(run.probe_set.labels)) <= 1


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_setting_changes_what_it_is_for(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
