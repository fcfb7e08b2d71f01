"""What a state dict leaves open is asked with the readings that fit; what is then typed computes
the numbers of plain torch."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.experiments.report import document
from tests.engine.cli.typed import printed_json, read_arrays
from tests.engine.cli.user_code import mean_kernel
from tests.refusals import refused_command

N = 8  # inputs of kernels
SHORT = [
    *("--epochs", "1", "--seeds", "1", "--train-limit", "64", "--executor", "serial", "--quiet"),
    *("--device", "cpu"),
]


class BatchNormBehind(nn.Module):
    """BatchNorm behind the activation, which names do not say."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1, self.fc2 = nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10)
        self.bn1.running_mean = torch.rand(16)
        self.bn1.running_var = torch.rand(16) + 0.1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc2(self.bn1(torch.relu(self.fc1(x.flatten(1)))))
        return y


class Normalised(nn.Module):
    """It normalises its inputs itself, by buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.25]))
        self.register_buffer("std", torch.tensor([0.5]))
        self.layers = dense(nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers((x.flatten(1) - self.mean) / self.std)
        return y


def dense(activation: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 16), activation, nn.Linear(16, 10))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 4, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10)
    )


def folded(module: nn.Module) -> nn.Module:
    """The BatchNorm of `BatchNormBehind` in the layer behind it: K of a file is over these."""
    assert isinstance(module, BatchNormBehind)
    norm, last = module.bn1, module.fc2
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    plain = dense(nn.ReLU()).to(last.weight.dtype)
    plain[0].load_state_dict(module.fc1.state_dict())
    with torch.no_grad():
        plain[2].weight.copy_(last.weight * scale)
        plain[2].bias.copy_(last.bias + last.weight @ (norm.bias - norm.running_mean * scale))
    return plain


@dataclass(frozen=True)
class Kind:
    """A module whose state dict leaves something open, and the options that say what it is.

    `more`: what is typed beside them from the beginning; `gates`: whether it has gates that are
    known here; `stated`: the module over whose parameters K is.
    """

    build: Callable[[], nn.Module]
    reading: str
    more: tuple[str, ...] = ()
    gates: bool = True
    stated: Callable[[nn.Module], nn.Module] = lambda module: module


KINDS = {
    "dense": Kind(lambda: dense(nn.ReLU()), "--activation relu"),
    "Flatten in front": Kind(
        lambda: nn.Sequential(nn.Flatten(), *dense(nn.ReLU())),
        "--activation relu --geometry skip,dense,dense",
    ),
    "convolution of stride 2": Kind(convolutional, "--activation relu --geometry s2p1"),
    "BatchNorm behind ReLU": Kind(
        BatchNormBehind,
        "--activation relu --batchnorm after --norm-eps 1e-05",
        stated=folded,
    ),
    "buffers of its inputs": Kind(
        Normalised, "--activation relu --ignore mean,std", more=("--normalise", "0.25/0.5")
    ),
    "tanh": Kind(lambda: dense(nn.Tanh()), "--activation tanh", gates=False),
}


@pytest.fixture(scope="module")
def digits() -> Examples:
    return load_examples(DataConfig())


@pytest.fixture(scope="module")
def modules(digits: Examples) -> dict[str, nn.Module]:
    """Trained on the test digits until each is right: another reading can be no better."""
    y = torch.from_numpy(digits.test_y)
    found = {}
    for name, kind in KINDS.items():
        torch.manual_seed(0)
        module = found[name] = kind.build().eval()
        x = given(module, digits.test_x)
        optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
        for _ in range(600):
            logits = module(x)
            if bool((logits.argmax(1) == y).all()):
                break
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, y).backward()
            optimiser.step()
        assert bool((module(x).argmax(1) == y).all()), name
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Examples) -> Path:
    """The current folder, with inputs and labels; `out` in it is where results go."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", digits.test_x[:N])
    np.save("y.npy", digits.test_y[:N])
    return tmp_path


DOORS = {
    "kernels": ["kernels", "net.pt", "--inputs", "x.npy"],
    "kernels with labels": ["kernels", "net.pt", "--inputs", "x.npy", "--labels", "y.npy"],
    "inspect": ["inspect", "net.pt", "--data", "digits", "--examples", "10"],
    "gate-information": ["gate-information", "net.pt", *SHORT],
}


def offered(answer: str) -> dict[str, float | None]:
    """The readings below an answer, as options, and their accuracy in percent."""
    lines = re.findall(r"^ +(?:([\d.]+) % +)?(--.+)$", answer, re.MULTILINE)
    return {options: float(share) if share else None for share, options in lines}


def given(module: nn.Module, x: Any) -> Tensor:
    """Images (n, 1, 8, 8) as the module takes them."""
    images = torch.from_numpy(x)
    flat = isinstance(module, nn.Sequential) and isinstance(module[0], nn.Linear)
    return images.flatten(1) if flat else images


