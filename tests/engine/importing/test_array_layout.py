"""Files whose layers or matrices stand otherwise than torch has them, and what they leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from tests.engine.importing.autograd_comparison import list_content
from tests.refusals import refused

DEEP = [(10, 8), (8, 8), (8, 3)]
SQUARE = [(8, 8)] * 3


def drawn(shapes: list[tuple[int, int]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=shape) for shape in shapes]
    return weights, [generator.normal(size=weight.shape[1]) for weight in weights]


def dense(x: Tensor, weights: list[np.ndarray], biases: list[np.ndarray]) -> Tensor:
    """As Keras computes: x @ kernel + bias, ReLU between."""
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ torch.from_numpy(weight) + torch.from_numpy(bias)
        x = torch.relu(x) if place + 1 < len(weights) else x
    return x


def read(path: Path, inputs: int = 10, order: Sequence[str] = ()) -> ImportedNetwork:
    """With ReLU between its layers."""
    said = FileReading(activation="relu", order=tuple(order))
    return network_of(
        replace(list_content(path.read_bytes(), path.name), reading=said), (inputs,), torch.float64
    )


def saved(folder: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    path = folder / "net.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's stub takes no mapping
    return path


@pytest.mark.parametrize(
    ("weight", "bias", "shapes"),
    [
        ("dense_{}/kernel:0", "dense_{}/bias:0", DEEP),
        ("dense_{}/kernel:0", "dense_{}/bias:0", SQUARE),
        ("params/Dense_{}/kernel", "params/Dense_{}/bias", DEEP),
        ("params.Dense_{}.kernel", "params.Dense_{}.bias", SQUARE),
        ("mlp/~/linear_{}/w", "mlp/~/linear_{}/b", DEEP),
        ("W{}", "b{}", DEEP),
        ("coefs_{}", "intercepts_{}", DEEP),
    ],
)
def test_matrices_of_inputs_by_outputs_are_turned_and_that_is_said(
    weight: str, bias: str, shapes: list[tuple[int, int]], tmp_path: Path
) -> None:
    weights, biases = drawn(shapes)
    arrays = {weight.format(place): w for place, w in enumerate(weights)}
    arrays |= {bias.format(place): b for place, b in enumerate(biases)}
    found = read(saved(tmp_path, arrays), shapes[0][0])
    x = torch.randn(5, shapes[0][0], dtype=torch.float64)
    torch.testing.assert_close(found.network(x), dense(x, weights, biases))
    assert found.remarks


def test_what_names_and_shapes_do_not_tell_is_refused(tmp_path: Path) -> None:
    weights, _ = drawn(SQUARE)  # rows or columns?
    convolution = {"conv/kernel:0": np.ones((4, 4, 4, 4)), "dense/kernel:0": np.ones((4, 3))}
    for arrays, inputs in (({f"W{n}": w for n, w in enumerate(weights)}, 8), (convolution, 10)):
        with refused("not-supported"):
            read(saved(tmp_path, arrays), inputs)


def test_layers_of_a_list_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12)).double()
    path = tmp_path / "net.pt"
    torch.save(dict(sorted(nn.ModuleDict({"net": layers}).state_dict().items())), path)
    x = wanted = torch.randn(5, 8, dtype=torch.float64)
    for place, layer in enumerate(layers):
        wanted = layer(wanted) if place == 11 else torch.relu(layer(wanted))
    found = read(path, 8)
    torch.testing.assert_close(found.network(x), wanted)
    assert found.remarks


@pytest.mark.parametrize("pair", [("encoder", "decoder"), ("generator", "discriminator")])
def test_two_networks_that_chain_by_accident_are_refused(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    parts = nn.ModuleDict(
        {
            pair[0]: nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 4)),
            pair[1]: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10)),
        }
    )
    torch.save(parts.state_dict(), tmp_path / "net.pt")
    with pytest.raises(UserError, match=f"'{pair[0]}' and '{pair[1]}'"):
        read(tmp_path / "net.pt")


@pytest.mark.parametrize(
    "names",
    [
        ("Q.weight", "K.weight", "V.weight"),
        ("W_Q", "W_K", "W_V"),
        ("l.query_proj.weight", "l.key_proj.weight", "l.value_proj.weight"),
        ("0.loraA", "0.loraB"),
        ("weight_ih", "weight_hh"),
        ("fc.weight", "downsample.weight", "head.weight"),
        ("fc.weight", "mu.weight", "logvar.weight"),
    ],
)
def test_marks_of_something_else_are_refused(names: tuple[str, ...], tmp_path: Path) -> None:
    torch.save({name: torch.randn(8, 8) for name in names}, tmp_path / "net.pt")
    with pytest.raises(UserError) as refusal:
        read(tmp_path / "net.pt", 8)
    assert not isinstance(refusal.value, OpenQuestions)


def test_a_bias_by_another_name_is_asked_about(tmp_path: Path) -> None:
    weights = {"one.weight": torch.randn(8, 10), "one.offset": torch.randn(8)}
    torch.save({**weights, "two.weight": torch.randn(3, 8)}, tmp_path / "net.pt")
    with pytest.raises(OpenQuestions) as asked:
        read(tmp_path / "net.pt")
    assert [question.about for question in asked.value.questions] == ["ignored"]
