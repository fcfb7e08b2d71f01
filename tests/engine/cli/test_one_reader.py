"""What one command opens every command and the window open: the same verdict, the same kernel."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.experiments._gate_information import net_of, network_for
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.frames import Array
from dgn_engine.session.file_readings import LabelledExamples
from dgn_engine.session.frozen_network import InspectedNetwork, InspectionRequest
from dgn_engine.session.network_fit import DataFacts
from dgn_engine.session.opened_files import FileTarget, _File, listed
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.device_data import choose_probe_set

N = 6
RELU = FileReading(activation="relu")
STATED = FileReading()
RUN = RunConfig(net=NetConfig("fc"), device="cpu", probe_examples=N)


@pytest.fixture(scope="module")
def examples() -> Examples:
    return load_examples(DataConfig())


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 10))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def named(state: Mapping[str, Tensor], names: str) -> OrderedDict[str, Tensor]:
    return OrderedDict(zip(names.split(), state.values(), strict=True))


OPENED: dict[str, tuple[Callable[[], object], FileReading]] = {
    "a saved dense Sequential": (dense, STATED),
    "its state dict": (lambda: dense().state_dict(), RELU),
    "layers by name": (
        lambda: named(
            dense().state_dict(), "in.weight in.bias mid.weight mid.bias out.weight out.bias"
        ),
        RELU,
    ),
    "a saved convolutional Sequential": (convolutional, STATED),
    "its state dict by numbers": (
        lambda: {"state_dict": convolutional().state_dict()},
        FileReading(activation="relu", geometry="p1,max2,s1", norm_eps=1e-5),
    ),
}


def normed() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(64, 10)))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "weight normalisation": (lambda: normed().state_dict(), "of weight normalisation"),
    "old weight normalisation": (
        lambda: {"0.weight_g": torch.ones(9, 1), "0.weight_v": torch.ones(1, 64)},
        "of weight normalisation",
    ),
    "a LoRA pair": (
        lambda: {"q.lora_A.weight": torch.ones(4, 64), "q.lora_B.weight": torch.ones(10, 4)},
        "of a LoRA adapter",
    ),
    "an attention": (
        lambda: {f"{name}.weight": torch.ones(64, 64) for name in "qkvo"},
        "of attention",
    ),
    "a projected attention": (
        lambda: {f"a.{name}_proj.weight": torch.ones(64, 64) for name in "qkvo"},
        "of attention",
    ),
    "a layer past others": (
        lambda: {f"{name}.weight": torch.ones(64, 64) for name in ("one", "skip", "two")},
        "past others",
    ),
    "other inputs": (
        lambda: {"a.weight": torch.ones(4, 9), "b.weight": torch.ones(10, 4)},
        "takes 9 inputs, but these examples have 64",
    ),
}


def saved(folder: Path, content: object) -> Path:
    if isinstance(content, nn.Module):
        content.eval()
    path = folder / "net.pt"
    torch.save(content, path)
    return path


def read(file: Path, reading: FileReading) -> CheckpointContents:
    return replace(read_tensors(file), reading=reading)


def inspected(file: Path, said: list[str], folder: Path) -> Array:
    out = folder / "inspection"
    asked = ["--data", "digits", "--examples", str(N), "--dtype", "float64", "--scored", "0"]
    assert main(["inspect", str(file), *said, *asked, "--out", str(out)]) == 0
    with np.load(out / "kernels.npz") as found:
        return np.asarray(found["npk"])


def computed(file: Path, said: list[str], folder: Path, x: Array) -> Array:
    np.save(folder / "x.npy", x)
    out = folder / "k.npz"
    asked = ["--inputs", str(folder / "x.npy"), "--out", str(out), "--scale", "trace"]
    assert main(["kernels", str(file), *said, *asked]) == 0
    with np.load(out) as found:
        return np.asarray(found["npk"])


def trained_behind(file: Path, reading: FileReading, examples: Examples) -> GatedNetwork:
    listing, shape = read(file, reading), examples.train_x.shape[1:]
    net = net_of(listing, file, shape)
    if net.of_file:
        net = replace(net, options=reading.to_options())
    found = network_for(listing, examples).network
    same = architecture_for(net, shape, 10)
    assert same.nodes == found.architecture.nodes  # value networks have the very layers of the file
    return found


def opened(file: Path, reading: FileReading) -> InspectedNetwork:
    given = InspectionRequest(file, read(file, reading), RUN, RUN.data)
    return InspectedNetwork(1, given, lambda _e: None, lambda *_a: None)


def path_kernel(network: GatedNetwork, x: Array) -> Array:
    network = network.double()
    given = torch.from_numpy(x).double().reshape(len(x), *network.architecture.input_shape)
    with torch.no_grad():
        return k.SharedKernels(network, given).npk("trace").numpy()


@pytest.mark.parametrize("kind", OPENED)
def test_every_door_opens_it_and_finds_the_same_kernel(
    kind: str, tmp_path: Path, examples: Examples, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    build, reading = OPENED[kind]
    file, said = saved(tmp_path, build()), shlex.split(reading.options)
    chosen = list(choose_probe_set(examples, N, 0).indices)
    x = examples.train_x[chosen]
    kernel = inspected(file, said, tmp_path)
    np.testing.assert_allclose(computed(file, said, tmp_path, x), kernel, rtol=1e-9)
    behind, shown = trained_behind(file, reading, examples), opened(file, reading)
    for network in (behind, shown.network):
        np.testing.assert_allclose(path_kernel(network, x), kernel, rtol=1e-5)
    capsys.readouterr()


def window_says(file: Path, examples: Examples) -> str:
    """What the page of an opened file says of it as a network of its own."""
    shape = examples.train_x.shape[1:]
    architecture = architecture_for(RUN.net, shape, 10)
    facts = DataFacts(shape, 10)
    shown = LabelledExamples.of(examples)
    target = FileTarget(architecture, architecture, False, True, RUN.data, facts, RUN.net, shown)
    offer = listed(1, _File(file, read(file, RELU)), target).network
    assert not offer.fits
    return offer.verdict


@pytest.mark.parametrize("kind", REFUSED)
def test_every_door_refuses_it_in_one_sentence_and_the_window_names_no_flag(
    kind: str, tmp_path: Path, examples: Examples, capsys: pytest.CaptureFixture[str]
) -> None:
    build, why = REFUSED[kind]
    file = saved(tmp_path, build())
    np.save(tmp_path / "x.npy", examples.train_x[:N])
    said = []
    for asked in (
        ["inspect", str(file), "--data", "digits", "--examples", str(N)],
        ["kernels", str(file), "--inputs", str(tmp_path / "x.npy")],
        ["gate-information", str(file), "--out", str(tmp_path / "o"), "--epochs", "1"],
    ):
        assert main([*asked, "--activation", "relu"]) == 2
        said.append(capsys.readouterr().err.partition(": ")[2].strip())
    assert len(set(said)) == 1
    window = window_says(file, examples)
    with pytest.raises(UserError, match=why) as refusal:
        opened(file, RELU)
    assert str(refusal.value) == window
    assert "--" not in window
    first = window.partition(". ")[0]
    assert said[0].startswith(first)
    assert "\n" not in said[0]


@pytest.mark.parametrize("kind", ["an attention", "a projected attention", "a layer past others"])
def test_what_no_file_can_say_is_sent_to_the_users_own_code(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, REFUSED[kind][0]())
    assert main(["inspect", str(file), "--data", "digits", "--examples", str(N)]) == 2
    assert " --model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--net", "cnn9"], "There is no network 'cnn9'; choose one of "),
        (["--net", "cnn4"], "cnn4 on these examples wants 32×1×3×3, "),
        (["--net", "cnn4"], "; the file has 4×1×3×3, 10×4."),
    ],
)
def test_a_named_network_that_cannot_be_says_what_it_wants_and_what_came(
    asked: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, {"a.weight": torch.ones(4, 1, 3, 3), "b.weight": torch.ones(10, 4)})
    np.save(tmp_path / "x.npy", np.ones((3, 1, 8, 8)))
    for door in (["inspect", "--data", "digits"], ["kernels", "--inputs", str(tmp_path / "x.npy")]):
        assert main([door[0], str(file), *door[1:], *asked]) == 2
        told = capsys.readouterr().err
        assert words in told
        assert "it with --net" not in told  # no loop


def test_a_network_that_says_itself_what_it_is_takes_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, dense())
    assert main(["inspect", str(file), "--data", "digits", "--net", "cnn4"]) == 2
    assert "says itself what its network is; leave out --net cnn4" in capsys.readouterr().err


def test_gate_information_trains_behind_the_gates_of_a_network_that_has_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    file = saved(tmp_path, convolutional())
    out = tmp_path / "out"
    asked = ["--epochs", "1", "--seeds", "1", "--train-limit", "64", "--batch", "32", "--quiet"]
    asked += ["--executor", "serial"]
    assert main(["gate-information", str(file), *asked, "--out", str(out)]) == 0
    capsys.readouterr()
    weights = sorted((out).rglob("weights.safetensors"))
    assert weights
    theirs = read_tensors(weights[0]).arrays
    assert theirs["feature.weights.1"].shape == (4, 3, 3, 3)
