"""The step by hand is that of autograd, in every regime and for whatever can be set."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.training.dense_step import suits
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.optimizer import NetworkOptimizer
from dgn_engine.training.trainer import Trainer
from tests.plugins import each

BY_HAND = [regime.name for regime in all_regimes() if not regime.drawn_gates]
CHAIN = Architecture((5,), (Dense(5, 6), Dense(6, 6), Dense(6, 6), Dense(6, 3, gated=False)))
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"net": {"bias": True}},
    "turned": {"gating": {"wiring": (2, 0, 1), "rotation": (1, 0, 4)}},
    "tiled": {"gating": {"tiling": (2, 1, 3), "rotation": (0, 5, 2), "wiring": (1, 2, 0)}},
    "ones": {"gating": {"value_input": "ones", "beta": 3.0}, "net": {"bias": True}},
    "random input": {"gating": {"value_input": "random", "epsilon": 0.2}},
    "squared": {"training": {"loss": "squared"}},
    "momentum": {"training": {"optimiser": "sgd", "momentum": 0.9}},
    "plain descent": {"training": {"optimiser": "sgd"}},
    "rmsprop": {"training": {"optimiser": "rmsprop"}},
}


def trainer(regime: str, classes: int = 3, **parts: dict[str, Any]) -> Trainer:
    """In float64, on 11 drawn examples in batches of 4."""
    config = RunConfig()
    parts = {**parts, "training": {"batch": 4, "learning_rate": 0.02, **parts.get("training", {})}}
    for part, values in parts.items():
        config = replace(config, **{part: replace(getattr(config, part), **values)})
    nodes = (*CHAIN.nodes[:-1], Dense(6, classes, gated=False))
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((11, 5), generator=generator)
    y = torch.randint(0, max(2, classes), (11,), generator=generator)
    data = DeviceData(x, y, x[:4], y[:4])
    cpu = torch.device("cpu")
    made = Trainer(config, Architecture((5,), nodes), data, find_regime(regime), cpu)
    made.network.double()
    made.data = DeviceData(x.double(), y, x[:4].double(), y[:4])
    return made


def assert_equal_steps(ours: Trainer, theirs: Trainer, steps: int = 8) -> None:
    theirs.use_autograd()
    for _ in range(steps):
        ours.step()
        theirs.step()
    found, expected = ours.tensors(), theirs.tensors()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-11, msg=name)
    assert ours.train_score().loss == pytest.approx(theirs.train_score().loss, rel=1e-12)


def chosen() -> list[tuple[str, str]]:
    """Every regime with every setting; where one network takes the weights of the other, nothing
    can be tiled."""
    tied = [name for name in BY_HAND if find_regime(name).on_entry == "share-redrawn"]
    return [(r, s) for r in BY_HAND for s in SETTINGS if s != "tiled" or r not in tied]


@pytest.mark.parametrize(("regime", "setting"), each(chosen()))
def test_eight_steps_by_hand_are_those_of_autograd_to_1e_11(regime: str, setting: str) -> None:
    parts = SETTINGS[setting]
    ours = trainer(regime, **parts)
    before = {name: tensor.clone() for name, tensor in ours.tensors().items()}
    assert_equal_steps(ours, trainer(regime, **parts))
    moved = [
        name for name, tensor in before.items() if not torch.equal(tensor, ours.tensors()[name])
    ]
    trains = {name.split(".")[0] for name in moved}
    assert trains == set(find_regime(regime).trains)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
def test_a_network_with_one_logit_is_stepped_alike(regime: str, loss: str) -> None:
    parts = {"training": {"loss": loss}}
    assert_equal_steps(trainer(regime, 1, **parts), trainer(regime, 1, **parts))


def test_it_follows_swaps_orders_dials_and_imported_biases() -> None:
    """One run by hand and one by autograd through everything that a user may change."""
    pair = [trainer("DL"), trainer("DL")]

    def both(change: Any) -> None:
        for made in pair:
            change(made)
        assert_equal_steps(*pair, steps=3)

    def gates(made: Trainer) -> None:
        generator = torch.Generator().manual_seed(8)
        weights = [torch.randn(w.shape, generator=generator).double() for w in CHAIN_WEIGHTS[:3]]
        biases: list[Tensor | None] = [torch.full((6,), 0.1, dtype=torch.float64)] * 3
        made.take_gates(weights, biases)
        made.network.double()

    assert_equal_steps(*pair, steps=3)
    both(lambda made: made.rewire((1, 2, 0)))
    both(lambda made: made.reroute((0, 2, 1), ()))
    both(lambda made: made.network.set_gate(beta=2.0, epsilon=0.3))
    both(lambda made: made.optimizer.set_learning_rate(0.001))
    both(lambda made: setattr(made.network, "value_input", "ones"))
    both(lambda made: made.swap(find_regime("FL"), restart_value=False))
    both(gates)
    both(lambda made: made.swap(find_regime("DL"), restart_value=False))
    both(lambda made: made.swap(find_regime("ReLU"), restart_value=False))
    both(lambda made: made.swap(find_regime("FRG"), restart_value=False))
    both(lambda made: made.swap(find_regime("FR-II"), restart_value=True))


CHAIN_WEIGHTS = [torch.empty(6, 5), torch.empty(6, 6), torch.empty(6, 6), torch.empty(3, 6)]


def test_a_network_whose_steps_are_not_numbers_is_seen_as_such() -> None:
    made = trainer("DL")
    with torch.no_grad():
        made.network.value.weights[-1].fill_(math.inf)
    made.step()
    assert not made.finite


class Leaky(Stack):
    """A stack of another kind, as a module of one's own has."""


