"""The file of a network that was read from a module: what is written is read, nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.adapted_network import KEY, AdaptedNetwork, as_listing
from dgn_engine.importing.from_file import (
    ImportedNetwork,
    architecture_for,
    match_file,
    network_of,
)
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.from_module import adapted_stack
from dgn_engine.model.stack import Stack
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.save_network import save_network
from tests.engine.importing.autograd_comparison import list_content
from tests.refusals import refused

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
    listing = list_content(written(kind, tmp_path).read_bytes(), "net.safetensors")
    x = torch.randn(6, *SHAPE, dtype=torch.float64)
    found = network_of(listing, SHAPE, torch.float64)
    assert found.assuming == ""
    torch.testing.assert_close(found.network(x), module_of(kind)(x))


@pytest.mark.parametrize("kind", MODULES)
def test_another_process_builds_its_architecture_and_takes_its_gates(
    kind: str, tmp_path: Path
) -> None:
    file = written(kind, tmp_path)
    architecture = architecture_for(NetConfig(f"file:{file}"), SHAPE, 5)
    gates = match_file(list_content(file.read_bytes(), file.name), architecture)
    assert gates.fits
    weights, biases = adapted_stack(module_of(kind), SHAPE).folded_tensors()
    assert len(gates.weights) == len(weights)
    for mine, theirs in zip(gates.weights, weights, strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-6, atol=1e-7)
    assert [b is None for b in gates.biases] == [b is None for b in biases]


def test_the_same_network_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    first = written("convolutions with a projected skip", tmp_path).read_bytes()
    assert written("convolutions with a projected skip", tmp_path).read_bytes() == first


def test_other_inputs_are_refused() -> None:
    listing = listing_of("convolutions with a projected skip")
    with refused("other-inputs"):
        network_of(listing, (64,))
    with refused("contradiction"):
        network_of(replace(listing, reading=FileReading(net=NetConfig("fc"))), SHAPE)


@pytest.mark.parametrize("text", ["", "[]", "null", "{" * 5000, '{"format": 1}'])
def test_what_is_no_description_is_refused_in_a_sentence(text: str) -> None:
    listing = replace(listing_of("dense layers"), metadata={KEY: text})
    with pytest.raises(UserError, match=r"net\.safetensors"):
        network_of(listing, SHAPE)


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
        network_of(replace(listing, arrays=arrays), SHAPE)


EVERY_NODE = arch.Architecture(
    SHAPE,
    (
        arch.Conv(1, 4, 3, 1, 2, circular=True),
        arch.MaxPool(3, 2, 1),
        arch.Fork(),
        arch.Conv(4, 4, gated=False),
        arch.ChannelScale(4),
        arch.Skip(),
        arch.Conv(4, 4, 1, 1, 0),
        arch.Merge(0.5, 2.0),
        arch.Gating(),
        arch.AveragePool(2, 1),
        arch.Conv(4, 6, 3, 2, 1),
        arch.GlobalMaxPool(),
        arch.Dense(6, 5, factor=0.5),
        arch.Dense(5, 3, gated=False),
    ),
)
JsonPath = tuple[str | int, ...]


@cache
def stated() -> CheckpointContents:
    """A file with a node of nearly each kind, and values that are not the usual ones."""
    stack = Stack(EVERY_NODE, bias=True)
    stack.init_weights("kaiming", torch.Generator().manual_seed(0))
    network = AdaptedNetwork(stack, "Net of nets.py", False, "ReLU")
    listing = as_listing(network, "net.safetensors")
    tree = json.loads(listing.metadata[KEY])
    tree["nodes"][-2][1]["factor"] = 0.5  # what is written here is in the weights
    return replace(listing, metadata={KEY: json.dumps(tree)})


def paths(tree: Any, path: JsonPath = ()) -> Iterator[JsonPath]:
    """Of every value in a JSON tree, and of the tree itself."""
    yield path
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield from paths(tree[key], (*path, key))


LITERALS = (
    "1" + "0" * 400, "-1" + "0" * 400, "9" * 5000, "1e400", "-1e400", "NaN", "Infinity", "1e300",
    "1e-300", "-0.0", "0.5", "3.0", "true", "false", "null", '"3"', '"Dense"', '"\\ud800"', "[]",
    "[3]", "[[[1, 2], 3]]", "{}", '{"kernel": 3}', "-1", "0", "1", "2", "3", "4", "5", "8", "9",
    "1000", "16777216", "16777217", "4294967296", "18446744073709551616",
)  # fmt: skip
HOLE, GONE = "a value that is exchanged", "removed"


def mutated(text: str, changes: list[tuple[JsonPath, str]]) -> str:
    """The text with the value at each path exchanged for a literal, or removed."""
    for path, literal in changes:
        tree = json.loads(text)
        if path not in set(paths(tree)) or not path:
            continue
        where = tree
        for key in path[:-1]:
            where = where[key]
        if literal == GONE:
            del where[path[-1]]
        else:
            where[path[-1]] = HOLE
        text = json.dumps(tree).replace(json.dumps(HOLE), literal)
        try:
            json.loads(text)
        except ValueError:  # a number of too many digits: nothing can be changed after it
            break
    return text


def check_read_or_refused(changes: list[tuple[JsonPath, str]]) -> None:
    """What is read has every value that is written, and computes."""
    text = mutated(stated().metadata[KEY], changes)
    try:
        found = network_of(replace(stated(), metadata={KEY: text}), SHAPE)
    except UserError as error:
        said = str(error)
    else:
        check_read(json.loads(text), found)
        return
    assert "net.safetensors" in said
    assert len(said) < 400


def check_read(tree: dict[str, Any], found: ImportedNetwork) -> None:
    read = found.network.architecture
    assert list(read.input_shape) == tree["input_shape"]
    nodes = [node for node in read.nodes if not isinstance(node, arch.Skip)]
    entries = [entry for entry in tree["nodes"] if entry[0] != "Skip"]
    for node, (kind, values) in zip(nodes, entries, strict=True):
        assert type(node).__name__ == kind
        held = {name: getattr(node, name) for name in values}
        assert held == values
        assert [isinstance(v, bool) for v in held.values()] == [
            isinstance(v, bool) for v in values.values()
        ]
    with torch.no_grad():
        logits = found.network(torch.rand(2, *read.input_shape))
    assert logits.shape == (2, read.classes)


EVERY_CHANGE = [
    (path, literal)
    for path in paths(json.loads(stated().metadata[KEY]))
    for literal in (*LITERALS, GONE)
]


def test_a_description_with_any_one_value_is_read_as_it_is_written_or_refused() -> None:
    assert network_of(stated(), SHAPE).network.architecture == EVERY_NODE
    for change in EVERY_CHANGE[::3]:
        check_read_or_refused([change])


@pytest.mark.nightly
def test_and_so_with_any_one_of_the_other_values() -> None:
    for change in (*EVERY_CHANGE[1::3], *EVERY_CHANGE[2::3]):
        check_read_or_refused([change])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(EVERY_CHANGE), min_size=2, max_size=3))
def test_a_description_with_any_values_is_read_as_it_is_written_or_refused(
    changes: list[tuple[JsonPath, str]],
) -> None:
    check_read_or_refused(changes)


@pytest.mark.parametrize("padding", [8, 9])
def test_circular_padding_goes_around_a_map_once(padding: int) -> None:
    """torch.nn.functional.pad refuses more."""
    nodes = (
        arch.Conv(1, 2, 3, 1, padding, circular=True),
        arch.GlobalAveragePool(),
        arch.Dense(2, 2, gated=False),
    )
    if padding > SHAPE[1]:
        with refused("too-small"):
            arch.Architecture(SHAPE, nodes)
        return
    network = Stack(arch.Architecture(SHAPE, nodes))
    trace = network.run(torch.ones(1, *SHAPE), lambda _, q: (q > 0).to(q.dtype))
    assert trace.inputs[0].shape == (1, *SHAPE)
    assert trace.pre[0].shape == (1, 2, 22, 22)


def test_a_factor_and_a_batchnorm_of_the_layers_are_written_in_the_weights() -> None:
    """Not in the nodes as well, which would count them twice."""
    nodes = (
        arch.Conv(1, 2, normal=True),
        arch.Flatten(),
        arch.Dense(128, 5, factor=0.5),
        arch.Dense(5, 3, gated=False),
    )
    stack = Stack(arch.Architecture(SHAPE, nodes), bias=True)
    stack.init_weights("kaiming", torch.Generator().manual_seed(0))
    listing = as_listing(AdaptedNetwork(stack, "Net of nets.py", True), "net.safetensors")
    read = network_of(listing, SHAPE).network.value
    assert not read.architecture.has_batch_norm
    for wanted, found in zip(stack.folded_tensors()[0], read.folded_tensors()[0], strict=True):
        assert torch.equal(found, wanted)
