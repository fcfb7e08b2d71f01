"""What each setting of the training and of the run changes, worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured
from dgn_engine.session.frame_publisher import StepRate
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.headless_run import HeadlessRun
from tests.engine.slow_table import stream
from tests.engine.training.setting_cases import (
    assert_close,
    case,
    changed,
    first_gradients,
    first_move,
    run_of,
    value_weights,
)

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


@case("training.smoothing")
def _(_: Path) -> None:
    moves, gradients = first_move(optimiser="rmsprop", learning_rate=0.01, smoothing=0.75)
    assert_close(moves, [-0.01 * g / ((0.25 * g**2).sqrt() + 1e-8) for g in gradients])


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
    shown = trainer.batches.augmentation.show(trainer.data.train_x[order], order, 0)
    assert not torch.equal(shown, trainer.data.train_x[order])
    labels = trainer.data.train_y[order]
    logits = trainer.network(shown).detach()
    by_hand = -torch.log_softmax(logits, 1)[torch.arange(50), labels].mean()
    trainer.step()
    assert trainer.train_score().loss == pytest.approx(float(by_hand), rel=1e-5)


@case("training.precision")
def _(_: Path) -> None:
    losses = []
    for precision, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        training = {"precision": precision, "batch": 50}
        run = run_of(gating={"regime": "ReLU"}, training=training)
        z, labels = run.trainer.data.train_x.to(dtype), run.trainer.data.train_y
        *hidden, last = (weight.to(dtype) for weight in value_weights(run))
        for weight in hidden:
            z = torch.relu(z @ weight.t())
        logits = (z @ last.t()).float()
        by_hand = -torch.log_softmax(logits, 1)[torch.arange(50), labels].mean()
        run.trainer.step()
        losses.append(run.trainer.train_score().loss)
        assert losses[-1] == pytest.approx(float(by_hand), rel=1e-5)
        assert {weight.dtype for weight in run.trainer.network.parameters()} == {torch.float32}
    assert losses[0] != losses[1]
    run = run_of(training={"precision": "tf32"})  # a mode of cards
    (ignored,) = run.ignored(live=False, recorded=True)
    assert ignored.sentence == (
        "training.precision has no effect: only CUDA cards multiply in TF32, and this is cpu."
    )


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
    assert run_of(training={"pace": 4.0}).control.pace == 4.0
    rate = StepRate()
    rate.tick(4.0, 0.0)
    assert 0.0 < rate.wait() <= 0.25
    rate.tick(0.0, 0.0)
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
        assert len(run.probed.probe_set.indices) == len(run.probed.context().x) == examples
        assert (
            max(np.bincount(run.probed.probe_set.labels))
            - min(np.bincount(run.probed.probe_set.labels))
            <= 1
        )


@case("probe_set")
def _(_: Path) -> None:
    run = run_of(probe_set="classes 3,8")
    assert set(run.probed.probe_set.labels) == {3, 8}
    assert len(run.probed.probe_set.indices) == 10
    rows = (7, 3, 20)
    labels = run.probed.train_labels
    run = run_of(probe_set="rows 7,3,20")
    assert sorted(run.probed.probe_set.indices) == sorted(rows)
    assert run.probed.probe_set.labels == tuple(sorted(int(labels[row]) for row in rows))
    shape = run.trainer.data.train_x.shape[1:]
    assert torch.equal(
        run.probed.context().x,
        torch.from_numpy(
            run.probed.training_images(np.array(run.probed.probe_set.indices))
        ).reshape(-1, *shape),
    )
