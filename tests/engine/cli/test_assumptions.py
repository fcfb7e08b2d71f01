"""What the user says of a state dict stands with every number, and a known accuracy checks it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples

SAID = ["--activation", "relu"]


def trained(activation: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 9), activation(), nn.Linear(9, 8), activation(), nn.Linear(8, 10)
    ).eval()


@pytest.fixture
def tanh(tmp_path: Path) -> Path:
    path = tmp_path / "tanh.pt"
    torch.save(trained(nn.Tanh).state_dict(), path)
    return path


@pytest.fixture
def stated(tmp_path: Path) -> Path:
    path = tmp_path / "whole.pt"
    torch.save(trained(nn.ReLU), path)
    return path


def accuracy_of(network: nn.Module, relu: bool = True) -> float:
    """By torch, on the 360 test digits."""
    examples = load_examples(DataConfig())
    if relu:
        network = nn.Sequential(*(nn.ReLU() if isinstance(m, nn.Tanh) else m for m in network))
    with torch.no_grad():
        found = network(torch.from_numpy(examples.test_x).flatten(1)).argmax(1)
    return float((found.numpy() == examples.test_y).mean())


def test_inspect_shows_what_was_said_with_each_figure_and_the_accuracy_that_follows(
    tanh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["inspect", str(tanh), "--data", "digits", "--examples", "10", *SAID]
    assert main([*asked, "--out", str(tmp_path / "o")]) == 0
    said = capsys.readouterr().out
    for figure in ("Overlap Λ, assuming ReLU: ", "NPK (exact, assuming ReLU): "):
        assert figure in said
    share = accuracy_of(trained(nn.Tanh))
    assert f"Test accuracy, assuming ReLU: {100 * share:.1f} % of 360 of 360" in said
    tree = json.loads((tmp_path / "o" / "inspection.json").read_text())
    assert tree["network"]["assuming"] == "ReLU"
    assert " ".join(SAID) in said
    with np.load(tmp_path / "o" / "kernels.npz") as arrays:
        assert json.loads(str(arrays["settings"]))["network"]["assuming"] == "ReLU"


def test_a_file_that_states_its_layers_assumes_nothing(
    stated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(stated), "--data", "digits", "--examples", "10"]) == 0
    assert "ssum" not in capsys.readouterr().out


def test_kernels_keep_what_was_said_in_the_print_and_in_the_file(
    tanh: Path, stated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = load_examples(DataConfig())
    np.save(tmp_path / "x.npy", examples.test_x[:40])
    np.save(tmp_path / "y.npy", examples.test_y[:40])
    data = ["--inputs", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")]
    assert main(["kernels", str(tanh), *data, *SAID, "--out", str(tmp_path / "k.npz")]) == 0
    said = capsys.readouterr().out
    assert "of the 40 inputs, assuming ReLU." in said
    assert " ".join(SAID) in said
    with np.load(tmp_path / "k.npz") as arrays:
        settings = json.loads(str(arrays["settings"]))
    assert (settings["assuming"], settings["taken_as"]) == (
        "ReLU",
        "taken as 64-9-8-10 with ReLU between",
    )
    assert main(["kernels", str(stated), *data]) == 0
    assert "ssum" not in capsys.readouterr().out


def test_another_accuracy_than_expected_is_refused_and_nothing_is_written(
    tanh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = load_examples(DataConfig())
    np.save(tmp_path / "x.npy", examples.test_x)
    np.save(tmp_path / "y.npy", examples.test_y)
    data = ["--inputs", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")]
    right = f"{100 * accuracy_of(trained(nn.Tanh)):.1f}"
    out = ["--out", str(tmp_path / "out")]
    doors = (
        ["inspect", str(tanh), *SAID, "--data", "digits", "--examples", "10", *out],
        ["kernels", str(tanh), *SAID, *data, *out],
        ["gate-information", str(tanh), *SAID, "--epochs", "1", *out],
    )
    for door in doors:
        assert main([*door, "--expect-accuracy", "92.9"]) == 2
        told = capsys.readouterr().err
        assert f"tanh.pt is right on {right} %" in told
        assert "not on the 92.9 % expected" in told
        assert told.count("\n") == 1
        assert not (tmp_path / "out").exists()
    for door in doors[:2]:
        assert main([*door[: -len(out)], "--expect-accuracy", right]) == 0
    measured = [*doors[2], "--seeds", "1", "--normalise", "none", "--expect-accuracy", right]
    assert main(measured) == 0
    assert (tmp_path / "out" / "results.json").exists()
    capsys.readouterr()


@pytest.mark.parametrize("text", ["0.929", "ninety", "101", "nan"])
def test_an_expected_accuracy_is_in_percent(
    text: str, tanh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", str(tanh), "--data", "digits", "--expect-accuracy", text])
    assert "92.9, not 0.929" in capsys.readouterr().err


def test_kernels_of_normalised_inputs_are_those_of_inputs_normalised_by_hand(
    stated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = load_examples(DataConfig()).test_x[:5].astype(np.float64)
    kernels = []
    for name, given, asked in (
        ("raw", x, ["--normalise", "mnist"]),
        ("hand", (x - 0.1307) / 0.3081, []),
    ):
        np.save(tmp_path / f"{name}.npy", given)
        out = tmp_path / f"{name}.npz"
        inputs = ["--inputs", str(tmp_path / f"{name}.npy"), "--out", str(out)]
        assert main(["kernels", str(stated), *inputs, *asked]) == 0
        with np.load(out) as found:
            kernels.append(found["ntk"])
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-12)
    capsys.readouterr()


def test_the_old_meaning_of_normalise_is_refused_with_the_new_word(
    stated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 64)))
    with pytest.raises(SystemExit):
        main(["kernels", str(stated), "--inputs", str(tmp_path / "x.npy"), "--normalise", "width"])
    assert "what scales kernels is --scale width" in capsys.readouterr().err


def test_inspect_sees_the_pixels_and_the_test_examples_that_the_user_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = trained(nn.ReLU)
    torch.save(network, tmp_path / "net.pt")
    np.save(tmp_path / "test.npy", np.arange(100, 300))
    asked = ["inspect", str(tmp_path / "net.pt"), "--data", "digits", "--examples", "10", "--json"]
    split = ["--normalise", "0.3/0.4", "--test-indices", str(tmp_path / "test.npy")]
    assert main([*asked, *split]) == 0
    told = json.loads(capsys.readouterr().out)["inspection"]
    examples = load_examples(
        DataConfig(normalise="0.3/0.4", test_indices=str(tmp_path / "test.npy"))
    )
    with torch.no_grad():
        right = network(torch.from_numpy(examples.test_x).flatten(1)).argmax(1).numpy()
    assert told["accuracy"]["test"] == pytest.approx(float((right == examples.test_y).mean()))
    assert told["data"]["preparation"] == "normalised by 0.3/0.4"
    assert told["data"]["test"] == "the 200 test examples that test.npy names"


def test_a_network_of_ours_is_shown_the_pixels_that_it_was_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    small = ["--width", "12", "--depth", "3", "--epochs", "1", "--regime", "ReLU", "--quiet"]
    assert main(["train", *small, "--normalise", "mnist", "--out", str(out)]) == 0
    asked = ["inspect", str(out / "weights.safetensors"), "--data", "digits", "--examples", "10"]
    capsys.readouterr()
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["inspection"]
    assert told["data"]["preparation"] == "normalised as mnist"
