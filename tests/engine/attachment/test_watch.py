"""A loop of somebody else is watched: what is recorded is right, the loop stays as it was, and what
is given wrongly is refused or said."""

from __future__ import annotations

import math
import random
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dgn_engine as dgn
from dgn_engine import kernels as k
from dgn_engine.attachment.given_scores import GivenScores
from dgn_engine.attachment.tangent_alone import LIMIT, next_count
from dgn_engine.attachment.watcher import Watcher, WatchPace
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Failed
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import continue_run
from tests.engine.attachment.loops import (
    AT_EVERY_STEP,
    HuggingFaceTrainer,
    LightningTrainer,
    assert_kernel,
    examples,
    last_reading,
    mlp,
    normalised,
    smooth,
    stand_in_packages,
    train,
    watch_closely,
)
from tests.refusals import refused

SELDOM = WatchPace(look=1e9, note=math.inf, pass_on=math.inf)


def generators() -> list[object]:
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state(legacy=False)),
    ]


def test_gradients_modes_and_generators_are_those_of_the_loop_alone(tmp_path: Path) -> None:
    alone, watched = mlp(), mlp()
    torch.manual_seed(1)
    weights = train(alone, 12)
    after = generators()
    torch.manual_seed(1)
    with watch_closely(watched, tmp_path / "run") as w:
        same = train(watched, 12, lambda loss: w.step(loss=loss))
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))
    assert generators() == after
    for p, other in zip(watched.parameters(), alone.parameters(), strict=True):
        assert p.grad is not None
        assert other.grad is not None
        assert torch.equal(p.grad, other.grad)
    assert all(part.training for part in watched.modules())


def test_what_is_recorded_is_that_of_the_module(tmp_path: Path) -> None:
    model, (x, y) = mlp(), examples()
    given = (x.numpy(), y.tolist())
    with watch_closely(model, tmp_path / "run", probe=given) as w:
        losses: list[float] = []
        train(model, 5, lambda loss: (losses.append(loss.item()), w.step(loss, accuracy=0.5)))
        w.test(loss=1.5, accuracy=0.25)
    reader = RunReader(tmp_path / "run")
    frame = reader.frame_of_step(5)
    order = torch.argsort(y, stable=True)
    network = k.adapt(model.double().eval(), input_shape=(6,))
    twin = k.SharedKernels(network, x[order].double())
    gates = frame.readings["gates"].arrays
    assert gates["layer_0"].tolist() == twin.gates[0].int().tolist()
    ntk = torch.tensor(frame.readings["ntk"].arrays["value"]).double()
    assert torch.allclose(ntk, k.empirical_ntk(model, x[order].double()), rtol=1e-4)
    assert {"overlap", "npk"} <= set(frame.readings)
    started = reader.start_event
    assert started is not None
    assert started.probe_set.indices == tuple(order.tolist())
    assert started.watched.startswith("Sequential of ")
    assert reader.outcome == "finished"
    scores = reader.measured_events
    assert scores[-1].step == 5
    assert scores[-1].test_accuracy == 0.25
    assert [one.train_loss for one in scores[:-1]] == pytest.approx(losses)


@pytest.mark.parametrize("stop", [None, KeyError("theirs"), KeyboardInterrupt()])
def test_scores_of_the_last_steps_are_recorded_however_a_loop_ends(
    stop: BaseException | None, tmp_path: Path
) -> None:
    """None of them was noted before: the loop was quicker than the clock of points."""
    w = Watcher(mlp(), examples(), tmp_path / "run", pace=SELDOM).start()
    for loss in (1.0, 2.0, 6.0):
        w.step(loss=loss, accuracy=loss / 8)
    w.close(stop)
    (last,) = RunReader(tmp_path / "run").measured_events
    assert (last.step, last.train_loss, last.train_accuracy) == (3, 3.0, 0.375)


