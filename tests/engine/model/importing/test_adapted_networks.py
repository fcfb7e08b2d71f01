"""The file of a network that was read from a module: what is written is read, nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.importing.adapted_network import KEY, AdaptedNetwork, as_listing
from dgn_engine.model.importing.from_file import architecture_for, matched, network_of
from dgn_engine.model.importing.from_module import adapted_stack
from dgn_engine.random_streams import random_stream
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.save_network import save_network

SHAPE = (1, 8, 8)


class PreActivation(nn.Module):
    """A BatchNorm that follows an addition, so that channels are scaled by a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Linear(64, 12), nn.BatchNorm1d(12)
        self.block, self.last, self.head = nn.Linear(12, 12), nn.BatchNorm1d(12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x.flatten(1))
        h = h + 0.5 * self.block(F.relu(self.norm(h)))
        head: Tensor = self.head(F.relu(self.last(h)))
        return head


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.two, self.skip = nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(4, 6, 1, 2)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.norm(self.one(x))), 2)
        h = F.relu(self.two(h) + self.skip(h))
        head: Tensor = self.head(h.mean((2, 3)))
        return head


MODULES: dict[str, Callable[[], nn.Module]] = {
    "pre-activation blocks": PreActivation,
    "convolutions with a projected skip": Convolutional,
    "dense layers": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 5)
    ),
}


def module_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    module = MODULES[kind]().double()
    for each in module.modules():
        if isinstance(each, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(each.weight, 0.5, 1.5)
            nn.init.normal_(each.bias)
            each.running_mean = torch.randn(each.num_features, dtype=torch.float64)
    return module.eval()


def listing_of(kind: str) -> CheckpointContents:
    network = AdaptedNetwork(adapted_stack(module_of(kind), SHAPE), "Net of nets.py", True)
    return as_listing(network, "net.safetensors")


def written(kind: str, folder: Path) -> Path:
    file = folder / "net.safetensors"
    listing = listing_of(kind)
    state = {name: torch.from_numpy(array) for name, array in listing.arrays.items()}
    save_network(file, state, listing.metadata)
    return file


@pytest.mark.parametrize("kind", MODULES)
def test_the_file_holds_the_network_that_the_module_is(kind: str, tmp_path: Path) -> None:
    listing = read_tensors(written(kind, tmp_path))
    x = torch.randn(6, *SHAPE, dtype=torch.float64)
    found = network_of(listing, SHAPE, None, torch.float64)
    assert found.assuming == ""
    torch.testing.assert_close(found.network(x), module_of(kind)(x))


@pytest.mark.parametrize("kind", MODULES)
def test_another_process_builds_its_architecture_and_takes_its_gates(
    kind: str, tmp_path: Path
) -> None:
    file = written(kind, tmp_path)
    architecture = architecture_for(NetConfig(f"file:{file}"), SHAPE, 5)
    gates = matched(read_tensors(file), architecture)
    assert gates.fits
    weights, biases = adapted_stack(module_of(kind), SHAPE).tensors()
    assert len(gates.weights) == len(weights)
    for mine, theirs in zip(gates.weights, weights, strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-6, atol=1e-7)
    assert [b is None for b in gates.biases] == [b is None for b in biases]


def test_the_same_network_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    first = written("convolutions with a projected skip", tmp_path).read_bytes()
    assert written("convolutions with a projected skip", tmp_path).read_bytes() == first


def test_a_scaled_channel_of_a_fresh_network_lets_its_input_pass() -> None:
    stack = adapted_stack(module_of("pre-activation blocks"), SHAPE)
    stack.draw("kaiming", random_stream(0, "test"))
    scaled = [
        weight
        for layer, weight in zip(stack.architecture.weighted, stack.weights, strict=True)
        if isinstance(layer, arch.ChannelScale)
    ]
    assert len(scaled) == 2
    assert all(bool((weight == 1).all()) for weight in scaled)


def test_other_inputs_are_refused() -> None:
    listing = listing_of("convolutions with a projected skip")
    with pytest.raises(UserError, match="takes inputs of shape 1×8×8, but these examples have 64"):
        network_of(listing, (64,), None)
    with pytest.raises(UserError, match="says itself"):
        network_of(listing, SHAPE, NetConfig("fc"))


def changed(edit: Callable[[dict[str, Any]], object]) -> CheckpointContents:
    listing = listing_of("convolutions with a projected skip")
    tree = json.loads(listing.metadata[KEY])
    edit(tree)
    return replace(listing, metadata={KEY: json.dumps(tree)})


def conv(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tree["nodes"][0][1]
    return found


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another version": lambda tree: tree.update(format="dgn-viewer network 99"),
    "no nodes": lambda tree: tree.pop("nodes"),
    "too many nodes": lambda tree: tree.update(nodes=tree["nodes"] * 2000),
    "a node of no kind": lambda tree: tree["nodes"][0].__setitem__(0, "Attention"),
    "a name that is an attribute": lambda tree: tree["nodes"][0].__setitem__(0, "__class__"),
    "an unknown value": lambda tree: conv(tree).update(groups=2),
    "a kernel of 0": lambda tree: conv(tree).update(kernel=0),
    "a kernel that is a word": lambda tree: conv(tree).update(kernel="3"),
    "a kernel that is true": lambda tree: conv(tree).update(kernel=True),
    "a stride of 0": lambda tree: conv(tree).update(stride=0),
    "a padding beyond the kernel": lambda tree: conv(tree).update(padding=1 << 20),
    "more channels than memory": lambda tree: conv(tree).update(outputs=1 << 40),
    "a BatchNorm that is not folded": lambda tree: conv(tree).update(normal=True),
    "another number of channels": lambda tree: conv(tree).update(outputs=5),
    "a block without an end": lambda tree: tree["nodes"].insert(1, ["Fork", {}]),
    "a factor that is no number": lambda tree: tree["nodes"].insert(
        1, ["Merge", {"pre": float("nan")}]
    ),
    "a shape of nothing": lambda tree: tree.update(input_shape=[]),
    "a title that is a list": lambda tree: tree.update(module=["x"]),
    "a description that is a list": lambda tree: tree.update(nodes={"0": 1}),
}


@pytest.mark.parametrize("kind", EDITS)
def test_a_description_that_makes_no_sense_is_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(UserError, match=r"^net\.safetensors|of net\.safetensors"):
        network_of(changed(EDITS[kind]), SHAPE, None)


@pytest.mark.parametrize("text", ["", "[]", "null", "{" * 5000, '{"format": 1}'])
def test_what_is_no_description_is_refused_in_a_sentence(text: str) -> None:
    listing = replace(listing_of("dense layers"), metadata={KEY: text})
    with pytest.raises(UserError, match=r"net\.safetensors"):
        network_of(listing, SHAPE, None)


@pytest.mark.parametrize("kind", ["missing", "strange", "of another shape", "not finite"])
def test_tensors_that_are_not_those_of_the_nodes_are_refused(kind: str) -> None:
    listing = listing_of("dense layers")
    arrays = dict(listing.arrays)
    if kind == "missing":
        del arrays["weights.1"]
    elif kind == "strange":
        arrays["weights.9"] = arrays["weights.1"]
    elif kind == "of another shape":
        arrays["weights.1"] = arrays["weights.1"].T
    else:
        arrays["biases.0"] = arrays["biases.0"] * np.nan
    with pytest.raises(UserError, match=r"net\.safetensors"):
        network_of(replace(listing, arrays=arrays), SHAPE, None)
