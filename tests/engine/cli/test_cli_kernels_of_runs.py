"""`dgn kernels` on what we wrote: random runs of every kind, a file of weights, a run, its step."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.cli.run.given_network import own_settings
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.importing.saved_network import state_of
from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.training.run import Run
from tests.engine.any_run import Arrangement, SlowKernels
from tests.engine.cli.judged_run import judge
from tests.engine.cli.typed import printed_json, read_arrays, read_settings, refused_command_of_kind
from tests.plugins import each
from tests.refusals import refused_command

Make = Callable[..., Run]
FC = NetConfig("fc", (("depth", 4), ("width", 6)), bias=True)
# Every regime with a third of the networks, and every network with a third of the regimes; all
# pairs are in `make faults`.
PAIRS = [
    (regime.name, net)
    for row, regime in enumerate(all_regimes())
    for column, net in enumerate(all_nets())
    if (row + column) % 3 == 0
]


@pytest.mark.wide
@pytest.mark.parametrize(("regime", "net"), each(PAIRS))
def test_a_file_of_kernels_is_of_the_run_as_it_is_at_that_step(
    tmp_path: Path, regime: str, net: str
) -> None:
    judge(tmp_path, regime, net, 0)


def small(net: NetConfig) -> RunConfig:
    return RunConfig(
        data=DataConfig(train_limit=24, test_limit=10),
        net=net,
        training=TrainingConfig(batch=12, epochs=2, learning_rate=1e-2),
        probe_examples=6,
    )


def kernels(source: object, out: Path, *options: object) -> dict[str, Any]:
    assert main(["kernels", str(source), "--out", str(out), *map(str, options)]) == 0
    return read_arrays(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps with its final checkpoint."""
    out = tmp_path_factory.mktemp("of_runs") / "run"
    small_run = ["--train-limit", "24", "--test-limit", "10", "--batch", "12", "--epochs", "3"]
    sizes = ["--width", "6", "--depth", "4", "--regime", "FR-II", "--rotation", "1,0,2", "--quiet"]
    assert main(["train", *small_run, *sizes, "--out", str(out)]) == 0
    return out