def spread(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Examples whose statistics are far from those of a new BatchNorm, sorted by class."""
    x, y = examples()
    return 3.0 * x + 2.0, y.sort().values


@pytest.mark.parametrize("act", [nn.ReLU, nn.GELU])
def test_a_batchnorm_is_read_with_the_statistics_of_each_step(
    act: type[nn.Module], tmp_path: Path
) -> None:
    model = normalised(act)
    x, y = spread(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    wanted: list[Tensor] = []
    with (
        warnings.catch_warnings(),
        watch_closely(model, tmp_path / "run", probe=(x, y), share=0.9) as w,
    ):
        warnings.simplefilter("ignore")
        for _ in range(4):
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            wanted.append((model.eval()[1](model[0](x)) > 0).int())
            model.train()
            w.step()
    assert w.trouble == ""
    assert_kernel(last_reading(tmp_path / "run", 4), model, x)
    if act is nn.ReLU:
        reader = RunReader(tmp_path / "run")
        steps = [frame.step for frame in reader.frames if frame.step]
        assert steps
        for step in steps:
            found = reader.frame_of_step(step).readings["gates"]
            gates = wanted[found.step - 1].tolist()
            assert found.arrays["layer_0"].tolist() == gates
    assert int(model.get_buffer("1.num_batches_tracked")) == 4  # of the loop's own passes


def test_a_loop_that_goes_on_is_watched_a_second_time_as_it_is_by_then(tmp_path: Path) -> None:
    model = normalised()
    x, y = spread(model)
    for part in ("first", "second"):
        with watch_closely(model, tmp_path / part, probe=(x, y)) as w:
            assert w.steps == 0
            train(model, 3, w.step)
        w.close()  # once more
        w.step(loss=9.0)  # nobody hears it
        assert_kernel(last_reading(tmp_path / part, 3), model, x)
    first, second = (RunReader(tmp_path / part) for part in ("first", "second"))
    ends, begins = (
        first.frame_of_step(3).readings["gates"],
        second.frame_of_step(0).readings["gates"],
    )
    assert np.array_equal(ends.arrays["layer_0"], begins.arrays["layer_0"])
    assert [len(one.measured_events) for one in (first, second)] == [3, 3]
    assert {one.status for one in (first, second)} == {"finished"}


def test_a_watcher_is_not_begun_a_second_time_in_its_folder(tmp_path: Path) -> None:
    w = watch_closely(mlp(), tmp_path / "run")
    with w:
        w.step(loss=1.0)
    with pytest.raises(UserError):
        w.start()
    assert RunReader(tmp_path / "run").status == "finished"


def test_two_modules_are_watched_at_the_same_time(tmp_path: Path) -> None:
    ours, theirs = mlp(), normalised()
    with (
        watch_closely(ours, tmp_path / "a") as a,
        watch_closely(theirs, tmp_path / "b", probes=("gates",)) as b,
    ):
        for step in range(3):
            a.step(loss=1.0 + step)
            b.step(loss=11.0 + step)
    for name, first in (("a", 1.0), ("b", 11.0)):
        losses = [one.train_loss for one in RunReader(tmp_path / name).measured_events]
        assert losses == [first, first + 1, first + 2]


def test_a_run_of_another_program_does_not_go_on_here(tmp_path: Path) -> None:
    with dgn.watch(mlp(), probe=examples(), out=tmp_path / "run") as w:
        w.step()
    folder = RunFolder(tmp_path / "run")
    try:
        with refused("other-program") as refusal:
            continue_run(folder, 1, lambda _: None, lambda *_: None, live=False)
        assert "Sequential of" in str(refusal.error.value)
    finally:
        folder.close()


def test_labels_beyond_the_outputs_of_a_module_are_classes_too(tmp_path: Path) -> None:
    """Of three outputs: the targets of H are ±1 for each of the five classes."""
    model, x = mlp(), examples()[0]
    y = torch.arange(len(x)) % 5
    with watch_closely(model, tmp_path / "run", probe=(x, y)) as w:
        train(model, 1, w.step)
    reading = last_reading(tmp_path / "run", 1, "npk")
    ordered = torch.argsort(y, stable=True)
    twin = k.SharedKernels(k.adapt(model.double().eval(), (6,)), x[ordered].double())
    expected = k.spectrum(twin.npk("trace"), k.class_targets(y[ordered], 5))
    assert reading.scalars["nu"] == pytest.approx(expected.nu, rel=1e-3)
    assert reading.scalars["outside"] == pytest.approx(expected.outside, rel=1e-3, abs=1e-6)


def test_a_module_without_gates_gives_its_tangent_kernel(tmp_path: Path) -> None:
    model, (x, y) = smooth(), examples()
    with (
        pytest.warns(RuntimeWarning, match="GELU"),
        watch_closely(model, tmp_path / "run") as w,
    ):
        train(model, 4, w.step)
    assert "GELU" in last_reading(tmp_path / "run", 4, "npk").absent
    ordered = x[torch.argsort(y, stable=True)]
    assert_kernel(last_reading(tmp_path / "run", 4), model, ordered)


def test_kernels_of_a_module_are_aligned_with_its_classes(tmp_path: Path) -> None:
    """With gates K and H; without, K alone, whether or not K itself is watched."""
    (x, y), ordered = examples(), torch.argsort(examples()[1], stable=True)
    targets = k.class_targets(y[ordered], int(y.max()) + 1)
    model = mlp()
    with watch_closely(model, tmp_path / "gates", probe=(x, y), probes=("alignment",)) as w:
        train(model, 3, w.step)
    found = last_reading(tmp_path / "gates", 3, "alignment")
    assert found.scalars["norm_value"] != 1.0
    twin = k.SharedKernels(k.adapt(model.double().eval(), (6,)), x[ordered].double())
    for name, kernel in (("value", twin.tangent.value), ("npk", twin.npk())):
        assert kernel is not None
        expected = k.centred_alignment(kernel, targets)
        assert found.scalars[f"centred_{name}"] == pytest.approx(expected.centred, rel=1e-4)
        np.testing.assert_allclose(found.arrays[f"class_{name}"], expected.by_class, rtol=1e-4)
    for number, probes in enumerate((("alignment",), ("ntk", "alignment"))):
        alone, out = smooth(), tmp_path / str(number)
        with (
            pytest.warns(RuntimeWarning, match="GELU"),
            watch_closely(alone, out, probe=(x, y), probes=probes) as w,
        ):
            train(alone, 3, w.step)
        found = last_reading(out, 3, "alignment")
        kernel = k.empirical_ntk(alone.double().eval(), x[ordered].double())
        rows = np.linspace(0, len(x) - 1, found.arrays["labels"].size).round().astype(int)
        expected = k.centred_alignment(kernel[rows][:, rows], targets[rows])
        assert found.scalars == pytest.approx(
            {"centred_value": expected.centred, "plain_value": expected.uncentred}, rel=1e-4
        )
        frame = RunReader(out).frame_of_step(3)
        assert set(frame.readings) == set(probes)


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
        with watch_closely(model, tmp_path / "run") as w:
            monkeypatch.setattr("dgn_engine.attachment.watcher.preserve_reached_state", broken)
            train(model, 5, w.step)
    words = capsys.readouterr().err if as_error else str(said[0].message if said else "")
    assert words.count(w.trouble) == 1
    assert ": a fault of ours." in w.trouble
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
    monkeypatch.setattr("dgn_engine.attachment.watcher.WatchedModule", broken)
    w = dgn.watch(mlp(), probe=examples(), out=tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="step 0: a fault of ours"):
        w.start()
    w.step(1.0)
    w.test(1.0)
    w.close()
    assert not (tmp_path / "run").exists()


def test_a_folder_is_let_go_where_no_thread_can_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = watch_closely(mlp(), tmp_path / "run")
    assert w.account.taken == 0.0  # also of a watcher that has not begun
    with monkeypatch.context() as patch:
        patch.setattr("dgn_engine.attachment.watcher.Recorder", broken)
        with pytest.warns(RuntimeWarning):
            w.start()
    assert w.trouble
    assert w.account.taken == 0.0
    lock = Lock(tmp_path / "run" / "lock")
    lock.acquire()
    lock.release()


def ended_by(error: BaseException, out: Path) -> None:
    with dgn.watch(mlp(), probe=examples(), out=out) as w:
        w.step(0.5)
        raise error


class SilentError(Exception):
    def __str__(self) -> str:
        raise SystemExit("theirs")


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyError("theirs"), "failed"), (SilentError(), "failed"), (KeyboardInterrupt(), "stopped")],
)
def test_an_exception_of_the_loop_is_its_own_and_is_recorded(
    error: BaseException, status: str, tmp_path: Path
) -> None:
    with pytest.raises(type(error)) as raised:
        ended_by(error, tmp_path / "run")
    assert raised.value is error
    reader = RunReader(tmp_path / "run")
    assert reader.status == status
    found = [one for one in reader.events if isinstance(one, Failed)]
    assert [type(error).__name__ in one.what for one in found] == [True] * (status == "failed")


def test_layers_that_change_end_the_watching(tmp_path: Path) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as w:
        w.step()
        model.append(nn.Linear(3, 3))
        with pytest.warns(RuntimeWarning):
            w.close()
    assert "parameters have changed" in w.trouble


class ClassNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(1, keepdim=True)


ZEROS = torch.zeros(4, dtype=torch.long)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"probe": 3}, "wrong-type"),
    ({"probe": (torch.zeros(4, 6), torch.zeros(3))}, "wrong-shape"),
    ({"probe": (torch.zeros(4, 6), torch.zeros(4))}, "wrong-labels"),
    ({"probe": (torch.zeros(1, 6), ZEROS[:1])}, "wrong-length"),
    ({"probe": (torch.full((4, 6), math.nan), ZEROS)}, "not-finite"),
    ({"probe": (torch.zeros(4, 6) + 0j, ZEROS)}, "not-supported"),
    ({"probe": (torch.zeros(4, 7), ZEROS)}, "wrong-input"),
    ({"module": 1}, "wrong-type"),
    ({"module": nn.Flatten()}, "empty"),
    ({"module": nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (2, 3)))}, "wrong-output"),
    ({"module": nn.Sequential(nn.Linear(6, 6), ClassNumbers())}, "wrong-output"),
    ({"probes": ("gate",)}, "unknown-name"),
    ({"probes": "gates"}, "no-choice"),
    ({"probes": ()}, "no-choice"),
    ({"share": 2.0}, "out-of-bounds"),
    ({"steps_per_epoch": -1}, "out-of-bounds"),
    ({"class_names": ("one",)}, "wrong-length"),
]


@pytest.mark.parametrize(("changed", "kind"), REFUSED)
def test_what_cannot_be_watched_is_refused_before_training(
    tmp_path: Path, changed: dict[str, Any], kind: str
) -> None:
    given = {"module": mlp(), "probe": examples(), "out": tmp_path / "run"} | changed
    with refused(kind):
        dgn.watch(**given).start()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError) as refusal:
        dgn.watch(mlp(), probe=examples(), out=tmp_path).start()
    assert refusal.value.sentence.endswith(": out=….")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_half_precision_and_frozen_parts_are_followed(tmp_path: Path) -> None:
    model = mlp().bfloat16()
    x, y = examples()
    with watch_closely(model, tmp_path / "run") as w, torch.no_grad():
        model[0].weight.add_(1.0)
        model[0].requires_grad_(False)
        w.step()
    ordered = x[torch.argsort(y, stable=True)]
    assert_kernel(last_reading(tmp_path / "run", 1), model.float(), ordered, tolerance=1e-4)


def test_a_batch_that_is_no_step_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With gradients that are accumulated: Lightning calls its callback after each batch."""

    stand_in_packages(monkeypatch)
    out = tmp_path / "run"
    callback = dgn.lightning_callback(probe=examples(), out=out, pace=AT_EVERY_STEP)
    LightningTrainer(callback).fit(mlp(), lambda: torch.ones(()), steps=3, accumulate=2)
    with pytest.raises(UserError):  # a second loop needs a folder of its own
        LightningTrainer(callback).fit(mlp(), lambda: torch.zeros(()), steps=1)
    reader = RunReader(out)
    assert (reader.status, reader.step) == ("finished", 3)
    assert reader.measured_events[-1].test_accuracy == 0.75
    assert {0, 3} <= {frame.step for frame in reader.frames}


class Answer:
    """What a model of Hugging Face returns."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, x: Tensor) -> Answer:
        return Answer(logits=self.body(x))


def test_the_logits_of_an_answer_and_a_part_by_name_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    stand_in_packages(monkeypatch)
    for place, module in enumerate(("", "body")):
        callback = dgn.hugging_face_callback(
            examples(), tmp_path / str(place), module, pace=AT_EVERY_STEP
        )
        HuggingFaceTrainer(callback).fit(Model(), lambda: torch.ones(()), steps=3)
        assert RunReader(tmp_path / str(place)).frame_of_step(3).readings["npk"].arrays
    callback = dgn.hugging_face_callback(examples(), tmp_path / "none", "heart")
    with refused("unknown-name", value="heart"):
        HuggingFaceTrainer(callback).fit(Model(), lambda: torch.ones(()), steps=1)


def test_a_callback_without_its_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with refused("no-package", value="lightning"):
        dgn.lightning_callback(probe=examples(), out=tmp_path / "run")
    with refused("no-package", value="transformers"):
        dgn.hugging_face_callback(probe=examples(), out=tmp_path / "run")


def test_names_that_are_not_public_are_no_attributes() -> None:
    assert "watch" in dir(dgn)
    with pytest.raises(AttributeError, match="'wacht'"):
        _ = dgn.wacht  # type: ignore[attr-defined]


def test_a_watcher_that_was_not_started_says_so_once(tmp_path: Path) -> None:
    watcher = dgn.watch(mlp(), examples(), tmp_path / "run")
    with pytest.warns(RuntimeWarning):
        watcher.step(loss=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watcher.step(loss=1.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accuracy": 95}, r"accuracy is 95; .*: write 0.95 for 95 %"),
        ({"accuracy": -0.5}, r"accuracy is -0.5; .*0 to 1\."),
        ({"accuracy": 1e6}, r"accuracy is 1e\+06; .*0 to 1\."),
        ({"accuracy": "0.5"}, "accuracy is of type str"),
        ({"accuracy": torch.zeros(2)}, r"accuracy is a Tensor of shape \(2,\)"),
        ({"loss": torch.zeros(3, requires_grad=True)}, r"loss is a Tensor of shape \(3,\)"),
        ({"loss": [1.0]}, "loss is of type list"),
        ({"f1": 0.5}, "f1 is not a known score"),
    ],
)
def test_scores_that_cannot_be_used_are_left_out_and_said_once(
    given: dict[str, object], said: str
) -> None:
    told: list[str] = []
    scores = GivenScores(told.append)
    for _ in range(2):
        others = {name: one for name, one in given.items() if name not in ("loss", "accuracy")}
        scores.add_scores(given.get("loss"), given.get("accuracy"), others)
    assert scores.take_means() is None
    assert len(told) == 1
    assert re.search(said, told[0])


def test_scores_that_can_be_used_become_their_means() -> None:
    scores = GivenScores(pytest.fail)
    scores.add_scores(torch.tensor(1.0, requires_grad=True) * 2, np.float32(1.0), {})
    scores.add_scores(1, torch.tensor([0.5]), {})
    scores.add_scores(float("inf"), 1.0 + 1e-8, {})
    scores.add_scores(None, float("nan"), {})
    loss, share = scores.take_means() or (0.0, 0.0)
    assert loss == math.inf  # a loss that diverges is one
    assert share == pytest.approx(2.5 / 3)
    assert scores.take_means() is None
    for _ in range(50):
        scores.add_scores(1e308, None, {})
    assert (scores.take_means() or (0.0,))[0] == pytest.approx(1e308)


def test_a_loss_that_is_not_finite_is_said_once_with_its_step(tmp_path: Path) -> None:
    net, losses = mlp(), [1.0, 0.5, 0.25, math.nan, math.inf, 0.5]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, given in (("diverges", losses), ("does not", losses[:3])):
            with dgn.watch(net, examples(), tmp_path / name, probes=("gates",)) as w:
                for loss in given:
                    w.step(loss=loss)
            assert w.trouble == ""
    found = [str(one.message) for one in said if "finite" in str(one.message)]
    assert len(found) == 1
    assert "step 4 " in found[0]


def test_a_percentage_ends_neither_the_loop_nor_the_watching(tmp_path: Path) -> None:
    with dgn.watch(mlp(), examples(), tmp_path / "run", probes=("gates",)) as w:
        with pytest.warns(RuntimeWarning, match="write 0.95 for 95 %"):
            w.step(loss=1.0, accuracy=95)
        with pytest.warns(RuntimeWarning, match="f1 is not a known score"):
            w.test(loss=2.0, f1=0.5)
        assert w.active
    scores = [one for one in RunReader(tmp_path / "run").events if isinstance(one, Measured)]
    assert [one.train_loss for one in scores if not math.isnan(one.train_loss)] == [1.0]
    assert [one.test_loss for one in scores if one.test_loss is not None] == [2.0]
    assert all(math.isnan(one.train_accuracy) and one.test_accuracy is None for one in scores)