def test_only_chains_of_gated_dense_layers_are_stepped_by_hand() -> None:
    maps = (Conv(1, 2), GlobalAveragePool(), Dense(2, 2, gated=False))
    factor = (Dense(5, 4, factor=0.5), Dense(4, 2, gated=False))
    linear = (Dense(5, 4), Dense(4, 4, gated=False), Dense(4, 2, gated=False))
    assert suits(GatedNetwork(CHAIN))
    assert not suits(GatedNetwork(Architecture((1, 4, 4), maps)))
    assert not suits(GatedNetwork(Architecture((5,), factor)))
    assert not suits(GatedNetwork(Architecture((5,), linear)))
    assert not suits(GatedNetwork(Architecture((5,), (Dense(5, 2, gated=False),))))
    other = GatedNetwork(CHAIN)
    other.feature = Leaky(CHAIN)
    assert not suits(other)


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_update_by_given_gradients_is_torchs_step_bit_for_bit(
    optimiser: str, dtype: torch.dtype
) -> None:
    config = TrainingConfig(optimiser=optimiser, momentum=0.5)
    network = GatedNetwork(CHAIN, True).to(dtype)
    twin = copy.deepcopy(network)
    ours, theirs = NetworkOptimizer(config, network), NetworkOptimizer(config, twin)
    generator = torch.Generator().manual_seed(1)
    trained = [list(net.value.parameters()) for net in (network, twin)]
    for step in range(4):
        if step == 2:  # what was forgotten begins anew
            ours.forget(network.value)
            theirs.forget(twin.value)
        gradients = [torch.randn(p.shape, generator=generator).to(dtype) for p in trained[0]]
        ours.update(trained[0], gradients)
        for parameter, gradient in zip(trained[1], gradients, strict=True):
            parameter.grad = gradient
        theirs.step()
        assert_same(network, twin)
        assert all(parameter.grad is None for parameter in network.parameters())
    ours_state, theirs_state = ours.tensors(network), theirs.tensors(twin)
    assert ours_state.keys() == theirs_state.keys()
    assert all(torch.equal(ours_state[name], theirs_state[name]) for name in ours_state)


def assert_same(one: nn.Module, other: nn.Module) -> None:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