@pytest.mark.parametrize("name", KINDS)
def test_what_is_open_is_asked_and_the_line_of_the_answer_is_computed_as_torch_does(
    name: str,
    folder: Path,
    modules: dict[str, nn.Module],
    digits: Examples,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind, module = KINDS[name], modules[name]
    torch.save(module.state_dict(), "net.pt")
    for door, command in DOORS.items():
        assert main([*command, *kind.more, "--out", "out"]) == 2, door
        answer = capsys.readouterr()
        assert answer.out == ""
        assert not Path("out").exists()
        readings = offered(answer.err)
        shares = [share for share in readings.values() if share is not None]
        if door == "kernels":
            assert not shares
            for option in re.findall(r"--[a-z-]+", kind.reading):
                assert option in answer.err
            continue
        assert readings[kind.reading] == max(shares) == 100.0, door
        assert shares == sorted(shares, reverse=True)
    typed = [*shlex.split(kind.reading), *kind.more]
    for door in ("kernels", "kernels with labels"):
        assert main([*DOORS[door], *typed, "--out", f"{door}.npz"]) == 0
        found = read_arrays(f"{door}.npz")
        assert ("npk" in found) == kind.gates
        exact = kind.stated(copy.deepcopy(module).double())
        wanted = mean_kernel(exact, given(exact, digits.test_x[:N]).double())
        np.testing.assert_allclose(found["ntk"], wanted, rtol=1e-10)
    for door in ("inspect", "gate-information"):
        capsys.readouterr()
        assert main([*DOORS[door], *typed, "--out", "out"]) == (0 if kind.gates else 2)
        if not kind.gates:
            assert capsys.readouterr().err.count("\n") == 1
            assert not Path("out").exists()
        elif door == "inspect":
            told = json.loads(Path("out", "inspection.json").read_text("utf-8"))
            assert told["accuracy"]["test"] == 1.0
            Path("out").rename("inspected")
        else:
            assert document.read_document(Path("out")).details["own"]["percent"] == 100.0


@pytest.mark.parametrize("name", KINDS)
def test_a_listing_says_what_is_open_and_what_was_said(
    name: str, folder: Path, modules: dict[str, nn.Module], capsys: pytest.CaptureFixture[str]
) -> None:
    kind = KINDS[name]
    torch.save(modules[name].state_dict(), "net.pt")
    told = printed_json(capsys, "inspect", "net.pt", "--json")
    for option in re.findall(r"--[a-z-]+", kind.reading):
        assert option in told["not_read_because"]
    assert not told["understood_as"].startswith("taken as")
    told = printed_json(capsys, "inspect", "net.pt", *shlex.split(kind.reading), "--json")
    assert (told["not_read_because"] is None) == kind.gates


def bare() -> nn.Module:
    return dense(nn.ReLU())


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


RELU = "--activation relu"
SAID_WRONG = [  # a network, the options that it cannot have, what the sentence names
    (bare, "--activation rleu", "rleu"),
    (bare, "--activation relu:2", "relu:2"),
    (convolutional, f"{RELU} --geometry s1,s1", "--geometry"),
    (convolutional, f"{RELU} --geometry q9", "q9"),
    (bare, f"{RELU} --geometry p1", "--geometry"),
    (normed, f"{RELU} --norm-eps 1e-5 --batchnorm after", "BatchNorm '1'"),
    (bare, f"{RELU} --batchnorm after", "--batchnorm"),
    (normed, f"{RELU} --norm-eps nan", "nan"),
    (bare, f"{RELU} --ignore nothing", "nothing"),
    (bare, f"{RELU} --net fc", "--net"),
    (bare, f"{RELU} --order 0.weight,3.weight", "3.weight"),
]


@pytest.mark.parametrize(("build", "options", "named"), SAID_WRONG)
def test_what_cannot_be_of_a_file_is_refused_in_one_sentence(
    build: Callable[[], nn.Module], options: str, named: str, folder: Path
) -> None:
    torch.save(build().state_dict(), "net.pt")
    refused_by_all(["net.pt"], options, named)


def refused_by_all(network: list[str], options: str, named: str) -> None:
    """Refuse `options` beside a network in each command, and write nothing."""
    for door, (command, _, *more) in DOORS.items():
        refusal = refused_command(command, *network, *more, *shlex.split(options), "--out", "out")
        assert named in str(refusal), door
        assert not Path("out").exists()


def test_a_network_that_says_what_it_is_takes_no_reading(folder: Path) -> None:
    torch.save(bare(), "whole.pt")
    (folder / "open_nets.py").write_text("raise AssertionError('this is not run')", "utf-8")
    small = ["--width", "8", "--depth", "3", "--epochs", "1", "--regime", "ReLU", "--quiet"]
    assert main(["train", *small, "--train-limit", "64", "--out", "run"]) == 0
    weights = str(Path("run", "weights.safetensors"))
    for network in (["whole.pt"], [weights], ["run"], ["--model", "open_nets:net"]):
        for options in (RELU, "--geometry p1"):
            refused_by_all(network, options, options.split()[0])
