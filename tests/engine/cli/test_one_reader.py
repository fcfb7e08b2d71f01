"""What one command opens every command and the window open: the same verdict, the same kernel."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

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
from dgn_engine.session.opened_files import FileTarget, _File, list_file
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.device_data import choose_probe_set
from tests.engine.cli.saved_nets import OTHERS, REFUSED, dense, named, ones, pooled, saved
from tests.engine.cli.typed import printed_json, read_arrays
from tests.refusals import refused_command

N = 6
RELU = FileReading(activation="relu")
STATED = FileReading()
RUN = RunConfig(net=NetConfig("fc"), device="cpu", probe_examples=N)


@pytest.fixture(scope="module")
def examples() -> Examples:
    return load_examples(DataConfig())


OPENED: dict[str, tuple[Callable[[], object], FileReading]] = {
    "a saved dense Sequential": (dense, STATED),
    "its state dict": (lambda: dense().state_dict(), RELU),
    "layers by name": (lambda: named(dense(), "in", "mid", "out"), RELU),
    "a saved convolutional Sequential": (pooled, STATED),
    "its state dict by numbers": (
        lambda: {"state_dict": pooled().state_dict()},
        FileReading(activation="relu", geometry="p1,max2,s1", norm_eps=1e-5),
    ),
}


def read(file: Path, reading: FileReading) -> CheckpointContents:
    return replace(read_tensors(file), reading=reading)


def inspected(file: Path, said: list[str], folder: Path) -> Array:
    out = folder / "inspection"
    asked = ["--data", "digits", "--examples", str(N), "--dtype", "float64", "--scored", "0"]
    assert main(["inspect", str(file), *said, *asked, "--out", str(out)]) == 0
    return read_arrays(out / "kernels.npz")["npk"]


def computed(file: Path, said: list[str], folder: Path, x: Array) -> Array:
    np.save(folder / "x.npy", x)
    out = folder / "k.npz"
    asked = ["--inputs", str(folder / "x.npy"), "--out", str(out), "--scale", "trace"]
    assert main(["kernels", str(file), *said, *asked]) == 0
    return read_arrays(out)["npk"]


def trained_behind(file: Path, reading: FileReading, examples: Examples) -> GatedNetwork:
    listing, shape = read(file, reading), examples.train_x.shape[1:]
    net = net_of(listing, file, shape)
    if net.is_from_file:
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
    kind: str, tmp_path: Path, examples: Examples
) -> None:
    torch.manual_seed(0)
    build, reading = OPENED[kind]
    file, said = saved(tmp_path / "net.pt", build()), shlex.split(reading.command_options)
    chosen = list(choose_probe_set(examples, N, 0).indices)
    x = examples.train_x[chosen]
    kernel = inspected(file, said, tmp_path)
    np.testing.assert_allclose(computed(file, said, tmp_path, x), kernel, rtol=1e-9)
    behind, shown = trained_behind(file, reading, examples), opened(file, reading)
    for network in (behind, shown.network):
        np.testing.assert_allclose(path_kernel(network, x), kernel, rtol=1e-5)


def window_says(file: Path, examples: Examples) -> str:
    """What the page of an opened file says of it as a network of its own."""
    shape = examples.train_x.shape[1:]
    architecture = architecture_for(RUN.net, shape, 10)
    facts = DataFacts(shape, 10)
    shown = LabelledExamples.from_examples(examples)
    target = FileTarget(architecture, architecture, False, True, RUN.data, facts, RUN.net, shown)
    offer = list_file(1, _File(file, read(file, RELU)), target).network
    assert not offer.fits
    return offer.verdict


@pytest.mark.parametrize("kind", REFUSED)
def test_every_door_refuses_it_in_one_sentence_and_the_window_names_no_flag(
    kind: str, tmp_path: Path, examples: Examples
) -> None:
    build, why = REFUSED[kind]
    file = saved(tmp_path / "net.pt", build())
    np.save(tmp_path / "x.npy", examples.train_x[:N])
    doors: tuple[tuple[object, ...], ...] = (
        ("inspect", file, "--data", "digits", "--examples", N),
        ("kernels", file, "--inputs", tmp_path / "x.npy"),
        ("gate-information", file, "--out", tmp_path / "o", "--epochs", 1),
    )
    (said,) = {str(refused_command(*door, "--activation", "relu")) for door in doors}
    window = window_says(file, examples)
    with pytest.raises(UserError) as refusal:
        opened(file, RELU)
    assert str(refusal.value) == window
    assert why in window
    assert "--" not in window
    assert said.startswith(window.partition(". ")[0])
    if "attention" in kind or "past" in kind:  # the user's own code can say it
        assert " --model" in str(refused_command(*doors[0]))


@pytest.mark.parametrize(
    ("net", "told"),
    [("cnn9", ["'cnn9'"]), ("cnn4", ["cnn4 ", "32×1×3×3", "4×1×3×3, 10×4"])],
)
def test_a_named_network_that_cannot_be_says_what_it_wants_and_what_came(
    net: str, told: list[str], tmp_path: Path
) -> None:
    file = saved(tmp_path / "net.pt", ones(a=(4, 1, 3, 3), b=(10, 4)))
    np.save(tmp_path / "x.npy", np.ones((3, 1, 8, 8)))
    for door in (["inspect", "--data", "digits"], ["kernels", "--inputs", str(tmp_path / "x.npy")]):
        sentence = str(refused_command(door[0], file, *door[1:], "--net", net))
        assert [words for words in told if words not in sentence] == []
        assert "with --net" not in sentence  # no loop


def test_a_network_that_says_itself_what_it_is_takes_no_name(tmp_path: Path) -> None:
    file = saved(tmp_path / "net.pt", dense())
    assert "--net cnn4" in str(
        refused_command("inspect", file, "--data", "digits", "--net", "cnn4")
    )


@pytest.mark.parametrize("kind", OTHERS)
def test_what_inspect_takes_for_a_network_it_shows_on_data_and_nothing_else(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    file = saved(tmp_path / "net.pt", OTHERS[kind]())
    told = printed_json(capsys, "inspect", file, "--json")
    shown = ("--data", "digits", "--examples", "10", "--scored", "60")
    reads = main(["inspect", str(file), *shown]) == 0
    assert reads == (told["not_read_because"] is None)
    assert reads or not told["understood_as"].startswith("taken as")
