"""A loop of somebody else is watched: what is recorded is right, and the loop stays as it was."""

from __future__ import annotations

import random
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dgn_engine as dgn
from dgn_engine import kernels as k
from dgn_engine.attachment import watcher as watcher_module
from dgn_engine.attachment.tangent_alone import LIMIT, next_count
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Failed
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import continue_run
from tests.engine.attachment.loops import examples, mlp, smooth, train


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, notes and frames do not wait for the clock."""
    for name in ("LOOK_EVERY", "NOTE_EVERY", "FRAME_EVERY"):
        monkeypatch.setattr(watcher_module, name, 0.0)


def generators() -> list[object]:
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state(legacy=False)),
    ]


def test_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    alone = mlp()
    calls: list[int] = []
    torch.manual_seed(1)
    weights = train(alone, 12)
    after, gradients = generators(), [p.grad for p in alone.parameters()]

    watched = mlp()
    watched.register_forward_hook(lambda *_: calls.append(1))
    for p in watched.parameters():
        p.register_hook(lambda gradient: calls.append(2))
    torch.manual_seed(1)
    with dgn.watch(watched, probe=examples(), out=tmp_path / "run") as w:
        same = train(watched, 12, lambda loss: w.step(loss=loss))
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))
    assert generators() == after
    for p, gradient in zip(watched.parameters(), gradients, strict=True):
        assert p.grad is not None
        assert gradient is not None
        assert torch.equal(p.grad, gradient)
    assert watched.training
    assert all(part.training for part in watched.modules())
    assert calls.count(1) == 12  # only the loop's own passes
    assert calls.count(2) == 12 * 4


def test_what_is_recorded_is_that_of_the_module(tmp_path: Path) -> None:
    model, (x, y) = mlp(), examples()
    with dgn.watch(model, probe=(x.numpy(), y.tolist()), out=tmp_path / "run") as w:
        losses: list[float] = []
        train(model, 5, lambda loss: (losses.append(loss.item()), w.step(loss, accuracy=0.5)))
        w.test(loss=1.5, accuracy=0.25)
    reader = RunReader(tmp_path / "run")
    frame = reader.frame(5)
    order = torch.argsort(y, stable=True)
    network = k.adapt(model.double().eval(), input_shape=(6,))
    twin = k.SharedKernels(network, x[order].double())
    gates = frame.readings["gates"].arrays
    assert gates["layer_0"].tolist() == twin.gates[0].int().tolist()
    ntk = torch.tensor(frame.readings["ntk"].arrays["value"]).double()
    assert torch.allclose(ntk, k.empirical_ntk(model, x[order].double()), rtol=1e-4)
    assert {"overlap", "npk"} <= set(frame.readings)
    started = reader.started
    assert started is not None
    assert started.probe_set.indices == tuple(order.tolist())
    assert started.watched.startswith("Sequential of ")
    assert reader.outcome == "finished"
    scores = reader.measured
    assert scores[-1].step == 5
    assert scores[-1].test_accuracy == 0.25
    assert [one.train_loss for one in scores[:-1]] == pytest.approx(losses)


def test_a_run_of_another_program_does_not_go_on_here(tmp_path: Path) -> None:
    with dgn.watch(mlp(), probe=examples(), out=tmp_path / "run") as w:
        w.step()
    folder = RunFolder(tmp_path / "run")
    try:
        with pytest.raises(UserError, match=r"trained by another program \(Sequential of"):
            continue_run(folder, 1, lambda _: None, lambda *_: None, live=False)
    finally:
        folder.close()


def test_a_module_without_gates_gives_its_tangent_kernel(tmp_path: Path) -> None:
    model, (x, y) = smooth(), examples()
    with (
        pytest.warns(RuntimeWarning, match="no gates and no path kernels"),
        dgn.watch(model, probe=(x, y), out=tmp_path / "run") as w,
    ):
        train(model, 4, w.step)
    frame = RunReader(tmp_path / "run").latest_frame(10)
    assert frame is not None
    assert "GELU" in frame.readings["npk"].absent
    found = frame.readings["ntk"].arrays["value"]
    rows = torch.linspace(0, len(x) - 1, len(found)).round().long()
    kept = x[torch.argsort(y, stable=True)][rows]
    assert frame.step == 4
    assert np.allclose(found, k.empirical_ntk(model, kept).numpy(), rtol=1e-4)


def test_examples_of_k_alone_follow_the_time_that_it_takes() -> None:
    assert next_count(4, 0.01, 64) == 8
    assert next_count(32, 0.01, 33) == 33
    assert next_count(8, LIMIT / 2, 64) == 8
    assert next_count(8, 2 * LIMIT, 64) == 4


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a fault of ours")


@pytest.mark.parametrize("as_error", [False, True])
def test_a_fault_of_ours_ends_the_watching_and_not_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_error: bool, capsys: Any
) -> None:
    model = mlp()
    with warnings.catch_warnings(record=not as_error) as said:
        warnings.simplefilter("error" if as_error else "always")
        with dgn.watch(model, probe=examples(), out=tmp_path / "run") as w:
            monkeypatch.setattr(w, "_tick", broken)
            train(model, 5, w.step)
    words = capsys.readouterr().err if as_error else str(said[0].message if said else "")
    assert words.count("Watching stopped at step 1: a fault of ours.") == 1
    assert w.steps == 5
    assert not w.active
    reader = RunReader(tmp_path / "run")
    assert reader.status == "failed"
    failed = [one for one in reader.events if isinstance(one, Failed)]
    assert failed[0].what == w.trouble
    assert "ZeroDivisionError" in failed[0].traceback


def test_a_fault_at_the_beginning_is_a_warning_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "WatchedModule", broken)
    w = dgn.watch(mlp(), probe=examples(), out=tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="stopped at step 0: a fault of ours"):
        w.start()
    w.step(1.0)
    w.test(1.0)
    w.close()
    assert not (tmp_path / "run").exists()


def ended_by(error: BaseException, out: Path) -> None:
    with dgn.watch(mlp(), probe=examples(), out=out) as w:
        w.step(0.5)
        raise error


def test_an_exception_of_the_loop_is_its_own_and_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="theirs"):
        ended_by(KeyError("theirs"), tmp_path / "run")
    reader = RunReader(tmp_path / "run")
    assert reader.status == "failed"
    assert any("The training script stopped: KeyError" in str(one) for one in reader.events)


def test_ctrl_c_leaves_a_run_that_was_stopped(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ended_by(KeyboardInterrupt(), tmp_path / "run")
    assert RunReader(tmp_path / "run").status == "stopped"


def test_layers_that_change_end_the_watching(tmp_path: Path) -> None:
    model = mlp()
    with dgn.watch(model, probe=examples(), out=tmp_path / "run") as w:
        w.step()
        model.append(nn.Linear(3, 3))
        with pytest.warns(RuntimeWarning, match="other parameters"):
            w.close()
    assert "other parameters" in w.trouble


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"probe": 3}, "a pair|probe is no pair"),
        ({"probe": (torch.zeros(4, 6), torch.zeros(3))}, r"shape \(4, 6\) and labels"),
        ({"probe": (torch.zeros(4, 6), torch.zeros(4))}, "whole numbers"),
        ({"probe": (torch.zeros(1, 6), torch.zeros(1, dtype=torch.long))}, "2 to 4,096"),
        ({"probe": (torch.zeros(4, 7), torch.zeros(4, dtype=torch.long))}, "does not take probe"),
        ({"module": 1}, "a module is needed"),
        ({"module": nn.Flatten()}, "no parameters"),
        ({"module": nn.Unflatten(1, (2, 3))}, "no parameters"),
        ({"module": nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (2, 3)))}, "logits of shape"),
        ({"probes": ("gate",)}, "Did you mean 'gates'"),
        ({"probes": "gates"}, "There is no probe|names what is read"),
        ({"share": 2.0}, "share is 2"),
        ({"steps_per_epoch": -1}, "0 or more"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_training(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    given = {"module": mlp(), "probe": examples(), "out": tmp_path / "run"} | changed
    with pytest.raises(UserError, match=said):
        dgn.watch(**given).start()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty; choose another folder: out="):
        dgn.watch(mlp(), probe=examples(), out=tmp_path).start()


def test_half_precision_and_frozen_parts_are_followed(tmp_path: Path) -> None:
    model = mlp().bfloat16()
    x, y = examples()
    with dgn.watch(model, probe=(x, y), out=tmp_path / "run") as w, torch.no_grad():
        model[0].weight.add_(1.0)
        model[0].requires_grad_(False)
        w.step()
    frame = RunReader(tmp_path / "run").frame(1)
    twin = k.adapt(mlp_of(model), input_shape=(6,))
    ordered = x[torch.argsort(y, stable=True)]
    ntk = k.SharedKernels(twin, ordered.double()).tangent.whole
    found = torch.tensor(frame.readings["ntk"].arrays["value"]).double()
    assert torch.allclose(found, ntk, rtol=1e-4)


def mlp_of(model: nn.Sequential) -> nn.Module:
    again = mlp().double().eval()
    again.load_state_dict({n: t.double() for n, t in model.state_dict().items()})
    again[0].requires_grad_(False)
    return again


# Stand-ins for the packages, with the names and arguments of their protocols.


class StandInTrainer:
    """What a callback of Lightning sees of its trainer, and the order in which it is called."""

    is_global_zero, sanity_checking = True, False

    def __init__(self, callback: Any) -> None:
        self.callback, self.global_step = callback, 0
        self.callback_metrics: dict[str, Any] = {}

    def fit(self, module: Any, steps: int, accumulate: int) -> None:
        self.callback.setup(self, module, "fit")
        module._trainer = self
        self.callback.on_train_start(self, module)
        for batch in range(steps * accumulate):
            self.global_step += (batch + 1) % accumulate == 0
            loss = torch.tensor(float(batch), requires_grad=True)
            self.callback.on_train_batch_end(self, module, {"loss": loss}, None, batch)
        self.callback_metrics = {"val_loss": torch.tensor(0.5), "val_acc": torch.tensor(0.75)}
        self.callback.on_validation_end(self, module)
        self.callback.on_train_end(self, module)

    def __deepcopy__(self, memo: object) -> None:
        raise AssertionError("the trainer must not be copied")


def test_the_callback_for_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = type("Callback", (), {"setup": lambda self, trainer, module, stage: None})
    package = types.SimpleNamespace(Callback=base)
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", package)
    callback = dgn.lightning_callback(probe=examples(), out=tmp_path / "run")
    assert isinstance(callback, base)
    StandInTrainer(callback).fit(mlp(), steps=3, accumulate=2)
    reader = RunReader(tmp_path / "run")
    assert reader.status == "finished"
    assert reader.step == 3
    assert reader.measured[-1].test_accuracy == 0.75
    assert {0, 3} <= {frame.step for frame in reader.frames}


class Answer(types.SimpleNamespace):
    """What a model of Hugging Face returns."""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, x: torch.Tensor) -> Answer:
        return Answer(logits=self.body(x))


def test_the_callback_for_the_hugging_face_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = types.SimpleNamespace(TrainerCallback=type("TrainerCallback", (), {}))
    monkeypatch.setitem(sys.modules, "transformers", package)
    callback = dgn.hugging_face_callback(probe=examples(), out=tmp_path / "run", share=0.5)
    state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
    arguments = (object(), state, object())
    callback.on_train_begin(*arguments, model=Model(), optimizer=None)
    for step in range(1, 4):
        state.global_step = step
        callback.on_step_end(*arguments, model=None)
    callback.on_log(*arguments, logs={"loss": 0.25, "epoch": 1.0})
    callback.on_evaluate(*arguments, metrics={"eval_loss": 0.5})
    callback.on_train_end(*arguments)
    reader = RunReader(tmp_path / "run")
    assert reader.step == 3
    assert reader.measured[0].train_loss == 0.25
    assert reader.measured[-1].test_loss == 0.5
    assert reader.frame(3).readings["npk"].arrays


def test_a_callback_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="pip install lightning"):
        dgn.lightning_callback(probe=examples(), out=tmp_path / "run")
    with pytest.raises(UserError, match="pip install transformers"):
        dgn.hugging_face_callback(probe=examples(), out=tmp_path / "run")


def test_names_that_are_not_public_are_no_attributes() -> None:
    assert "watch" in dir(dgn)
    with pytest.raises(AttributeError, match="no attribute 'wacht'"):
        _ = dgn.wacht  # type: ignore[attr-defined]