def test_the_output_says_which_weights_the_kernel_is_over(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("DL", small(FC))
    run.save_weights(tmp_path / "net.safetensors")
    out = tmp_path / "k.npz"
    kernels(tmp_path / "net.safetensors", out, "--examples", "probe")
    assert read_settings(out)["tangent_kernel"] in capsys.readouterr().out
    np.savez(tmp_path / "net.npz", W1=np.ones((4, 3)), W2=np.ones((3, 4)))
    np.save(tmp_path / "x.npy", np.eye(3))
    kernels(tmp_path / "net.npz", out, "--inputs", tmp_path / "x.npy", "--activation", "relu")
    assert read_settings(out)["trains"] is None
    assert read_settings(out)["tangent_kernel"] in capsys.readouterr().out


def test_the_settings_hold_the_fingerprint_of_the_data_where_it_is_known(
    make_run: Make, tmp_path: Path
) -> None:
    run = make_run("DL", small(FC))
    run.save_weights(tmp_path / "net.safetensors")
    out = tmp_path / "k.npz"
    kernels(tmp_path / "net.safetensors", out, "--examples", "probe", "--only", "gates")
    assert read_settings(out)["data_fingerprint"] == run.trainer.data.fingerprint != ""
    state = state_of(read_tensors(tmp_path / "net.safetensors"))
    assert own_settings(replace(state, data=""))["data_fingerprint"] is None


def test_bernoulli_gates_are_refused_for_other_inputs(make_run: Make, tmp_path: Path) -> None:
    run = make_run("FRG", small(FC))
    run.save_weights(tmp_path / "net.safetensors")
    np.save(tmp_path / "x.npy", run.probed.probe_context().x.numpy())
    words = [tmp_path / "net.safetensors", "--inputs", tmp_path / "x.npy"]
    refusal = refused_command_of_kind("drawn-gates", "kernels", *words, "--out", tmp_path / "k.npz")
    assert "--examples probe" in str(refusal)
    assert not (tmp_path / "k.npz").exists()


def test_an_accuracy_behind_drawn_gates_is_of_all_examples(make_run: Make, tmp_path: Path) -> None:
    """Of more than one pass takes: each example has gates of its own."""
    run = make_run("FRG", replace(small(FC), data=DataConfig(train_limit=150, test_limit=10)))
    for _ in range(20):
        run.step()
    run.save_weights(tmp_path / "net.safetensors")
    data, layers = run.trainer.data, range(3)
    usual = (tuple(layers), (0,) * 3, (0,) * 3, (1,) * 3)
    gating = run.config.gating
    arranged = Arrangement(
        "FRG", *usual, gating.beta, gating.epsilon, gating.value_input, gating.gate_probability
    )
    classes, tensors = run.architecture.classes, run.trainer.network.state_dict()
    slow = SlowKernels(run.config, arranged, tensors, len(data.train_y), classes)
    logits = slow.logits(slow.tensors, data.train_x.double(), tuple(range(150)))
    right = float((logits.argmax(1) == data.train_y).double().mean())
    out = tmp_path / "k.npz"
    kernels(tmp_path / "net.safetensors", out, "--examples", 150, "--only", "gates")
    assert read_settings(out)["rows"] == list(range(150))
    assert read_settings(out)["accuracy"] == pytest.approx(right)
    assert 0.0 < right < 1.0


def test_a_run_folder_is_its_newest_checkpoint_and_is_found_by_its_name(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(folder.parent))
    found = kernels(folder, tmp_path / "k.npz", "--examples", "7")
    assert "FR-II · step 6 · rotated by 1,0,2" in capsys.readouterr().out
    assert found["npk"].shape == (7, 7)
    assert "nu" in found  # the run's own examples have labels
    for source in (folder / "weights.safetensors", f"{folder}@6", "run", "run@6"):
        again = kernels(source, tmp_path / "again.npz", "--examples", "7")
        np.testing.assert_array_equal(found["ntk"], again["ntk"])
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()  # what stands here goes before the user's run of this name
    assert "run" in str(refused_command("kernels", "run", "--examples", "7"))


def test_a_file_has_the_examples_of_its_run_and_of_no_other(make_run: Make, tmp_path: Path) -> None:
    run = make_run("FR-II", small(FC))
    object.__setattr__(run.trainer.data, "fingerprint", "another")
    run.save_weights(tmp_path / "net.safetensors")
    assert "other data" in str(
        refused_command("kernels", tmp_path / "net.safetensors", "--examples", "probe")
    )
    np.savez(tmp_path / "net.npz", W1=np.eye(3), W2=np.eye(3))
    refusal = refused_command_of_kind(
        "not-ours", "kernels", tmp_path / "net.npz", "--examples", "probe"
    )
    assert (refusal.place, refusal.value) == ("--examples", "net.npz")


def test_inputs_are_normalised_as_those_of_the_run_and_that_is_said(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small(FC)
    run = make_run("ReLU", replace(config, data=replace(config.data, normalise="0.2/0.4")))
    source = tmp_path / "net.safetensors"
    run.save_weights(source)
    x = run.probed.probe_context().x.numpy()
    np.save(tmp_path / "raw.npy", x * 0.4 + 0.2)
    np.save(tmp_path / "ready.npy", x)
    own = kernels(source, tmp_path / "o.npz", "--examples", "probe")
    assert "--normalise" not in capsys.readouterr().out
    for file, how in (("raw", []), ("ready", ["--normalise", "none"])):
        found = kernels(source, tmp_path / "k.npz", "--inputs", tmp_path / f"{file}.npy", *how)
        np.testing.assert_allclose(found["ntk"], own["ntk"], rtol=1e-5, atol=1e-6)
        said = capsys.readouterr().out
        assert "0.2/0.4" in said
        assert "--normalise" in said
        normalise = read_settings(tmp_path / "k.npz")["normalise"]
        assert normalise == (how[1] if how else "0.2/0.4")


def test_a_damaged_newest_checkpoint_is_not_passed_over(folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(folder, tmp_path / "run")
    checkpoints = run / "checkpoints"
    shutil.copytree(checkpoints / "000000006", checkpoints / "000000009")
    (checkpoints / "000000009" / "state.json").write_bytes(b"\0" * 100)
    told = str(refused_command("kernels", run, "--examples", "probe"))
    assert "000000009/state.json" in told
    assert "run@6" in told
    kernels(f"{run}@6", tmp_path / "k.npz", "--examples", "probe")


def test_a_run_of_a_files_network_has_kernels_while_the_file_is_there(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = {"W1": (7, 64), "W2": (5, 7), "W3": (10, 5)}
    layers, source = tmp_path / "layers.npz", tmp_path / "net.safetensors"
    np.savez(layers, **{name: np.ones(shape) for name, shape in shapes.items()})
    run = make_run("DL", small(NetConfig(f"file:{layers}", (("activation", "relu"),))))
    run.step()
    run.save_weights(source)
    found = kernels(source, tmp_path / "k.npz", "--examples", "probe")
    assert "layers.npz" in capsys.readouterr().out
    context = run.probed.probe_context()
    live = copy.deepcopy(context.network).double()
    whole = k.tangent_kernels(live, context.x.double()).total_kernel
    np.testing.assert_array_equal(found["ntk"], whole.numpy())
    np.savez(layers, W1=np.ones((8, 64)), W2=np.ones((10, 8)))
    refused_command("kernels", source, "--examples", "probe")
    layers.unlink()
    assert "layers.npz" in str(refused_command("kernels", source, "--examples", "probe"))


def test_a_network_of_ours_is_inspected_on_the_test_examples_of_its_run(
    make_run: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("ReLU", replace(small(FC), data=DataConfig(split_seed=5)))
    run.step()
    run.save_weights(tmp_path / "net.safetensors")
    quick = [
        "inspect",
        tmp_path / "net.safetensors",
        "--data",
        "digits",
        "--examples",
        "4",
        "--json",
    ]
    own, same, other = (
        printed_json(capsys, *quick, *split)["inspection"]
        for split in ([], ["--split-seed", "5"], ["--split-seed", "0"])
    )
    assert own["data"]["test"] == same["data"]["test"] != other["data"]["test"]
    assert {"360", "1,797"} <= set(own["data"]["test"].split())
    assert [found["data"]["test"].split()[-1] for found in (own, other)] == ["5", "0"]
    assert own["accuracy"] == same["accuracy"]
