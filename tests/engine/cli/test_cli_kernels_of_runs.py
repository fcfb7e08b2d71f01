"""`dgn kernels` on what we wrote: a file of weights, a run folder, a step of it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.training.run import Run

Make = Callable[..., Run]
FC = NetConfig("fc", (("depth", 4), ("width", 6)), bias=True)
CNN = NetConfig("cnn4", (("channels", 3),))
TURNED = {"wiring": (2, 0, 1), "rotation": (1, 0, 2)}


def small(net: NetConfig) -> RunConfig:
    return RunConfig(
        data=DataConfig(train_limit=24, test_limit=10),
        net=net,
        training=TrainingConfig(batch=12, epochs=2, learning_rate=1e-2),
        probe_examples=6,
    )


def kernels(source: str, out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["kernels", source, "--out", str(out), *options])
    if code:
        return code, {}
    with np.load(out, allow_pickle=False) as found:
        return code, dict(found)


CASES = [
    ("FR-II", CNN, {"wiring": (2, 0, 1, 3), "rotation": (1, 0, 2, 0), "shift": (0, 3, 1, 2)}),
    ("DL", FC, {"tiling": (2, 1, 3), "beta": 3.0, "epsilon": 0.1}),
    ("FR-II", FC, {**TURNED, "value_input": "random"}),
    ("FRG", FC, {**TURNED, "gate_probability": 0.7}),
    ("FRG", CNN, {"value_input": "ones"}),
    ("DL-linear", FC, TURNED),
    ("DLN", FC, {}),
    ("soft-ReLU", CNN, {"beta": 2.0}),
]


@pytest.mark.parametrize(("regime", "net", "gating"), CASES)
def test_the_command_computes_the_kernels_of_the_run(
    make_run: Make, tmp_path: Path, regime: str, net: NetConfig, gating: dict[str, object]
) -> None:
    run = make_run(regime, small(net), **gating)
    for _ in range(3):
        run.step()
    run.save(tmp_path / "net.safetensors")
    code, found = kernels(
        str(tmp_path / "net.safetensors"), tmp_path / "k.npz", "--examples", "probe"
    )
    assert code == 0
    context = run.probed.context()
    live, x = copy.deepcopy(context.network).double(), context.x.double()
    if live.given_gates is not None:
        live = live.with_gates(tuple(gates.double() for gates in live.given_gates))
    shared = k.SharedKernels(live, x)
    assert np.array_equal(found["npk"], shared.npk().numpy())
    assert np.array_equal(found["ntk"], shared.tangent.whole.numpy())
    settings = json.loads(str(found["settings"]))
    assert (settings["regime"], settings["step"]) == (regime, 3)
    assert settings["examples"] == "probe"
    assert settings["rows"] == list(run.probed.probe_set.indices)
    assert settings["beta"] == (live.gate.beta if live.gate.soft else None)
    wired = not live.own_gates
    for name, word in (("wiring", "permute"), ("rotation", "rotation"), ("shift", "shift")):
        layers = len(live.wiring)
        usual = list(range(layers)) if name == "wiring" else [0] * layers
        wanted = list(gating.get(name, usual)) if wired else None
        assert settings[word] == wanted
    assert RunConfig.from_dict(settings["config"]) == run.config


@pytest.mark.parametrize(
    ("regime", "net", "trains", "said"),
    [
        ("gates-only", FC, ["feature"], "K = K^F, over Θ^f."),
        ("DL", FC, ["value", "feature"], "K = K^V + K^F, over Θ^v and Θ^f."),
        ("FR-II", FC, ["value"], "K = K^V, over Θ^v."),
        ("FRG", FC, ["value"], "K = K^V, over Θ^v."),
        ("soft-ReLU", FC, ["value"], "K = K^V + K^F + K^X, over Θ."),
        (
            "ReLU",
            NetConfig("davidnet", (("width", 1),)),
            ["value"],
            "K = K^V, over Θ with γ and shifts of BatchNorm (its statistics are constants).",
        ),
        (
            "FR-II",
            NetConfig("davidnet", (("width", 1),)),
            ["value"],
            "K = K^V, over Θ^v with a γ of each channel.",
        ),
    ],
)
def test_the_output_says_which_weights_the_kernel_is_over(
    make_run: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    regime: str,
    net: NetConfig,
    trains: list[str],
    said: str,
) -> None:
    run = make_run(regime, small(net))
    run.step()
    run.save(tmp_path / "net.safetensors")
    source = str(tmp_path / "net.safetensors")
    _, found = kernels(source, tmp_path / "k.npz", "--examples", "probe")
    assert said in capsys.readouterr().out
    settings = json.loads(str(found["settings"]))
    assert (settings["trains"], settings["tangent_kernel"]) == (trains, said)
    assert ("ntk_value" in found) == ("value" in trains)
    if net.name != "davidnet":
        return
    _, folded = kernels(source, tmp_path / "k.npz", "--examples", "probe", "--folded")
    assert "folded weights (BatchNorm is in them)" in str(folded["settings"])
    context = run.probed.context()
    live, x = copy.deepcopy(context.network).double(), context.x.double()
    assert np.array_equal(found["ntk"], k.tangent_kernels(live, x).whole.numpy())
    assert np.array_equal(folded["ntk"], k.tangent_kernels(live, x, folded=True).whole.numpy())
    assert not np.allclose(found["ntk"], folded["ntk"])


def test_of_a_file_that_says_nothing_all_counts_as_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "net.npz", W1=np.ones((4, 3)), W2=np.ones((3, 4)))
    np.save(tmp_path / "x.npy", np.eye(3))
    asked = ["--inputs", str(tmp_path / "x.npy"), "--activation", "relu"]
    code, found = kernels(str(tmp_path / "net.npz"), tmp_path / "k.npz", *asked)
    assert code == 0
    assert "K = K^V, over Θ, as if all were trained." in capsys.readouterr().out
    assert json.loads(str(found["settings"]))["trains"] is None


def test_bernoulli_gates_are_refused_for_other_inputs(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("FRG", small(FC))
    run.save(tmp_path / "net.safetensors")
    np.save(tmp_path / "x.npy", run.probed.context().x.numpy())
    code, _ = kernels(
        str(tmp_path / "net.safetensors"), tmp_path / "k.npz", "--inputs", str(tmp_path / "x.npy")
    )
    captured = capsys.readouterr()
    assert code == 2
    assert "--examples probe" in captured.err
    assert captured.err.count("\n") == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of six steps with its final checkpoint."""
    out = tmp_path / "run"
    small_run = ["--train-limit", "24", "--test-limit", "10", "--batch", "12", "--epochs", "3"]
    sizes = ["--width", "6", "--depth", "4", "--regime", "FR-II", "--rotation", "1,0,2", "--quiet"]
    assert main(["train", *small_run, *sizes, "--out", str(out)]) == 0
    return out


