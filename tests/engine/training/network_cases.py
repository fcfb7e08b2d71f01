"""What each setting of the data, the network and the gates changes, worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Conv
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RegimeSwapped
from tests.engine.slow_table import stream
from tests.engine.training.setting_cases import (
    case,
    examples_of,
    run_of,
    value_weights,
)

# Data


@case("data.name", "data.options")
def _(_: Path) -> None:
    found = examples_of(name="identical", train_limit=0, options=(("dim", 5), ("n", 8)))
    assert found.train_x.shape == (8, 5)
    assert (found.train_x == found.train_x[0]).all()
    assert np.linalg.norm(found.train_x[0]) == pytest.approx(1.0)
    assert examples_of().train_x.shape == (50, 1, 8, 8)


@case("data.root", "data.download")
def _(place: Path) -> None:
    with pytest.raises(UserError, match=str(place / "data")):
        examples_of(name="mnist", root=str(place / "data"))
    (place / "file").write_text("")  # a download would have to be written below a file
    with pytest.raises(UserError, match=str(place / "file")):
        examples_of(name="mnist", root=str(place / "file" / "data"), download=True)


@case("data.binary")
def _(_: Path) -> None:
    whole = examples_of(train_limit=0)
    pair = examples_of(train_limit=0, binary=(7, 3))
    rows = np.isin(whole.train_y, (3, 7))
    assert (pair.train_x == whole.train_x[rows]).all()
    assert (pair.train_y == (whole.train_y[rows] == 3)).all()
    assert pair.signed
    assert pair.class_names == ("7", "3")
    assert run_of(data={"binary": (7, 3)}).architecture.classes == 1
    assert run_of().architecture.classes == 10


@case("data.train_limit", "data.test_limit")
def _(_: Path) -> None:
    found = examples_of(train_limit=30, test_limit=20)
    assert np.bincount(found.train_y).tolist() == [3] * 10
    assert np.bincount(found.test_y).tolist() == [2] * 10
    assert len(examples_of(train_limit=0, test_limit=0).train_y) == 1437
    run = run_of(data={"train_limit": 30, "test_limit": 20})
    assert run.examples == (30, 20)


@case("data.label_noise")
def _(_: Path) -> None:
    true = examples_of(train_limit=1000).train_y
    noisy = examples_of(train_limit=1000, label_noise=0.4).train_y
    assert np.mean(true != noisy) == pytest.approx(0.4 * 0.9, abs=4 * math.sqrt(0.36 * 0.64 / 1000))


@case("data.pixels")
def _(_: Path) -> None:
    true, noise = examples_of(train_limit=500), examples_of(train_limit=500, pixels="random")
    assert noise.train_x.mean() == pytest.approx(true.train_x.mean(), abs=0.01)
    assert noise.train_x.std() == pytest.approx(true.train_x.std(), abs=0.01)
    assert noise.train_x.min() < 0
    assert (noise.test_x == true.test_x).all()


@case("data.variant_seed")
def _(_: Path) -> None:
    first, again, other = (
        examples_of(label_noise=1.0, pixels="random", variant_seed=seed) for seed in (1, 1, 2)
    )
    assert (first.train_x == again.train_x).all()
    assert (first.train_y == again.train_y).all()
    assert not np.isclose(first.train_x, other.train_x).any(axis=(1, 2, 3)).all()
    assert (first.train_y != other.train_y).any()


@case("data.normalise")
def _(_: Path) -> None:
    pixels, scaled = examples_of(), examples_of(normalise="0.5/0.25")
    np.testing.assert_allclose(scaled.train_x, (pixels.train_x - 0.5) * 4, atol=1e-6)
    np.testing.assert_allclose(scaled.test_x, (pixels.test_x - 0.5) * 4, atol=1e-6)


@case("data.image_size", "data.image_channels")
def _(_: Path) -> None:
    pixels, halved = examples_of(), examples_of(image_size=4)
    # A triangle around each pair of pixels: weights 1, 3, 3, 1 over 8; 3, 3, 1 over 7 at an edge.
    along = np.array([[3, 3, 1, *[0] * 5], [0, 1, 3, 3, 1, *[0] * 3]], np.float64)
    along = np.concatenate([along, along[::-1, ::-1]])
    along /= along.sum(axis=1, keepdims=True)
    by_hand = np.einsum("ai,ncij,bj->ncab", along, pixels.test_x.astype(np.float64), along)
    np.testing.assert_allclose(halved.test_x, by_hand, atol=1e-6)
    assert halved.train_x.shape == (50, 1, 4, 4)
    grey = examples_of(image_channels=3, normalise="0,0.5,0/1,1,2")
    assert (grey.train_x[:, 1] == pixels.train_x[:, 0] - np.float32(0.5)).all()
    assert (grey.train_x[:, 2] == pixels.train_x[:, 0] / np.float32(2)).all()
    assert len({pixels.fingerprint, halved.fingerprint, grey.fingerprint}) == 3


@case("data.split_seed", "data.test_indices")
def _(place: Path) -> None:
    whole = {"train_limit": 0, "test_limit": 0}
    first, other = examples_of(**whole), examples_of(**whole, split_seed=4)
    for split in (first, other):  # the same 1,797 images, every class in proportion
        assert np.bincount(split.test_y).tolist() == [36, 37, 35, 37, 36, 36, 36, 36, 35, 36]
        assert np.concatenate([split.train_x, split.test_x]).sum() == pytest.approx(
            np.concatenate([first.train_x, first.test_x]).sum(), rel=1e-6
        )
    assert not np.array_equal(first.test_x, other.test_x)
    file = place / "test.txt"
    file.write_text("3 0 2")  # of the file of digits, which begins with the digits 0, 1, 2, 3
    assert examples_of(**whole, test_indices=str(file)).test_y.tolist() == [0, 2, 3]


# Network


@case("net.name")
def _(_: Path) -> None:
    options = (("channels", 3),)
    architecture = run_of(net={"name": "cnn4", "options": options}).architecture
    assert sum(isinstance(node, Conv) for node in architecture.nodes) == 4


@case("net.options")
def _(_: Path) -> None:
    shapes = [tuple(w.shape) for w in value_weights(run_of())]
    assert shapes == [(9, 64), (9, 9), (9, 9), (10, 9)]


@case("net.bias")
def _(_: Path) -> None:
    run = run_of(net={"bias": True})
    assert [b.tolist() for b in run.trainer.network.value.biases] == [
        [0.0] * n for n in (9, 9, 9, 10)
    ]
    before = run.trainer.network.feature.biases[0].detach().clone()
    run.trainer.step()
    assert all(bool((b != 0).any()) for b in run.trainer.network.value.biases)
    assert not torch.equal(before, run.trainer.network.feature.biases[0])
    assert not len(run_of().trainer.network.value.biases)


@case("net.init")
def _(_: Path) -> None:
    wide = (("depth", 3), ("width", 200))
    for init, kurtosis, largest in (
        ("kaiming", 3.0, 6.0),
        ("bernoulli", 1.0, 1.0),
        ("glorot", 1.8, math.sqrt(3.0)),
    ):
        network = run_of(net={"init": init, "options": wide}).trainer.network
        for weight in (network.value.weights[1], network.feature.weights[1]):
            deviation = math.sqrt(2 / 200) if init != "glorot" else math.sqrt(2 / 400)
            scaled = weight.detach() / deviation
            assert float(scaled.mean()) == pytest.approx(0.0, abs=4 / 200)
            assert float(scaled.square().mean()) == pytest.approx(1.0, abs=0.05)
            assert float((scaled**4).mean()) == pytest.approx(kurtosis, abs=0.25)
            assert float(scaled.abs().max()) < largest + 1e-5


@case("net.sigma")
def _(_: Path) -> None:
    run = run_of(net={"init": "bernoulli", "sigma": 0.3})
    for weight in (*value_weights(run), *run.trainer.network.feature.weights):
        assert set((weight.detach() / 0.3).round(decimals=5).flatten().tolist()) == {-1.0, 1.0}


# Gates


@case("gating.regime")
def _(_: Path) -> None:
    own, other = run_of(gating={"regime": "ReLU"}), run_of(gating={"regime": "FR-II"})
    assert (own.trainer.regime.name, other.trainer.regime.name) == ("ReLU", "FR-II")
    x = own.probed.context().x
    hidden = (own.trainer.network.value.weights[0] @ x.T).T
    assert torch.equal(own.probed.context().gates[0], (hidden > 0).float())
    hidden = (other.trainer.network.feature.weights[0] @ x.T).T
    assert torch.equal(other.probed.context().gates[0], (hidden > 0).float())


@case("gating.beta", "gating.epsilon")
def _(_: Path) -> None:
    for regime, part in (("DL", "feature"), ("soft-ReLU", "value")):
        run = run_of(gating={"regime": regime, "beta": 3.0, "epsilon": 0.2})
        x, network = run.probed.context().x.double(), run.trainer.network
        q = x @ getattr(network, part).weights[0].double().T
        by_hand = 1.2 / (1.0 + torch.exp(-3.0 * q))
        torch.testing.assert_close(
            run.probed.context().gates[0].double(), by_hand, atol=1e-6, rtol=1e-5
        )
    run.control.set_beta(1.0)  # ε stays
    torch.testing.assert_close(
        run.probed.context().gates[0].double(),
        1.2 / (1.0 + torch.exp(-q)),
        atol=1e-6,
        rtol=1e-5,
    )


@case("gating.value_input")
def _(_: Path) -> None:
    run = run_of(gating={"value_input": "ones"})
    x, network = run.probed.context().x, run.trainer.network
    sums = network.value.weights[0].sum(dim=1)
    torch.testing.assert_close(network.trace(x).value.pre[0], sums.expand(len(x), -1))
    run = run_of(gating={"value_input": "random"})
    fixed = torch.rand(64, generator=stream("input", 0))
    product = run.trainer.network.value.weights[0] @ fixed
    torch.testing.assert_close(
        run.trainer.network.trace(x).value.pre[0], product.expand(len(x), -1)
    )


@case("gating.wiring", "gating.rotation")
def _(_: Path) -> None:
    run = run_of(gating={"wiring": (2, 0, 1), "rotation": (0, 4, -1)})
    trace = run.trainer.network.trace(run.probed.context().x)
    made = [torch.sigmoid(2.0 * q) for q in trace.feature.pre]
    units = torch.arange(9)
    for layer, (source, turn) in enumerate(((2, 0), (0, 4), (1, -1))):
        torch.testing.assert_close(trace.value.gates[layer], made[source][:, (units - turn) % 9])


@case("gating.shift")
def _(_: Path) -> None:
    maps = {"name": "cnn4", "options": (("channels", 3),)}
    run = run_of(net=maps, gating={"shift": (0, 1, 2, 0)})
    trace = run.trainer.network.trace(run.probed.context().x)
    made, used = torch.sigmoid(2.0 * trace.feature.pre[2]), trace.value.gates[2]
    side = made.shape[2]
    for row in range(side):
        for column in range(side):
            there = made[:, :, (row - 2) % side, (column - 2) % side]
            torch.testing.assert_close(used[:, :, row, column], there)


@case("gating.tiling")
def _(_: Path) -> None:
    run = run_of(gating={"tiling": (1, 3, 2), "rotation": (0, 2, 0)})
    trace = run.trainer.network.trace(run.probed.context().x)
    made = torch.sigmoid(2.0 * trace.feature.pre[1])
    turned = made[:, [(unit - 2) % 9 for unit in range(9)]]
    torch.testing.assert_close(trace.value.gates[1], torch.cat([turned] * 3, dim=1))
    assert [tuple(w.shape) for w in value_weights(run)] == [(9, 64), (27, 9), (18, 27), (10, 18)]


@case("gating.gate_probability")
def _(_: Path) -> None:
    run = run_of(gating={"regime": "FRG", "gate_probability": 0.2}, data={"train_limit": 500})
    rows = torch.arange(500)
    gates = run.trainer.control.network_at(rows).trace(run.trainer.data.train_x).value.gates
    for gate in gates:
        assert float(gate.mean()) == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / 4500))
        shares = gate.mean(dim=0)  # a coin for each example and unit, not one for all examples
        assert float(shares.max()) < 0.35


@case("gating.gates_from", "training.weights_from")
def _(place: Path) -> None:
    shapes = [(9, 64), (9, 9), (9, 9), (10, 9)]
    tensors = {f"{i}.weight": torch.randn(shape) for i, shape in enumerate(shapes)}
    save_file(tensors, place / "taken.safetensors")
    path = str(place / "taken.safetensors")
    network = run_of(gating={"regime": "FL", "gates_from": path}).trainer.network
    assert all(map(torch.equal, network.feature.weights, tensors.values()))
    assert not torch.equal(network.value.weights[0], tensors["0.weight"])
    network = run_of(training={"weights_from": path}).trainer.network
    assert all(map(torch.equal, network.value.weights, tensors.values()))
    assert not torch.equal(network.feature.weights[0], tensors["0.weight"])


@case("gating.pretrain_epochs")
def _(_: Path) -> None:
    for epochs, before in ((1, 3), (3, 9), (0, 6)):  # 0: as many as epochs
        events: list[Event] = []
        run = run_of(events=events, gating={"regime": "FL", "pretrain_epochs": epochs})
        while not run.finished:
            run.step()
        (swap,) = [event for event in events if isinstance(event, RegimeSwapped)]
        assert (swap.step, run.step_count) == (before, before + 6)
