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
from tests.engine.cli.typed import (
    one_line_error,
    printed_json,
    read_arrays,
    read_settings,
    refused_command_of_kind,
)

SAID = ["--activation", "relu"]
SHOWN = ["--data", "digits", "--examples", "10"]


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


def accuracy_of(network: nn.Module, data: DataConfig) -> float:
    """By torch, on the test examples, with ReLU in the place of tanh."""
    examples = load_examples(data)
    network = nn.Sequential(*(nn.ReLU() if isinstance(m, nn.Tanh) else m for m in network))
    with torch.no_grad():
        found = network(torch.from_numpy(examples.test_x).flatten(1)).argmax(1)
    return float((found.numpy() == examples.test_y).mean())


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """The options of `dgn kernels` for all test digits."""
    examples = load_examples(DataConfig())
    np.save(tmp_path / "x.npy", examples.test_x)
    np.save(tmp_path / "y.npy", examples.test_y)
    return ["--inputs", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")]


def test_what_was_said_stands_with_each_figure_and_in_each_file(
    tanh: Path, inputs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    assert main(["inspect", str(tanh), *SHOWN, *SAID, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    share = accuracy_of(trained(nn.Tanh), DataConfig())
    for figure in ("Overlap Λ", "NPK (exact", "Test accuracy"):
        (line,) = (line for line in said.splitlines() if line.strip().startswith(figure))
        assert "assuming ReLU" in line
    assert f" {100 * share:.1f} % on 360 of 360" in line
    assert " ".join(SAID) in said
    tree = json.loads((out / "inspection.json").read_text())
    assert tree["network"]["assuming"] == "ReLU"
    assert read_settings(out / "kernels.npz")["network"]["assuming"] == "ReLU"
    kernels = tmp_path / "k.npz"
    assert main(["kernels", str(tanh), *inputs, *SAID, "--out", str(kernels)]) == 0
    said = capsys.readouterr().out
    assert "360 inputs, assuming ReLU." in said
    assert " ".join(SAID) in said
    assert read_settings(kernels)["assuming"] == "ReLU"
    assert "64-9-8-10" in read_settings(kernels)["taken_as"]


def test_a_file_that_states_its_layers_assumes_nothing(
    stated: Path, inputs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["inspect", str(stated), *SHOWN], ["kernels", str(stated), *inputs]):
        assert main(words) == 0
        printed = capsys.readouterr().out.replace("all assumed trained", "")
        assert "ssum" not in printed


def test_another_accuracy_than_expected_is_refused_and_nothing_is_written(
    tanh: Path, inputs: list[str], tmp_path: Path
) -> None:
    share = accuracy_of(trained(nn.Tanh), DataConfig())
    right = f"{100 * share:.1f}"
    out = ["--out", str(tmp_path / "out")]
    doors = (
        ["inspect", str(tanh), *SAID, *SHOWN],
        ["kernels", str(tanh), *SAID, *inputs],
        ["gate-information", str(tanh), *SAID, "--epochs", "1", "--train-limit", "64"],
    )
    for door in doors:
        refusal = refused_command_of_kind(
            "other-accuracy", *door, *out, "--expect-accuracy", "92.9"
        )
        assert refusal.value == pytest.approx(share)
        assert {"tanh.pt", right, "92.9"} <= set(str(refusal).split())
        assert not (tmp_path / "out").exists()
    for door in doors[:2]:
        assert main([*door, "--expect-accuracy", right]) == 0
    short = ["--seeds", "1", "--executor", "serial", "--quiet", "--normalise", "none"]
    assert main([*doors[2], *out, *short, "--expect-accuracy", right]) == 0
    assert (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize("text", ["0.929", "ninety", "101", "nan"])
def test_an_expected_accuracy_is_in_percent(
    text: str, tanh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = one_line_error(capsys, "inspect", tanh, *SHOWN, "--expect-accuracy", text)
    assert f"'{text}'" in said
    assert "92.9" in said


def test_kernels_of_normalised_inputs_are_those_of_inputs_normalised_by_hand(
    stated: Path, tmp_path: Path
) -> None:
    x, kernels = load_examples(DataConfig()).test_x[:5].astype(np.float64), []
    for given, asked in ((x, ["--normalise", "mnist"]), ((x - 0.1307) / 0.3081, [])):
        np.save(tmp_path / "x.npy", given)
        out = str(tmp_path / "k.npz")
        words = ["kernels", str(stated), "--inputs", str(tmp_path / "x.npy"), "--out", out]
        assert main([*words, *asked]) == 0
        kernels.append(read_arrays(out)["ntk"])
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-12)


def test_the_old_meaning_of_normalise_is_refused_with_the_new_word(
    stated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("kernels", stated, "--inputs", "x.npy", "--normalise", "width")
    assert "--scale width" in one_line_error(capsys, *words)


def test_inspect_sees_the_pixels_and_the_test_examples_that_the_user_had(
    stated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indices = str(tmp_path / "test.npy")
    np.save(indices, np.arange(100, 300))
    split = ["--normalise", "0.3/0.4", "--test-indices", indices]
    told = printed_json(capsys, "inspect", stated, *SHOWN, "--json", *split)["inspection"]
    wanted = accuracy_of(trained(nn.ReLU), DataConfig(normalise="0.3/0.4", test_indices=indices))
    assert told["accuracy"]["test"] == pytest.approx(wanted)
    assert "0.3/0.4" in told["data"]["preparation"]
    assert {"200", "test.npy"} <= set(told["data"]["test"].split())


def test_a_network_of_ours_is_shown_the_pixels_that_it_was_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    small = ["--width", "12", "--depth", "3", "--epochs", "1", "--regime", "ReLU", "--quiet"]
    assert main(["train", *small, "--normalise", "mnist", "--out", str(out)]) == 0
    told = printed_json(capsys, "inspect", out / "weights.safetensors", *SHOWN, "--json")
    assert "mnist" in told["inspection"]["data"]["preparation"]