def test_a_run_folder_is_its_newest_checkpoint(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = kernels(str(folder), tmp_path / "k.npz", "--examples", "7")
    words = capsys.readouterr().out
    assert code == 0
    assert "FR-II · step 6 · rotated by 1,0,2" in words
    _, weights = kernels(str(folder / "weights.safetensors"), tmp_path / "w.npz", "--examples", "7")
    assert np.array_equal(found["ntk"], weights["ntk"])
    assert found["npk"].shape == (7, 7)
    assert "nu" in found  # the run's own examples have labels
    code, at = kernels(f"{folder}@6", tmp_path / "s.npz", "--examples", "7")
    assert code == 0
    assert np.array_equal(found["ntk"], at["ntk"])


@pytest.mark.parametrize(
    ("at", "options", "named"),
    [
        ("@5", ["--examples", "probe"], "the nearest is of step 6"),
        ("", ["--examples", "25"], "24 training examples"),
        ("", ["--examples", "probe", "--labels", "y.npy"], "--inputs"),
        ("", ["--examples", "probe", "--beta", "2"], "--beta"),
    ],
)
def test_what_a_run_does_not_have_is_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    at: str,
    options: list[str],
    named: str,
) -> None:
    capsys.readouterr()
    code, _ = kernels(f"{folder}{at}", tmp_path / "k.npz", *options)
    captured = capsys.readouterr()
    assert code == 2
    assert named in captured.err
    assert captured.err.count("\n") == 1


def test_other_data_than_those_of_the_run_are_refused(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("FR-II", small(FC))
    object.__setattr__(run.trainer.data, "fingerprint", "another")
    run.save(tmp_path / "net.safetensors")
    source = str(tmp_path / "net.safetensors")
    assert kernels(source, tmp_path / "k.npz", "--examples", "probe")[0] == 2
    assert "other data" in capsys.readouterr().err


def test_a_file_of_another_program_has_no_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "net.npz", W1=np.eye(3), W2=np.eye(3))
    code, _ = kernels(str(tmp_path / "net.npz"), tmp_path / "k.npz", "--examples", "probe")
    assert code == 2
    assert "give --inputs" in capsys.readouterr().err


