"""A trained network looked at on examples: what is said of it is what is computed slowly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.data._normalisation import NORMALISATIONS
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.importing.from_file import network_of
from dgn_engine.kernels.gate_statistics import GateStatisticsSettings, accuracy, gate_statistics
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.file_reading import FileReading
from tests.engine.importing.torch_networks import match_by_shape, narrow_resnet, state_arrays
from tests.refusals import refused, refused_command


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 10)
    )
    path = tmp_path / "trained.pt"
    torch.save(network.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def residual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("files") / "last.ckpt"
    state = narrow_resnet("BasicBlock", (1, 1, 1, 1)).state_dict()
    torch.save({"epoch": 3, "state_dict": {f"model.{n}": t for n, t in state.items()}}, path)
    return path


def resnet() -> GatedNetwork:
    arrays = state_arrays(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    return match_by_shape(arrays, (3, 32, 32), FileReading(geometry="torchvision")).network


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["inspect", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)["inspection"]
    return found


def test_every_figure_of_a_layer_is_counted_from_its_gates() -> None:
    network = resnet()
    x = torch.randn((4, 3, 32, 32), dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    look = gate_statistics(network, x, labels, GateStatisticsSettings(layers=(1, 2)))
    gates = network.trace(x).value.gates[1]
    first = look.layers[0]
    assert (first.name, first.shape) == ("conv 2", (4, 8, 8))
    assert first.open == pytest.approx(float(gates.mean()))
    by_unit = gates.transpose(0, 1).flatten(1)
    assert first.never == sum(not bool(unit.any()) for unit in by_unit)
    assert first.always == sum(bool(unit.all()) for unit in by_unit)
    flat = gates.flatten(1)
    cosines = torch.nn.functional.cosine_similarity(flat[:, None], flat[None], dim=2)
    assert first.overlap.same == pytest.approx(float((cosines[0, 1] + cosines[2, 3]) / 2))
    assert first.overlap.other == pytest.approx(float(cosines[:2, 2:].mean()))
    assert look.layers[1].name == "sum 3"
    assert look.relative is None
    assert look.nu is not None
    assert look.outside == pytest.approx(0.0, abs=1e-12)
    assert look.contradictory == 0
    labels = torch.tensor([0, 0, 1])
    again = gate_statistics(network, x[[0, 1, 1]], labels, GateStatisticsSettings(layers=(1,)))
    assert (again.rank, again.contradictory) == (2, 2)
    assert again.outside is not None
    assert again.outside > 0.2
    masks = network.trace(x).value.masks
    H = k.neural_path_kernel(network.architecture, network.trace(x).value.gates, x, "trace", masks)
    np.testing.assert_allclose(look.arrays["npk"], H.detach().numpy(), rtol=1e-10)


def test_an_estimate_lies_near_the_exact_kernel_weighted_by_width() -> None:
    network = resnet()
    x = torch.randn((4, 3, 32, 32), dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    settings = GateStatisticsSettings(road="estimate", draws=300, seed=1)
    look = gate_statistics(network, x, labels, settings)
    trace = network.trace(x).value
    exact = k.neural_path_kernel(network.architecture, trace.gates, x, "width", trace.masks)
    exact = (exact / exact.trace()).detach()
    error = float((torch.from_numpy(look.arrays["npk"]) - exact).norm() / exact.norm())
    assert look.relative is not None
    assert error < 3 * look.relative < 0.6
    assert look.weighted
    assert (look.sensitive, look.nu) == (None, None)
    over = k.overlap(network.architecture, trace.gates, "width", trace.masks).detach()
    apart = torch.from_numpy(look.arrays["overlap"]) - over
    assert float(apart.norm() / over.norm()) < 0.5


def test_a_network_too_large_for_the_exact_kernel_is_estimated_and_for_a_pass_refused() -> None:
    network = resnet()
    x = torch.randn((3, 3, 32, 32), dtype=torch.float64)
    labels = torch.tensor([0, 1, 1])
    assert (
        gate_statistics(network, x, labels, GateStatisticsSettings(seconds=0, draws=2)).relative
        is not None
    )
    with refused("too-large"):
        gate_statistics(network, x, labels, GateStatisticsSettings(memory_bytes=1000))


def test_a_dense_file_is_shown_with_its_own_accuracy(
    dense: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    options = ["--activation", "relu", "--data", "digits", "--examples", "30", "--out", str(out)]
    found = told([str(dense), *options], capsys)
    assert found == json.loads((out / "inspection.json").read_text())
    kernels = found["kernels"]
    assert isinstance(kernels, dict)
    assert kernels["road"] == "exact"
    with np.load(out / "kernels.npz") as arrays:
        assert arrays["npk"].shape == (30, 30)
        assert len(arrays["indices"]) == 30
    from dgn_engine.config import DataConfig
    from dgn_engine.data import load_examples
    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    examples = load_examples(DataConfig())
    said = replace(read_tensors(dense), reading=FileReading(activation="relu"))
    network = network_of(said, (64,)).network
    x = torch.from_numpy(examples.test_x).reshape(-1, 64)
    right = accuracy(network, x, torch.from_numpy(examples.test_y))
    assert found["accuracy"] == {"test": right, "examples": 360, "of": 360}


def test_a_lightning_resnet_is_shown_in_words(
    residual: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", "digits", "--examples", "10", "--size", "32", "--layers", "1,3"]
    assert main(["inspect", str(residual), "--geometry", "torchvision", *arguments]) == 0
    said = capsys.readouterr().out
    for part in ("13 weight layers, 5 classes", "all 3 channels", "exact, assuming ReLU"):
        assert part in said
    assert [line.split()[:2] for line in said.splitlines() if "×16" in line] == [["conv", "1"]]


def test_an_empty_normalisation_is_refused(dense: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["inspect", str(dense), "--data", "digits", "--normalise", ""])
    assert "--normalise" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--size 32", "--data"),
        ("--kernels exact", "--data"),
        ("--data digits --examples 1", "--examples is 1"),
        ("--data digits --option width=3", "--net"),
        (f"--data digits --split-seed {'9' * 20}", "2^31"),
        ("--data digits --test-indices=", "--test-indices"),
        ("--data digits --split-seed 1 --test-indices x.npy", "--split-seed and --test-indices"),
        ("--data digits --memory nan", "--memory is nan"),
        ("--data digits --layers 3", "1…2"),
        ("--data digits --normalise imagenet", "3 channels"),
        ("--data digits --size 9", "81"),
        ("--data nowhere", "'nowhere'"),
    ],
)
def test_what_makes_no_sense_is_refused(dense: Path, options: str, named: str) -> None:
    assert named in str(refused_command("inspect", dense, "--activation", "relu", *options.split()))


def test_images_are_resized_cut_and_normalised_as_said() -> None:
    images = torch.rand((2, 3, 20, 40))
    found = Preprocessing(10, "imagenet", 3)(images)
    assert found.shape == (2, 3, 10, 10)
    flat = torch.full((1, 3, 20, 40), 0.5)
    expected = (0.5 - NORMALISATIONS["imagenet"][0][1]) / 0.224
    torch.testing.assert_close(
        Preprocessing(10, "imagenet", 3)(flat)[:, 1], torch.full((1, 10, 10), expected)
    )
    grey = torch.rand((2, 1, 8, 8))
    torch.testing.assert_close(Preprocessing(channels=3)(grey)[:, 2], grey[:, 0])
    words = Preprocessing(8, "none", 3).in_words((1, 8, 8)).split(", ")
    assert [part in word for part, word in zip("38", words, strict=False)] == [True, True]