def test_inputs_are_normalised_as_those_of_the_run_and_that_is_said(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small(FC)
    run = make_run("ReLU", replace(config, data=replace(config.data, normalise="0.2/0.4")))
    run.save(tmp_path / "net.safetensors")
    x = run.probed.context().x.numpy()
    np.save(tmp_path / "raw.npy", x * 0.4 + 0.2)
    np.save(tmp_path / "ready.npy", x)
    source = str(tmp_path / "net.safetensors")
    _, own = kernels(source, tmp_path / "o.npz", "--examples", "probe")
    capsys.readouterr()
    for file, how, words in (
        ("raw", [], "The inputs were normalised as the run's were (0.2/0.4)"),
        ("ready", ["--normalise", "none"], "these by none, as --normalise says"),
    ):
        inputs = ["--inputs", str(tmp_path / f"{file}.npy")]
        _, found = kernels(source, tmp_path / "k.npz", *inputs, *how)
        np.testing.assert_allclose(found["ntk"], own["ntk"], rtol=1e-5, atol=1e-6)
        assert words in capsys.readouterr().out
        assert json.loads(str(found["settings"]))["normalise"] == (how[1] if how else "0.2/0.4")


def test_a_damaged_newest_checkpoint_is_not_passed_over(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = folder / "checkpoints"
    shutil.copytree(checkpoints / "000000006", checkpoints / "000000009")
    (checkpoints / "000000009" / "state.json").write_bytes(b"\0" * 100)
    capsys.readouterr()
    code, _ = kernels(str(folder), tmp_path / "k.npz", "--examples", "probe")
    assert code == 2
    words = capsys.readouterr().err
    assert "000000009/state.json has 100 bytes" in words
    assert "the newest sound checkpoint of run is of step 6: run@6." in words
    assert kernels(f"{folder}@6", tmp_path / "k.npz", "--examples", "probe")[0] == 0


def test_a_run_of_a_files_network_has_kernels_while_the_file_is_there(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = {"W1": (7, 64), "W2": (5, 7), "W3": (10, 5)}
    layers = tmp_path / "layers.npz"
    np.savez(layers, **{name: np.ones(shape) for name, shape in shapes.items()})
    run = make_run("DL", small(NetConfig(f"file:{layers}", (("activation", "relu"),))))
    run.step()
    run.save(tmp_path / "net.safetensors")
    source = str(tmp_path / "net.safetensors")
    code, found = kernels(source, tmp_path / "k.npz", "--examples", "probe")
    assert code == 0
    assert "Its layers are those that layers.npz has now" in capsys.readouterr().out
    live, x = (
        copy.deepcopy(run.probed.context().network).double(),
        run.probed.context().x.double(),
    )
    assert np.array_equal(found["ntk"], k.tangent_kernels(live, x).whole.numpy())
    np.savez(layers, W1=np.ones((8, 64)), W2=np.ones((10, 8)))
    assert kernels(source, tmp_path / "k.npz", "--examples", "probe")[0] == 2
    assert "it is not the network of its configuration" in capsys.readouterr().err
    layers.unlink()
    assert kernels(source, tmp_path / "k.npz", "--examples", "probe")[0] == 2
    assert "layers.npz cannot be read" in capsys.readouterr().err


def test_a_run_of_the_users_is_found_by_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(folder.parent))
    _, found = kernels("run", tmp_path / "k.npz", "--examples", "probe")
    _, at = kernels("run@6", tmp_path / "s.npz", "--examples", "probe")
    _, there = kernels(str(folder), tmp_path / "t.npz", "--examples", "probe")
    assert np.array_equal(found["ntk"], there["ntk"])
    assert np.array_equal(at["ntk"], there["ntk"])


def test_a_network_of_ours_is_inspected_on_the_test_examples_of_its_run(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small(FC)
    run = make_run("ReLU", replace(config, data=DataConfig(split_seed=5)))
    run.step()
    run.save(tmp_path / "net.safetensors")
    told = []
    for split in ([], ["--split-seed", "5"], ["--split-seed", "0"]):
        quick = ["--data", "digits", "--examples", "4", "--json"]
        assert main(["inspect", str(tmp_path / "net.safetensors"), *quick, *split]) == 0
        told.append(json.loads(capsys.readouterr().out))
    told = [each["inspection"] for each in told]
    own, same, other = (each["data"]["test"] for each in told)
    assert own == same == "360 of 1,797 held out for the test by seed 5"
    assert other == "360 of 1,797 held out for the test by seed 0"
    assert told[0]["accuracy"] == told[1]["accuracy"]
